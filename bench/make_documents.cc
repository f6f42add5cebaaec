// Makes short documents as arrays of tokens, to measure how well they are packed.
//
//   make_documents DATASET [COUNT]
//
// Lengths are uniform between 10 and 400, tokens random, both from a fixed seed.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "shardkit/dataset_writer.h"
#include "shardkit/schema.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const uint64_t count = argc > 2 ? static_cast<uint64_t>(std::atoll(argv[2])) : 65536;
  Column key{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true};
  Column tokens{.name = "tokens", .type = Type::kNdarray, .codec = Codec::kZstd};
  tokens.dtype = Type::kI32;
  const Schema schema = Must(Schema::Create({key, tokens}));
  const auto writer = Must(DatasetWriter::Create(*PosixFileSystem(), argv[1], schema));
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<int32_t> document(10 + random() % 391);
    for (int32_t& token : document) token = static_cast<int32_t>(random() % 32000);
    std::string value;
    const uint64_t shape[] = {document.size()};
    Must(AppendNdarray(Type::kI32, shape, {reinterpret_cast<const char*>(document.data()), 4 * document.size()},
                       &value));
    const std::string name = std::to_string(i);
    Sample sample;
    sample.key = name;
    sample.fields = {{&schema[1], Value(value)}};
    Must(writer->Append(sample, i + 1));
  }
  Must(writer->Finish());
}
