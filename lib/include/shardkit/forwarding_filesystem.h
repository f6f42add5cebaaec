// File systems and files that pass all calls on, to derive decorators from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardkit {

// Owns the file that it passes all calls on to, except ReadCached. Thread-safe if that is. Derived classes that change
// what is read override ReadAt, ReadBatch and Mapped.
class ForwardingFile : public RandomAccessFile {
 public:
  explicit ForwardingFile(std::unique_ptr<RandomAccessFile> base) : base_(std::move(base)) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override { return base_->ReadAt(offset, buffer); }
  absl::Status ReadBatch(std::span<const ReadRequest> requests, int depth) const override {
    return base_->ReadBatch(requests, depth);
  }
  ReadHints hints() const override { return base_->hints(); }
  uint64_t alignment() const override { return base_->alignment(); }
  std::optional<std::string_view> Mapped() const override { return base_->Mapped(); }
  absl::Status CheckMapped() const override { return base_->CheckMapped(); }
  void WillNeed(uint64_t offset, uint64_t length) const override { base_->WillNeed(offset, length); }
  void WontNeed(uint64_t offset, uint64_t length) const override { base_->WontNeed(offset, length); }
  std::string fallback_reason() const override { return base_->fallback_reason(); }

 protected:
  const RandomAccessFile& base() const { return *base_; }

 private:
  const std::unique_ptr<RandomAccessFile> base_;
};

// Passes all calls on to `base`, which must outlive it. Thread-safe if `base` is.
//
// CreateForStreaming, ForEachEntry and ReadFile are FileSystem's own, which call Create, List and OpenForReading of
// this object: a derived class that overrides those sees every file.
class ForwardingFileSystem : public FileSystem {
 public:
  explicit ForwardingFileSystem(FileSystem& base) : base_(base) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    return base_.OpenForReading(BasePath(path), mode, size);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return base_.Create(BasePath(path));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return base_.OpenForAppending(BasePath(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base_.Rename(BasePath(from), BasePath(to));
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    return base_.Link(BasePath(from), BasePath(to));
  }
  absl::Status RemoveFile(const std::string& path) override { return base_.RemoveFile(BasePath(path)); }
  absl::Status RemoveDirectory(const std::string& path) override { return base_.RemoveDirectory(BasePath(path)); }
  absl::Status CreateDirectory(const std::string& path) override { return base_.CreateDirectory(BasePath(path)); }
  absl::Status SyncDirectory(const std::string& path) override { return base_.SyncDirectory(BasePath(path)); }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    return base_.Stat(BasePath(path), follow);
  }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override {
    return base_.List(BasePath(path));
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return base_.Lock(BasePath(path));
  }

 protected:
  // The name that `path` has in `base`.
  virtual std::string BasePath(const std::string& path) const { return path; }

  FileSystem& base() const { return base_; }

 private:
  FileSystem& base_;
};

}  // namespace shardkit
