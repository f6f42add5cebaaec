#include "shardkit/filesystem.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit {
namespace {

// "a/b/" -> "a/b", "///" -> "/".
std::string_view WithoutTrailingSlashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

// "" when there is no parent to create: for the root or a single relative component.
std::string_view ParentOf(std::string_view path) {
  path = WithoutTrailingSlashes(path);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || path == "/") return {};
  return slash == 0 ? path.substr(0, 1) : WithoutTrailingSlashes(path.substr(0, slash));
}

// Another process may be removing the same tree, so a missing entry is no error.

}  // namespace

absl::Status RandomAccessFile::ReadBatch(std::span<const ReadRequest> requests) const {
  absl::Status first_error;
  for (const ReadRequest& request : requests) {
    first_error.Update(ReadAt(request.offset, request.buffer));
  }
  return first_error;
}

void RandomAccessFile::StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const {
  done(ReadBatch(requests));
}

bool RandomAccessFile::ReadCached(uint64_t /*offset*/, std::span<const std::span<char>> /*buffers*/) const {
  return false;
}

absl::Status RandomAccessFile::CheckMapped() const { return absl::OkStatus(); }
void RandomAccessFile::WillNeed(uint64_t /*offset*/, uint64_t /*length*/) const {}
void RandomAccessFile::WontNeed(uint64_t /*offset*/, uint64_t /*length*/) const {}

absl::Status WritableFile::AppendPieces(std::span<const std::string_view> pieces) {
  for (const std::string_view piece : pieces) SHARDKIT_RETURN_IF_ERROR(Append(piece));
  return absl::OkStatus();
}

absl::StatusOr<bool> WritableFile::AppendShared(const RandomAccessFile& /*source*/, uint64_t /*offset*/,
                                                uint64_t /*length*/) {
  return false;
}

absl::StatusOr<std::vector<DirectoryEntry>> ReadableFileSystem::List(const std::string& path) {
  std::vector<DirectoryEntry> entries;
  SHARDKIT_RETURN_IF_ERROR(ForEachEntry(path, [&entries](const ListedEntry& entry) {
    entries.push_back({std::string(entry.name), entry.type});
    return absl::OkStatus();
  }));
  std::ranges::sort(entries, {}, &DirectoryEntry::name);
  return entries;
}

absl::StatusOr<std::string> ReadableFileSystem::ReadFile(const std::string& path, uint64_t limit) {
  SHARDKIT_ASSIGN_OR_RETURN(auto file, OpenForReading(path));
  if (file->size() > limit) {
    return ResourceExhausted(path, ": cannot read as a whole: it has ", file->size(), " bytes, more than the ", limit,
                             " expected here");
  }
  std::string content(file->size(), '\0');
  SHARDKIT_RETURN_IF_ERROR(file->ReadAt(0, content));
  return content;
}

absl::Status FileSystem::RenameIfAbsent(const std::string& from, const std::string& to) {
  const absl::Status status = Stat(to, /*follow=*/false).status();
  if (status.ok()) return absl::AlreadyExistsError(StrCat(to, ": cannot rename ", from, " to it: it exists"));
  return absl::IsNotFound(status) ? Rename(from, to) : status;
}

absl::Status CreateDirectories(FileSystem& file_system, const std::string& path) {
  // From the end towards the root, because existing parents may be neither readable nor writable.
  std::vector<std::string> missing;
  std::string current(WithoutTrailingSlashes(path));
  while (true) {
    absl::Status status = file_system.CreateDirectory(current);
    if (status.ok()) break;
    std::string parent(ParentOf(current));
    if (absl::IsAlreadyExists(status)) {
      return absl::AlreadyExistsError(StrCat(current, ": is there, and is no directory: give another name"));
    }
    if (!absl::IsNotFound(status) || parent.empty()) return status;
    missing.push_back(std::exchange(current, std::move(parent)));
  }
  for (; !missing.empty(); missing.pop_back()) {
    SHARDKIT_RETURN_IF_ERROR(file_system.CreateDirectory(missing.back()));
  }
  return absl::OkStatus();
}

absl::Status RemoveTree(FileSystem& file_system, const std::string& path) {
  const absl::StatusOr<FileInfo> info = file_system.Stat(path, /*follow=*/false);
  if (!info.ok()) return IgnoreNotFound(info.status());
  if (info->type != FileType::kDirectory) {
    return FailedPrecondition(path, ": cannot remove tree: it is not a directory");
  }
  // Not recursive, because the depth of a tree is unlimited. Each directory is handled twice: first it is listed, and
  // later, when all entries above it on the stack are gone, removed.
  struct Step {
    std::string path;
    bool listed = false;
  };
  std::vector<Step> steps = {{path}};
  while (!steps.empty()) {
    if (steps.back().listed) {
      SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system.RemoveDirectory(steps.back().path)));
      steps.pop_back();
      continue;
    }
    steps.back().listed = true;
    const std::string directory = steps.back().path;
    const absl::StatusOr<std::vector<DirectoryEntry>> entries = file_system.List(directory);
    if (!entries.ok()) {
      SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(entries.status()));
      continue;
    }
    for (const DirectoryEntry& entry : *entries) {
      std::string entry_path = JoinPath(directory, entry.name);
      if (entry.type == FileType::kDirectory) {
        steps.push_back({std::move(entry_path)});
      } else {
        SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system.RemoveFile(entry_path)));
      }
    }
  }
  return absl::OkStatus();
}

bool IsUrl(std::string_view path) {
  const size_t end = path.find("://");
  return end != path.npos && end > 0 && std::all_of(path.begin(), path.begin() + end, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
         });
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  while (!name.empty() && name.front() == '/' && !directory.empty()) name.remove_prefix(1);
  if (directory.empty()) return std::string(name);
  if (name.empty()) return std::string(directory);
  directory = WithoutTrailingSlashes(directory);
  return directory == "/" ? StrCat("/", name) : StrCat(directory, "/", name);
}

}  // namespace shardkit
