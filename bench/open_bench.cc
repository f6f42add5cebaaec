// Measures the opening of a dataset with many shards.
//
//   open_bench WORK_DIRECTORY [SHARDS]
//
// Writes a dataset of SHARDS shards (default 100,000) of one tiny sample each in memory, and puts its manifest and
// tables into the directory without the shards, because the reader opens these only when they are used.

#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  FileSystem& files = *PosixFileSystem();
  const std::string directory = argv[1];
  const size_t count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100000;
  {
    const std::unique_ptr<FileSystem> memory = NewMemoryFileSystem();
    const Column key{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true};
    DatasetWriterOptions options;
    options.shard_samples = 1;
    options.shard.alignment = 64;
    const auto writer = Must(DatasetWriter::Create(*memory, "/d", Must(Schema::Create({key})), options));
    for (size_t i = 0; i < count; ++i) {
      const std::string name = std::to_string(i);
      Must(writer->Append(Sample{.key = name}));
    }
    Must(writer->Finish());
    Must(CreateDirectories(files, directory));
    for (const std::string_view name : {kManifestName, kIndexName, kKeyTableName, kShardListName}) {
      (void)files.RemoveFile(JoinPath(directory, name));
      const auto bytes = memory->ReadFile(JoinPath("/d", name), UINT64_MAX);
      if (absl::IsNotFound(bytes.status())) continue;  // few shards stand in the manifest
      const auto file = Must(files.Create(JoinPath(directory, name)));
      Must(file->Append(Must(bytes)));
      Must(file->Close());
    }
  }
  std::vector<double> seconds, whole;
  for (int round = 0; round < 7; ++round) {
    std::unique_ptr<DatasetReader> dataset;
    seconds.push_back(Seconds([&] { dataset = Must(DatasetReader::Open(files, directory)); }));
    whole.push_back(Seconds([&] { Must(dataset->ReadManifest()); }));
    if (dataset->sample_count() != count) return 1;
  }
  Report("opening a dataset of " + std::to_string(count) + " shards", Median(seconds) * 1e3, "ms");
  Report("then reading its whole manifest", Median(whole) * 1e3, "ms");
  return 0;
}
