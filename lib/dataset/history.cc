#include "shardkit/history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "dataset/bases.h"
#include "dataset/dataset_files.h"
#include "dataset/manifest_text.h"

namespace shardkit {
namespace {

// Segments where only these list the shards, the list of removed samples, and column files.
absl::StatusOr<bool> HasFiles(ReadableFileSystem& file_system, const std::string& directory, const Manifest& summary) {
  std::vector<const TableReference*> tables;
  for (size_t i = 0; summary.shards_in_segments() && i < summary.segments.size(); ++i) {
    tables.push_back(&summary.segments[i].table);
  }
  if (summary.removed) tables.push_back(&summary.removed->table);
  for (const TableReference* const table : tables) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool there,
                              dataset::HasLength(file_system, JoinPath(directory, table->name), table->bytes));
    if (!there) return false;
  }
  for (const ColumnFile& file : summary.column_files) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool there,
                              dataset::HasLength(file_system, summary.PathOf(directory, file.name), file.bytes));
    if (!there) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<DatasetGeneration>> ReadHistory(ReadableFileSystem& file_system,
                                                           const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, dataset::ReadManifestText(file_system, directory));
  std::vector<DatasetGeneration> history;  // descending, until the end
  while (true) {
    const ManifestSummary& summary = manifest;
    DatasetGeneration each{.generation = summary.generation,
                           .operation = summary.operation,
                           .samples = manifest.seen_samples(),
                           .shards = summary.shard_count,
                           .bytes = summary.bytes,
                           .segments = summary.segments.size(),
                           .columns = manifest.schema.size()};
    const absl::Status found = dataset::FindBases(directory, &manifest);
    if (!found.ok() && !absl::IsPermissionDenied(found)) return found;
    if (found.ok()) {
      SHARDKIT_ASSIGN_OR_RETURN(each.readable, HasFiles(file_system, directory, manifest));
    }
    history.push_back(std::move(each));
    if (summary.generation == 1) break;
    absl::StatusOr<Manifest> before = dataset::ReadGeneration(file_system, directory, summary.generation - 1);
    if (absl::IsNotFound(before.status())) break;
    if (!before.ok()) return before.status();
    manifest = *std::move(before);
  }
  std::ranges::reverse(history);
  return history;
}

}  // namespace shardkit
