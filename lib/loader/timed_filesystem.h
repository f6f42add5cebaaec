// A file system that measures how long reads take.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "shardkit/filesystem.h"

namespace shardkit::loader {

// Passes all calls on to `base`, which must outlive it. Thread-safe if `base` is.
class TimedFileSystem : public FileSystem {
 public:
  explicit TimedFileSystem(FileSystem& base) : base_(base), read_ticks_(std::make_shared<std::atomic<int64_t>>(0)) {}

  // Seconds in reads, summed over threads. Reads through memory maps are not measured.
  double read_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::duration(read_ticks_->load())).count();
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override { return base_.Create(path); }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return base_.OpenForAppending(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override { return base_.Rename(from, to); }
  absl::Status Link(const std::string& from, const std::string& to) override { return base_.Link(from, to); }
  absl::Status RemoveFile(const std::string& path) override { return base_.RemoveFile(path); }
  absl::Status RemoveDirectory(const std::string& path) override { return base_.RemoveDirectory(path); }
  absl::Status CreateDirectory(const std::string& path) override { return base_.CreateDirectory(path); }
  absl::Status SyncDirectory(const std::string& path) override { return base_.SyncDirectory(path); }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override { return base_.Stat(path, follow); }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override { return base_.List(path); }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override {
    return base_.ReadFile(path, limit);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override { return base_.Lock(path); }

 private:
  FileSystem& base_;
  const std::shared_ptr<std::atomic<int64_t>> read_ticks_;
};

}  // namespace shardkit::loader
