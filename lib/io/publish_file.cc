#include "io/publish_file.h"

#include <random>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit::io {

namespace {

constexpr std::string_view kUnpublishedSuffix = ".tmp";
constexpr size_t kRandomDigits = 16;

absl::Status Publish(FileSystem& file_system, const std::string& path, const std::string& temporary, bool large,
                     bool must_be_new, std::span<const std::string_view> pieces) {
  const std::string directory = ParentDirectory(path);
  // It may exist from an interrupted run.
  const absl::Status removed = file_system.RemoveFile(temporary);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  const auto publish = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(const auto file,
                              large ? file_system.CreateForStreaming(temporary) : file_system.Create(temporary));
    SHARDKIT_RETURN_IF_ERROR(file->AppendPieces(pieces));
    SHARDKIT_RETURN_IF_ERROR(file->Sync());
    SHARDKIT_RETURN_IF_ERROR(file->Close());
    // Files that this file refers to must be durable first.
    SHARDKIT_RETURN_IF_ERROR(file_system.SyncDirectory(directory));
    return must_be_new ? file_system.RenameIfAbsent(temporary, path) : file_system.Rename(temporary, path);
  };
  if (absl::Status status = publish(); !status.ok()) {
    (void)file_system.RemoveFile(temporary);
    return status;
  }
  return file_system.SyncDirectory(directory);
}

}  // namespace

absl::Status PublishFile(FileSystem& file_system, const std::string& path, std::string_view bytes, bool must_be_new) {
  return Publish(file_system, path, StrCat(path, kUnpublishedSuffix), /*large=*/false, must_be_new, {&bytes, 1});
}

absl::Status PublishFile(FileSystem& file_system, const std::string& path, std::span<const std::string_view> pieces) {
  return Publish(file_system, path, StrCat(path, kUnpublishedSuffix), /*large=*/true, /*must_be_new=*/false, pieces);
}

absl::Status PublishShared(FileSystem& file_system, const std::string& path, std::string_view bytes) {
  return Publish(file_system, path, UniqueTemporary(path), /*large=*/false, /*must_be_new=*/false, {&bytes, 1});
}

std::string UniqueTemporary(const std::string& path) {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return StrCat(path, "~", absl::Hex(number, absl::kZeroPad16), kUnpublishedSuffix);
}

std::string_view TargetOfTemporary(std::string_view path) {
  if (!path.ends_with(kUnpublishedSuffix)) return {};
  path.remove_suffix(kUnpublishedSuffix.size());
  const size_t mark = path.rfind('~');
  if (mark == path.npos || path.size() - mark - 1 != kRandomDigits) return path;
  return path.find_first_not_of("0123456789abcdef", mark + 1) == path.npos ? path.substr(0, mark) : path;
}

std::string ParentDirectory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

}  // namespace shardkit::io
