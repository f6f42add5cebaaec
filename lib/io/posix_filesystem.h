// The operating system's files. PosixFileSystem() returns the only instance.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "shardkit/filesystem.h"

namespace shardkit::io {

// Thread-safe and without state.
class PosixFileSystemImplementation final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;
};

}  // namespace shardkit::io
