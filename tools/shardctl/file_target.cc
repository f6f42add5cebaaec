#include "file_target.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace shardctl {

absl::StatusOr<std::unique_ptr<FileTarget>> FileTarget::Open(const std::string& path) {
  shardkit::FileSystem& file_system = *shardkit::PosixFileSystem();
  std::unique_ptr<FileTarget> target(new FileTarget());
  target->path_ = path;
  const absl::StatusOr<shardkit::FileInfo> info = file_system.Stat(path);
  if (info.ok() && info->type == shardkit::FileType::kDirectory) {
    return absl::InvalidArgumentError(path + ": is a directory: give the name of a file");
  }
  if (info.ok() && info->type != shardkit::FileType::kRegular) {
    target->in_place_ = std::fopen(path.c_str(), "wbe");
    if (target->in_place_ == nullptr) return absl::ErrnoToStatus(errno, path + ": cannot write");
    return target;
  }
  // When the path is a link, its target is replaced and the link stays.
  std::error_code error;
  if (info.ok()) target->path_ = std::filesystem::canonical(path, error).string();
  if (error) target->path_ = path;
  target->temporary_ = target->path_ + ".tmp-" + std::to_string(getpid());
  absl::StatusOr<std::unique_ptr<shardkit::WritableFile>> file = file_system.Create(target->temporary_);
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
  if (in_place_ != nullptr) (void)std::fclose(in_place_);
  if (!temporary_.empty()) shardkit::PosixFileSystem()->RemoveFile(temporary_).IgnoreError();
}

absl::Status FileTarget::Append(std::string_view bytes) {
  if (file_) return file_->Append(bytes);
  if (std::fwrite(bytes.data(), 1, bytes.size(), in_place_) == bytes.size()) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, path_ + ": cannot write");
}

absl::Status FileTarget::Commit() {
  if (in_place_ != nullptr) {
    if (std::fclose(std::exchange(in_place_, nullptr)) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, path_ + ": cannot write");
  }
  if (const absl::Status status = file_->Close(); !status.ok()) return status;
  const absl::Status status = shardkit::PosixFileSystem()->Rename(temporary_, path_);
  if (status.ok()) temporary_.clear();
  return status;
}

}  // namespace shardctl
