// Counts the bytes of shard files that reading some columns requests from the file system.
//
//   projection_bench SA1B_DATASET

#include <atomic>
#include <memory>

#include "scan.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/sa1b.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

std::atomic<uint64_t> touched = 0;

class CountingFile : public RandomAccessFile {
 public:
  explicit CountingFile(std::unique_ptr<RandomAccessFile> file) : file_(std::move(file)) {}

  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return file_->size(); }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    touched += buffer.size();
    return file_->ReadAt(offset, buffer);
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests, int depth) const override {
    for (const ReadRequest& request : requests) touched += request.buffer.size();
    return file_->ReadBatch(requests, depth);
  }
  uint64_t alignment() const override { return file_->alignment(); }
  // Announced bytes are read, too.
  void WillNeed(uint64_t offset, uint64_t length) const override {
    touched += length;
    file_->WillNeed(offset, length);
  }
  std::string fallback_reason() const override { return file_->fallback_reason(); }

 private:
  const std::unique_ptr<RandomAccessFile> file_;
};

// Counts the reads of shards and passes everything else on. Refuses writes.
class CountingFileSystem : public FileSystem {
 public:
  explicit CountingFileSystem(FileSystem& files) : files_(files) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode) override {
    auto file = files_.OpenForReading(path, mode);
    if (!file.ok() || !path.ends_with(".shard")) return file;
    return std::make_unique<CountingFile>(*std::move(file));
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override { return files_.Stat(path, follow); }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override { return files_.List(path); }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string&) override { return Refused(); }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string&) override { return Refused(); }
  absl::Status Rename(const std::string&, const std::string&) override { return Refused(); }
  absl::Status Link(const std::string&, const std::string&) override { return Refused(); }
  absl::Status RemoveFile(const std::string&) override { return Refused(); }
  absl::Status RemoveDirectory(const std::string&) override { return Refused(); }
  absl::Status CreateDirectory(const std::string&) override { return Refused(); }
  absl::Status SyncDirectory(const std::string&) override { return Refused(); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string&) override { return Refused(); }

 private:
  static absl::Status Refused() { return absl::PermissionDeniedError("projection_bench only reads"); }

  FileSystem& files_;
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
    for (const Column& column : Sa1bColumns()) {
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
