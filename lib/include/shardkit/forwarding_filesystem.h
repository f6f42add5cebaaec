// File systems and files that pass all calls on, to derive decorators from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardkit {

// Owns the file that it passes all calls on to, except ReadCached and StartRead. Thread-safe if that is. Derived
// classes that change what is read override ReadAt, ReadBatch and Mapped.
class ForwardingFile : public RandomAccessFile {
 public:
  explicit ForwardingFile(std::unique_ptr<RandomAccessFile> base) : base_(std::move(base)) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }
  std::string identity() const override { return base_->identity(); }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override { return base_->ReadAt(offset, buffer); }
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override { return base_->ReadBatch(requests); }
  void CancelReads() const override { base_->CancelReads(); }
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

// What reads, of ForwardingReadableFileSystem and of ForwardingFileSystem, which see.
template <typename Interface>
class ForwardingReads : public Interface {
 public:
  explicit ForwardingReads(Interface& base) : base_(base) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    return base_.OpenForReading(BasePath(path), mode, size);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    return base_.Stat(BasePath(path), follow);
  }
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    return base_.ForEachEntry(BasePath(path), take);
  }

 protected:
  // The name that `path` has in `base`.
  virtual std::string BasePath(const std::string& path) const { return path; }

  Interface& base() const { return base_; }

 private:
  Interface& base_;
};

// These pass all calls on to `base`, which must outlive them. Thread-safe if `base` is.
//
// CreateForStreaming and ReadFile are the interfaces' own, which call Create and OpenForReading of this object: a
// derived class that overrides those sees every file.
using ForwardingReadableFileSystem = ForwardingReads<ReadableFileSystem>;

class ForwardingFileSystem : public ForwardingReads<FileSystem> {
 public:
  using ForwardingReads::ForwardingReads;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return base().Create(BasePath(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base().Rename(BasePath(from), BasePath(to));
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    return base().Link(BasePath(from), BasePath(to));
  }
  absl::Status RemoveFile(const std::string& path) override { return base().RemoveFile(BasePath(path)); }
  absl::Status RemoveDirectory(const std::string& path) override { return base().RemoveDirectory(BasePath(path)); }
  absl::Status CreateDirectory(const std::string& path) override { return base().CreateDirectory(BasePath(path)); }
  absl::Status SyncDirectory(const std::string& path) override { return base().SyncDirectory(BasePath(path)); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return base().Lock(BasePath(path));
  }
};

}  // namespace shardkit
