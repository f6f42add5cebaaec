#include "file_target.h"

#include <unistd.h>

#include <filesystem>

namespace shardctl {

absl::StatusOr<std::unique_ptr<FileTarget>> FileTarget::Open(const std::string& path) {
  shardkit::FileSystem& file_system = *shardkit::PosixFileSystem();
  std::unique_ptr<FileTarget> target(new FileTarget());
  target->path_ = path;
  const absl::StatusOr<shardkit::FileInfo> info = file_system.Stat(path);
  if (info.ok() && info->type == shardkit::FileType::kDirectory) {
    return absl::InvalidArgumentError(path + ": is a directory: give the name of a file");
  }
  absl::StatusOr<std::unique_ptr<shardkit::WritableFile>> file;
  if (info.ok() && info->type != shardkit::FileType::kRegular) {
    file = file_system.OpenForAppending(path);
  } else {
    // When the path is a link, its target is replaced and the link stays.
    std::error_code error;
    if (info.ok()) target->path_ = std::filesystem::canonical(path, error).string();
    if (error) target->path_ = path;
    target->temporary_ = target->path_ + ".tmp-" + std::to_string(getpid());
    file = file_system.Create(target->temporary_);
  }
  if (!file.ok()) {
    target->temporary_.clear();  // this object did not create it, so it must not remove it
    if (absl::IsNotFound(file.status())) return absl::NotFoundError(path + ": its directory does not exist");
    return file.status();
  }
  target->file_ = *std::move(file);
  return target;
}

FileTarget::~FileTarget() {
  file_.reset();
  if (!temporary_.empty()) shardkit::PosixFileSystem()->RemoveFile(temporary_).IgnoreError();
}

absl::Status FileTarget::Commit() {
  if (const absl::Status status = file_->Close(); !status.ok()) return status;
  if (temporary_.empty()) return absl::OkStatus();
  const absl::Status status = shardkit::PosixFileSystem()->Rename(temporary_, path_);
  if (status.ok()) temporary_.clear();
  return status;
}

}  // namespace shardctl
