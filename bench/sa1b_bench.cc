// SA-1B annotations, without images, through the whole converter: JSON to columns, regeneration check, compression,
// shard.
//
//   sa1b_bench DIRECTORY [ROUNDS]

#include <fstream>
#include <sstream>

#include "lib/operations/sa1b/sa1b.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  FileSystem& files = *PosixFileSystem();
  std::vector<std::string> documents;
  uint64_t bytes = 0;
  for (const DirectoryEntry& entry : Must(files.List(argv[1]))) {
    if (!entry.name.ends_with(".json")) continue;
    documents.push_back(Must(files.ReadFile(JoinPath(argv[1], entry.name), uint64_t{1} << 30)));
    bytes += documents.back().size();
  }
  // The image is one byte, so that only the annotations are measured.
  const Schema schema = Must(Schema::Create(operations::Sa1bColumns()));
  uint64_t stored = 0, fallbacks = 0;
  std::vector<Contender> contenders;
  operations::Sa1bConverter converter;
  ByteArena arena;
  std::vector<Field> fields;
  std::vector<std::optional<Value>> values;
  contenders.push_back({"convert only",
                        [&] {
                          for (const std::string& json : documents) {
                            arena.Clear();
                            fields.clear();
                            Must(converter.Convert(json, &arena, &fields));
                          }
                        },
                        {},
                        {}});
  contenders.push_back({"convert, check, compress, write",
                        [&] {
                          const auto memory = NewMemoryFileSystem();
                          ShardOptions options;
                          const auto writer = Must(ShardWriter::Create(*memory, "/bench.shard", schema, options));
                          fallbacks = 0;
                          for (size_t i = 0; i < documents.size(); ++i) {
                            arena.Clear();
                            fields.clear();
                            Must(converter.Convert(documents[i], &arena, &fields));
                            values.assign(schema.size(), std::nullopt);
                            const std::string key = std::to_string(i);
                            values[0] = Value(key);
                            values[1] = Value("j");
                            for (const Field& field : fields) {
                              values[*schema.Find(field.column->name)] = field.value;
                              fallbacks += field.column->name == "source_json";
                            }
                            Must(writer->Append(values));
                          }
                          stored = Must(writer->Finish()).file_length;
                        },
                        {},
                        {}});
  RunAlternating(contenders, argc > 2 ? std::atoi(argv[2]) : 9);
  for (const Contender& contender : contenders) {
    Report("SA-1B JSON, one core, " + contender.name,
           static_cast<double>(bytes) / Median(contender.processor_seconds) / 1e6, "MB of JSON per processor second");
  }
  Report("SA-1B JSON bytes", static_cast<double>(bytes), "bytes");
  Report("SA-1B annotations stored", static_cast<double>(stored), "bytes");
  Report("SA-1B documents kept as text", static_cast<double>(fallbacks), "documents");
  return 0;
}
