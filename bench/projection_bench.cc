// Counts the bytes of shard files that reading some columns requests from the file system.
//
//   projection_bench SA1B_DATASET

#include <atomic>
#include <memory>

#include "lib/operations/sa1b/sa1b.h"
#include "scan.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

std::atomic<uint64_t> touched = 0;

class CountingFile final : public ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    touched += buffer.size();
    return ForwardingFile::ReadAt(offset, buffer);
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    for (const ReadRequest& request : requests) touched += request.buffer.size();
    return ForwardingFile::ReadBatch(requests);
  }
  // Announced bytes are read, too.
  void WillNeed(uint64_t offset, uint64_t length) const override {
    touched += length;
    ForwardingFile::WillNeed(offset, length);
  }
};

// Counts the reads of shards and passes everything else on.
class CountingFileSystem final : public ForwardingReadableFileSystem {
 public:
  using ForwardingReadableFileSystem::ForwardingReads;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = ForwardingReads::OpenForReading(path, mode, size);
    if (!file.ok() || !path.ends_with(".shard")) return file;
    return std::make_unique<CountingFile>(*std::move(file));
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string path = argv[1];
  DatasetOptions options;
  uint64_t stored = 0;
  {
    const auto dataset = Must(DatasetReader::Open(*PosixFileSystem(), path));
    const std::vector<ColumnStatistics> statistics = Must(dataset->ReadStatistics());
    for (const Column& column : operations::Sa1bColumns()) {
      if (column.is_key || column.type == Type::kJpeg) continue;
      const auto position = dataset->FindColumn(column.name);
      if (!position.ok()) continue;  // no sample has it
      options.columns.push_back(column.name);
      stored += statistics[*position].stored_bytes;
    }
  }
  CountingFileSystem files(*PosixFileSystem());
  uint64_t bytes = 0;
  const uint64_t opened = [&] {
    const auto dataset = Must(DatasetReader::Open(files, path, options));
    for (size_t i = 0; i < dataset->shard_count(); ++i) Must(dataset->OpenShard(i));
    const uint64_t so_far = touched;
    bytes = ScanAll(*dataset, 2);
    return so_far;
  }();
  if (bytes == 0 || stored == 0) return 1;
  Report("annotation columns: bytes touched / stored", static_cast<double>(touched) / static_cast<double>(stored), "");
  Report("annotation columns: stored", static_cast<double>(stored), "bytes");
  Report("opening the shards", static_cast<double>(opened), "bytes");
  return 0;
}
