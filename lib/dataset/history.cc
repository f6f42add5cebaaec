#include "shardkit/history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "dataset/job_directory.h"
#include "dataset/kept_manifests.h"
#include "dataset/manifest_text.h"
#include "dataset/view/column_changes.h"

namespace shardkit {
namespace {

// Lists of shards and of removed samples, and the manifests of layers.
absl::StatusOr<bool> HasFiles(ReadableFileSystem& file_system, const std::string& directory,
                              const ManifestSummary& summary) {
  std::vector<const TableReference*> tables;
  for (const Segment& segment : summary.segments) {
    if (segment.list) tables.push_back(&*segment.list);
  }
  if (summary.removed) tables.push_back(&summary.removed->table);
  for (const TableReference* const table : tables) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool there,
                              dataset::HasLength(file_system, JoinPath(directory, table->name), table->bytes));
    if (!there) return false;
  }
  for (size_t i = 0; summary.view && i < summary.view->layers.size(); ++i) {
    const std::string path = JoinPath(JoinPath(directory, summary.view->layers[i].name), kManifestName);
    const absl::StatusOr<FileInfo> info = file_system.Stat(path);
    if (absl::IsNotFound(info.status())) return false;
    SHARDKIT_RETURN_IF_ERROR(info.status());
  }
  return true;
}

uint64_t RemovedIn(const ManifestSummary& summary) { return summary.removed ? summary.removed->samples : 0; }

void Compare(const DatasetGeneration& before, const ManifestSummary& summary_before, const ManifestSummary& summary,
             DatasetGeneration* after) {
  after->change = after->shards > before.shards ? DatasetChange::kAppended : DatasetChange::kIndexed;
  const uint64_t removed = RemovedIn(summary), removed_before = RemovedIn(summary_before);
  const bool folded = summary_before.view && !summary.view && summary.bytes != summary_before.bytes;
  if (summary.sample_count < summary_before.sample_count || removed < removed_before || folded) {
    after->change = DatasetChange::kCompacted;
  } else if (removed > removed_before) {
    after->change = DatasetChange::kRemoved;
    after->samples_removed = removed - removed_before;
  } else if (summary.sample_count == summary_before.sample_count) {
    after->column_changes = dataset::CompareColumns(summary_before, summary);
    if (after->column_changes != ColumnChanges()) after->change = DatasetChange::kColumns;
  }
  // A dataset whose shards were counted anew may have lost some.
  after->shards_added = after->shards - std::min(after->shards, before.shards);
  after->samples_added = after->samples - std::min(after->samples, before.samples);
}

}  // namespace

std::string_view ChangeName(DatasetChange change) {
  switch (change) {
    case DatasetChange::kMade:
      return "made";
    case DatasetChange::kAppended:
      return "appended";
    case DatasetChange::kColumns:
      return "columns";
    case DatasetChange::kRemoved:
      return "removed";
    case DatasetChange::kCompacted:
      return "compacted";
    case DatasetChange::kIndexed:
      return "indexed";
    case DatasetChange::kUnknown:
      return "unknown";
  }
  return "?";
}

absl::StatusOr<std::vector<DatasetGeneration>> ReadHistory(ReadableFileSystem& file_system,
                                                           const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, dataset::ReadManifestText(file_system, directory));
  std::vector<DatasetGeneration> history;  // descending, until the end
  ManifestSummary after;                   // of the generation that was read before
  while (true) {
    const ManifestSummary& summary = manifest;
    DatasetGeneration each{.generation = summary.generation,
                           .change = summary.generation == 1 ? DatasetChange::kMade : DatasetChange::kUnknown,
                           .samples = summary.sample_count - RemovedIn(summary),
                           .shards = summary.shard_count,
                           .bytes = summary.bytes,
                           .segments = summary.segments.size(),
                           .columns = (summary.view ? summary.view->schema : summary.schema).size()};
    SHARDKIT_ASSIGN_OR_RETURN(each.readable, HasFiles(file_system, directory, summary));
    if (!history.empty()) Compare(each, summary, after, &history.back());
    history.push_back(each);
    if (each.generation == 1) break;
    absl::StatusOr<Manifest> before = dataset::ReadGeneration(file_system, directory, each.generation - 1);
    if (absl::IsNotFound(before.status())) break;
    if (!before.ok()) return before.status();
    after = std::move(manifest);
    manifest = *std::move(before);
  }
  std::ranges::reverse(history);
  return history;
}

}  // namespace shardkit
