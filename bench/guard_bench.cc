// One pass over a dataset, for bench/guard, which counts its instructions.
//
//   guard_bench open DATASET
//   guard_bench scan DATASET
//   guard_bench random DATASET COLUMN          2,000 values
//   guard_bench epoch DATASET COLUMN DECODE    shuffled; stored, image or masks (224 x 224), or tokens
//
// Each with one thread for each stage. The loader would otherwise try out how many are quickest, which differs from run
// to run.
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "scan.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/loader.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

uint64_t Random(const DatasetReader& dataset, const std::string& name) {
  const size_t column = Must(dataset.FindColumn(name));
  std::mt19937_64 random(1);
  BlockBuffer memory;
  uint64_t bytes = 0;
  for (int i = 0; i < 2000; ++i) {
    bytes += Must(dataset.ReadValue(random() % dataset.sample_count(), column, &memory))->size();
  }
  return bytes;
}

uint64_t Epoch(const std::string& path, const std::string& name, const std::string& decode) {
  const std::map<std::string, ColumnDecode> decodes = {{"stored", ColumnDecode::kStored},
                                                       {"image", ColumnDecode::kImage},
                                                       {"masks", ColumnDecode::kMasks},
                                                       {"tokens", ColumnDecode::kTokens}};
  LoaderOptions options;
  options.plan.seed = 1;
  options.plan.batch_size = decode == "tokens" ? 8 : 64;
  options.plan.shuffle_buffer_bytes = uint64_t{4} << 20;
  options.columns = {{.name = name, .decode = decodes.at(decode)}};
  if (decode == "image") options.geometry.kind = GeometryOptions::Kind::kRandomResizedCrop;
  if (decode == "masks") options.geometry.kind = GeometryOptions::Kind::kResize;
  if (options.geometry.kind != GeometryOptions::Kind::kNative) options.geometry.width = 224;
  options.decode_threads = options.read_threads = 1;
  const auto loader = Must(Loader::Open(*PosixFileSystem(), {{.path = path}}, options));
  uint64_t bytes = 0;
  while (const auto batch = Must(loader->Next())) {
    bytes += batch->column(0).values.size();
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1], path = argv[2];
  uint64_t result = 0;
  if (what == "epoch") {
    if (argc != 5) return 2;
    result = Epoch(path, argv[3], argv[4]);
  } else {
    const auto dataset = Must(DatasetReader::Open(*PosixFileSystem(), path));
    result = what == "scan"     ? ScanAll(*dataset, 0)
             : what == "random" ? Random(*dataset, argv[3])
                                : dataset->sample_count();
  }
  std::printf("%llu\n", static_cast<unsigned long long>(result));
  return result == 0;
}
