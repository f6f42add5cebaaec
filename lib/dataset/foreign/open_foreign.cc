// Which container a path is of.
#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/foreign/mds_dataset.h"
#include "dataset/job_directory.h"
#include "format/foreign/webdataset_names.h"
#include "io/publish_file.h"
#include "shardkit/foreign_writer.h"

namespace shardkit {
namespace {

constexpr uint64_t kMaxOriginBytes = uint64_t{16} << 20;

absl::StatusOr<bool> IsFile(FileSystem& file_system, const std::string& path) {
  const auto info = file_system.Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  // A device that fails must not make a dataset look like one of another kind.
  if (!info.ok()) return info.status();
  return info->type == FileType::kRegular;
}

}  // namespace

absl::StatusOr<std::string_view> ForeignContainerAt(FileSystem& file_system, const std::string& path,
                                                    const FileInfo& info) {
  if (info.type != FileType::kDirectory) {
    if (format::IsTarName(path)) return "webdataset";
    return BaseName(path) == kMdsIndexName || path.ends_with(".mds") ? "mds" : "";
  }
  SHARDKIT_ASSIGN_OR_RETURN(const bool native, IsFile(file_system, JoinPath(path, kManifestName)));
  if (native) return "";
  SHARDKIT_ASSIGN_OR_RETURN(const bool mds, IsFile(file_system, JoinPath(path, kMdsIndexName)));
  if (mds) return "mds";
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(path));
  for (const DirectoryEntry& entry : entries) {
    if (format::IsTarName(entry.name) && entry.type != FileType::kDirectory) return "webdataset";
  }
  for (const DirectoryEntry& entry : entries) {
    if (entry.type == FileType::kRegular) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const bool stream,
                              IsFile(file_system, JoinPath(JoinPath(path, entry.name), kMdsIndexName)));
    if (stream) return "mds";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenForeign(FileSystem& file_system, const std::string& path,
                                                            const FileInfo& info, const DatasetOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view container, ForeignContainerAt(file_system, path, info));
  if (container == "mds") return OpenMds(file_system, path, options);
  if (container.empty()) {
    const bool list = info.type != FileType::kDirectory && path.ends_with(".json");
    return list ? OpenWids(file_system, path, options) : nullptr;
  }
  if (info.type == FileType::kDirectory) {
    // Tars that are still being written look complete one by one.
    SHARDKIT_ASSIGN_OR_RETURN(const bool begun, HasJournal(file_system, path));
    SHARDKIT_ASSIGN_OR_RETURN(const bool complete, IsFile(file_system, JoinPath(path, kOriginName)));
    if (begun && !complete) {
      return FailedPrecondition(path,
                                ": is being written, or its writer was interrupted: run that again with --resume");
    }
  }
  return OpenWebDataset(file_system, path, options);
}

absl::StatusOr<std::optional<Manifest>> ReadOrigin(FileSystem& file_system, const std::string& directory) {
  const std::string origin_path = JoinPath(directory, kOriginName);
  const auto text = file_system.ReadFile(origin_path, kMaxOriginBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  auto origin = ParseManifest(*text);
  if (!origin.ok()) {
    return Annotate(origin.status(), StrCat(origin_path, " (remove it to read the dataset without what it says)"));
  }
  return *std::move(origin);
}

}  // namespace shardkit
