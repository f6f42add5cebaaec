#include "dataset/dataset_files.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/manifest_text.h"
#include "io/publish_file.h"
#include "shardkit/history.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kManifestStart = "dataset-";
constexpr std::string_view kManifestEnd = ".json";

}  // namespace

absl::Status CreateDurableDirectory(FileSystem& file_system, const std::string& directory, bool* created) {
  std::vector<std::string> parents;
  std::string path = directory;
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool exists, Exists(file_system, path));
    if (exists) break;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    path = io::ParentDirectory(path);
    parents.push_back(path);
  }
  SHARDKIT_RETURN_IF_ERROR(CreateDirectories(file_system, directory));
  *created = !parents.empty();
  for (const std::string& parent : parents) {
    // A directory that may be written but not read cannot be flushed.
    const absl::Status status = file_system.SyncDirectory(parent);
    if (!status.ok() && !absl::IsPermissionDenied(status)) return status;
  }
  return absl::OkStatus();
}

std::optional<uint64_t> GenerationOfTable(std::string_view name) {
  const bool temporary = name.ends_with(".tmp");
  if (temporary) name.remove_suffix(4);
  const auto skip = [&](std::string_view start) {
    if (!name.starts_with(start)) return false;
    name.remove_prefix(start.size());
    return true;
  };
  if (!skip("dataset")) return std::nullopt;
  std::optional<uint64_t> generation;
  const auto skip_numbers = [&](char mark) {
    while (name.size() > 1 && name[0] == mark && absl::ascii_isdigit(name[1])) {
      name.remove_prefix(1);
      uint64_t number = 0;
      for (; !name.empty() && absl::ascii_isdigit(name[0]); name.remove_prefix(1)) {
        number = 10 * std::min(number, UINT64_MAX / 20) + static_cast<uint64_t>(name[0] - '0');
      }
      if (!generation) generation = number;
    }
  };
  skip_numbers('-');
  if (!skip(".segment") && !skip(".removed") && !skip(kColumnFileSuffix)) {
    return std::nullopt;
  }
  if (temporary) skip_numbers('.');
  if (!name.empty()) return std::nullopt;
  return temporary ? UINT64_MAX : generation.value_or(1);
}

std::string ColumnFileName(uint64_t generation, size_t number) {
  if (number == 0) return NameInGeneration(StrCat("dataset", kColumnFileSuffix), generation);
  return StrCat("dataset-", generation, "-", number, kColumnFileSuffix);
}

std::string KeptManifestName(uint64_t generation) { return StrCat(kManifestStart, generation, kManifestEnd); }

std::optional<uint64_t> GenerationOfKeptManifest(std::string_view name) {
  if (const std::string_view target = io::TargetOfTemporary(name); !target.empty()) name = target;
  if (!name.starts_with(kManifestStart) || !name.ends_with(kManifestEnd) ||
      name.size() < kManifestStart.size() + kManifestEnd.size()) {
    return std::nullopt;
  }
  uint64_t generation = 0;
  const std::string_view digits =
      name.substr(kManifestStart.size(), name.size() - kManifestStart.size() - kManifestEnd.size());
  if (!absl::SimpleAtoi(ToAbsl(digits), &generation) || KeptManifestName(generation) != name) return std::nullopt;
  return generation;
}

bool IsKept(uint64_t generation, uint64_t newest) {
  return generation < newest && newest - generation <= kMostKeptManifests;
}

absl::Status KeepManifest(FileSystem& file_system, const std::string& directory, uint64_t generation,
                          std::string_view bytes) {
  return io::PublishFile(file_system, JoinPath(directory, KeptManifestName(generation)), bytes);
}

absl::StatusOr<Manifest> ReadGeneration(ReadableFileSystem& file_system, const std::string& directory,
                                        uint64_t generation) {
  SHARDKIT_ASSIGN_OR_RETURN(Manifest current, ReadManifestText(file_system, directory));
  const uint64_t newest = current.generation;
  if (newest == generation) return current;
  if (newest < generation) return NotFound(directory, ": has no generation ", generation, ": the newest is ", newest);
  const std::string path = JoinPath(directory, KeptManifestName(generation));
  const absl::StatusOr<std::string> bytes = file_system.ReadFile(path, kMaxManifestBytes);
  if (absl::IsNotFound(bytes.status())) {
    return NotFound(directory, ": generation ", generation, " is not kept; shardctl history ", directory,
                    " lists those that are");
  }
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Manifest> kept = ParseManifestText(*bytes);
  if (!kept.ok()) return Annotate(kept.status(), path);
  if (kept->generation != generation) {
    return DataLoss(path, ": says that it is of generation ", kept->generation, ": it was renamed; remove it");
  }
  return kept;
}

absl::StatusOr<bool> WasChanged(ReadableFileSystem& file_system, const std::string& directory,
                                const std::vector<DirectoryEntry>& entries) {
  for (const DirectoryEntry& entry : entries) {
    if (GenerationOfTable(entry.name)) {
      if (entry.name.ends_with(".removed") || entry.name.ends_with(kColumnFileSuffix)) return true;
    } else if (GenerationOfKeptManifest(entry.name) || entry.name == kManifestName) {
      const auto text = file_system.ReadFile(JoinPath(directory, entry.name), kMaxManifestBytes);
      if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
      if (text.ok() && text->find(kBasesKey) != text->npos) return true;
    }
  }
  return false;
}

std::string ShardName(size_t number) { return UnitShardName({.unit = number}); }

std::string UnitShardName(const UnitShard& number, std::string_view suffix) {
  const std::string unit = StrCat(absl::Dec(number.unit, absl::kZeroPad8));
  return number.shard == 0 ? StrCat(unit, suffix) : StrCat(unit, "_", absl::Dec(number.shard, absl::kZeroPad5), suffix);
}

std::optional<UnitShard> ParseShardName(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  const std::string_view stem = name.substr(0, name.size() - suffix.size());
  const size_t mark = std::min(stem.find('_'), stem.size());
  UnitShard number;
  if (!absl::SimpleAtoi(ToAbsl(stem.substr(0, mark)), &number.unit)) return std::nullopt;
  if (mark < stem.size() && !absl::SimpleAtoi(ToAbsl(stem.substr(mark + 1)), &number.shard)) return std::nullopt;
  if (UnitShardName(number, suffix) != name) return std::nullopt;
  return number;
}

absl::StatusOr<bool> Exists(ReadableFileSystem& file_system, const std::string& path) {
  const absl::Status status = file_system.Stat(path).status();
  if (absl::IsNotFound(status)) return false;
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<bool> HasLength(ReadableFileSystem& file_system, const std::string& path, uint64_t length) {
  const absl::StatusOr<FileInfo> info = file_system.Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  if (!info.ok()) return info.status();
  return info->type == FileType::kRegular && info->size == length;
}

absl::Status PublishManifest(FileSystem& file_system, const std::string& directory, const Manifest& manifest,
                             bool must_be_new) {
  return io::PublishFile(file_system, JoinPath(directory, kManifestName), FormatManifest(manifest), must_be_new);
}

}  // namespace shardkit::dataset
