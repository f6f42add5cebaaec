// A file system that passes all calls to another one, under other names, and reports created files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardkit::test {

class ForwardingFileSystem : public FileSystem {
 public:
  // Either function may be empty. `created` is called after a file was created, with its path before
  // `rename`.
  ForwardingFileSystem(FileSystem& base, std::function<std::string(std::string)> rename,
                       std::function<void(const std::string&)> created)
      : base_(base), rename_(std::move(rename)), created_(std::move(created)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode) override {
    return base_.OpenForReading(Name(path), mode);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    auto file = base_.Create(Name(path));
    if (file.ok() && created_) created_(path);
    return file;
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return base_.OpenForAppending(Name(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base_.Rename(Name(from), Name(to));
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    return base_.Link(Name(from), Name(to));
  }
  absl::Status RemoveFile(const std::string& path) override { return base_.RemoveFile(Name(path)); }
  absl::Status RemoveDirectory(const std::string& path) override { return base_.RemoveDirectory(Name(path)); }
  absl::Status CreateDirectory(const std::string& path) override { return base_.CreateDirectory(Name(path)); }
  absl::Status SyncDirectory(const std::string& path) override { return base_.SyncDirectory(Name(path)); }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    return base_.Stat(Name(path), follow);
  }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override { return base_.List(Name(path)); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override { return base_.Lock(Name(path)); }

 private:
  std::string Name(const std::string& path) const { return rename_ ? rename_(path) : path; }

  FileSystem& base_;
  const std::function<std::string(std::string)> rename_;
  const std::function<void(const std::string&)> created_;
};

}  // namespace shardkit::test
