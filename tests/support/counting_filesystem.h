// A file system that counts what is read through it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardkit {

// One request for bytes of a file.
struct ReadRecord {
  uint64_t offset = 0;
  uint64_t length = 0;
};

namespace test {

// Passes all calls on to another file system, which must outlive it and is used for reading only. Thread-safe.
class CountingFileSystem final : public FileSystem {
 public:
  explicit CountingFileSystem(FileSystem* base) : base_(base), log_(std::make_shared<Log>()) {}

  // All requests since the last Reset, in their order.
  std::vector<ReadRecord> reads() const {
    std::lock_guard lock(log_->mutex);
    return log_->reads;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const ReadRecord& read : reads()) sum += read.length;
    return sum;
  }
  void Reset() {
    std::lock_guard lock(log_->mutex);
    log_->reads.clear();
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode) override {
    auto file = base_->OpenForReading(path, mode);
    if (!file.ok()) return file.status();
    return std::make_unique<File>(*std::move(file), log_);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override { return base_->Create(path); }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return base_->OpenForAppending(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override { return base_->Rename(from, to); }
  absl::Status Link(const std::string& from, const std::string& to) override { return base_->Link(from, to); }
  absl::Status RemoveFile(const std::string& path) override { return base_->RemoveFile(path); }
  absl::Status RemoveDirectory(const std::string& path) override { return base_->RemoveDirectory(path); }
  absl::Status CreateDirectory(const std::string& path) override { return base_->CreateDirectory(path); }
  absl::Status SyncDirectory(const std::string& path) override { return base_->SyncDirectory(path); }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override { return base_->Stat(path, follow); }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override { return base_->List(path); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override { return base_->Lock(path); }

 private:
  struct Log {
    std::mutex mutex;
    std::vector<ReadRecord> reads;
  };

  // Without a memory map, so that every byte is asked for.
  class File final : public RandomAccessFile {
   public:
    File(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<Log> log)
        : base_(std::move(base)), log_(std::move(log)) {}
    const std::string& path() const override { return base_->path(); }
    uint64_t size() const override { return base_->size(); }
    absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
      {
        std::lock_guard lock(log_->mutex);
        log_->reads.push_back({offset, buffer.size()});
      }
      return base_->ReadAt(offset, buffer);
    }

   private:
    const std::unique_ptr<RandomAccessFile> base_;
    const std::shared_ptr<Log> log_;
  };

  FileSystem* const base_;
  const std::shared_ptr<Log> log_;
};

}  // namespace test
}  // namespace shardkit
