// Measures the opening of a dataset with many shards.
//
//   open_bench WORK_DIRECTORY [SHARDS]
//
// Makes the manifest of a dataset with SHARDS shards (default 100,000). It does not make the shards, because the reader
// opens them only when they are used.

#include <fstream>

#include "shardkit/dataset_reader.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

// Resident bytes of this process, in MiB.
double ResidentMebibytes() {
  std::ifstream status("/proc/self/statm");
  long total = 0, resident = 0;
  status >> total >> resident;
  return static_cast<double>(resident) * 4096 / 1048576;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  FileSystem& files = *PosixFileSystem();
  const std::string directory = argv[1];
  const size_t count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100000;
  {
    Manifest manifest;
    Column key;
    key.name = "key";
    key.type = Type::kUtf8;
    key.codec = Codec::kZstd;
    key.is_key = true;
    Column data;
    data.name = "jpg";
    data.type = Type::kJpeg;
    manifest.schema = Must(Schema::Create({key, data}));
    for (size_t i = 0; i < count; ++i) {
      ManifestShard shard;
      char name[24];
      std::snprintf(name, sizeof(name), "%08zu.shard", i);
      shard.name = name;
      shard.bytes = 268435456 + i;
      shard.samples = 4000;
      shard.blocks = 64;
      shard.content_hash[i % 16] = static_cast<uint8_t>(i);
      manifest.shards.push_back(shard);
    }
    Must(CreateDirectories(files, directory));
    (void)files.RemoveFile(JoinPath(directory, kManifestName));
    const auto file = Must(files.Create(JoinPath(directory, kManifestName)));
    Must(file->Append(FormatManifest(manifest)));
    Must(file->Close());
  }
  std::vector<double> seconds;
  double grown = 0;
  for (int round = 0; round < 7; ++round) {
    const double before = ResidentMebibytes();
    std::unique_ptr<DatasetReader> dataset;
    seconds.push_back(Seconds([&] { dataset = Must(DatasetReader::Open(files, directory)); }));
    grown = std::max(grown, ResidentMebibytes() - before);
    if (dataset->sample_count() != 4000 * count) return 1;
  }
  Report("opening a dataset of " + std::to_string(count) + " shards", Median(seconds) * 1e3, "ms");
  Report("resident memory of that process", ResidentMebibytes(), "MiB");
  return 0;
}
