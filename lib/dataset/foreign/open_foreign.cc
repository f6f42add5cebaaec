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

absl::StatusOr<bool> IsFile(FileSystem& file_system, const std::string& path) {
  const auto info = file_system.Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  // A device that fails must not make a dataset look like one of another kind.
  if (!info.ok()) return info.status();
  return info->type == FileType::kRegular;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenForeign(FileSystem& file_system, const std::string& path,
                                                            const FileInfo& info, const DatasetOptions& options) {
  if (info.type != FileType::kDirectory) {
    if (format::IsTarName(path)) return OpenWebDataset(file_system, path, options);
    if (BaseName(path) == kMdsIndexName || path.ends_with(".mds")) return OpenMds(file_system, path, options);
    if (path.ends_with(".json")) return OpenWids(file_system, path, options);
    return nullptr;
  }
  SHARDKIT_ASSIGN_OR_RETURN(const bool native, IsFile(file_system, JoinPath(path, kManifestName)));
  if (native) return nullptr;
  SHARDKIT_ASSIGN_OR_RETURN(const bool mds, IsFile(file_system, JoinPath(path, kMdsIndexName)));
  if (mds) return OpenMds(file_system, path, options);
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, file_system.List(path));
  for (const DirectoryEntry& entry : entries) {
    if (!format::IsTarName(entry.name) || entry.type == FileType::kDirectory) continue;
    // Tars that are still being written look complete one by one.
    SHARDKIT_ASSIGN_OR_RETURN(const bool begun, HasJournal(file_system, path));
    SHARDKIT_ASSIGN_OR_RETURN(const bool complete, IsFile(file_system, JoinPath(path, kOriginName)));
    if (begun && !complete) {
      return FailedPrecondition(path,
                                ": is being written, or its writer was interrupted: run that again with --resume");
    }
    return OpenWebDataset(file_system, path, options);
  }
  for (const DirectoryEntry& entry : entries) {
    if (entry.type == FileType::kRegular) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const bool stream,
                              IsFile(file_system, JoinPath(JoinPath(path, entry.name), kMdsIndexName)));
    if (stream) return OpenMds(file_system, path, options);
  }
  return nullptr;
}

}  // namespace shardkit
