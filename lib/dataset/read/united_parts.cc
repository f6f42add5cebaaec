#include "dataset/read/united_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/manifest_text.h"
#include "dataset/write/shard_collector.h"
#include "io/publish_file.h"

namespace shardkit::dataset {
namespace {

// Values are found by stored names: in all parts a column has the same one, and no other column has it.
absl::Status UniteStoredNames(const SegmentPart& part, std::map<std::string, std::string, std::less<>>* names,
                              Manifest* united) {
  const Manifest& manifest = part.manifest;
  const auto take = [&](const std::string& name, std::string_view stored) -> absl::Status {
    const auto [found, is_new] = names->emplace(stored, name);
    if (is_new || found->second == name) return absl::OkStatus();
    return InvalidArgument(
        part.directory, ": its columns do not lie under the same names as in the datasets before it (",
        name.empty() ? stored : name, "), since columns were renamed, replaced or dropped: merge by ",
        "copying (--copy), which rewrites all samples, or give the columns their names in the ",
        "shards with shardctl compact --fold");
  };
  for (const Column& column : manifest.schema.columns()) {
    const std::string_view stored = manifest.StoredName(column.name);
    SHARDKIT_RETURN_IF_ERROR(take(column.name, stored));
    // Under another name than in the parts before, the column would be two.
    if (united->schema.Find(column.name) && united->StoredName(column.name) != stored) return take("", stored);
    if (stored != column.name) united->stored_names.emplace(column.name, stored);
  }
  for (const std::string& dropped : manifest.dropped) {
    SHARDKIT_RETURN_IF_ERROR(take("", dropped));
    united->dropped.push_back(dropped);
  }
  std::ranges::sort(united->dropped);
  // clang 14 cannot compile what std::ranges::unique of libstdc++ 12 returns.
  united->dropped.erase(std::unique(united->dropped.begin(), united->dropped.end()), united->dropped.end());
  return absl::OkStatus();
}

absl::StatusOr<SegmentPart> ReadPart(ReadableFileSystem& file_system, const std::string& path,
                                     const ReadOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(path));
  if (info.type != FileType::kDirectory) return ReadShardAlone(file_system, path, options);
  absl::StatusOr<Manifest> manifest = ReadManifest(file_system, path);
  if (absl::IsNotFound(manifest.status())) return DescribeNoDataset(file_system, path);
  if (!manifest.ok()) return manifest.status();
  return SegmentPart{path, *std::move(manifest)};
}

}  // namespace

absl::StatusOr<SegmentPart> ReadShardAlone(ReadableFileSystem& file_system, const std::string& path,
                                           const ReadOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(file_system, path, options));
  SHARDKIT_ASSIGN_OR_RETURN(Metadata metadata, reader->ReadMetadata());
  SegmentPart part{io::ParentDirectory(path), {}};
  part.manifest.schema = reader->schema();
  part.manifest.metadata = std::move(metadata);
  part.manifest.AddShard({std::string(io::BaseName(path)), reader->file_length(), reader->sample_count(),
                          reader->blocks().size(), reader->content_hash()});
  return part;
}

absl::StatusOr<Manifest> UniteColumns(std::span<const SegmentPart> parts) {
  const bool any = std::ranges::any_of(parts, [](const SegmentPart& part) { return !part.manifest.shards.empty(); });
  std::optional<Manifest> united;
  std::map<std::string, std::string, std::less<>> names;  // of the columns, by stored names; "": dropped
  for (const SegmentPart& part : parts) {
    if (any && part.manifest.shards.empty()) continue;
    if (!united) united.emplace();
    SHARDKIT_RETURN_IF_ERROR(UniteStoredNames(part, &names, &*united));
    if (united->schema.size() == 0) {
      united->schema = part.manifest.schema;
      united->metadata = part.manifest.metadata;
      continue;
    }
    auto merged = MergeSchemas(united->schema, part.manifest.schema);
    if (!merged.ok()) {
      const bool by_codecs = MergeSchemas(united->schema, WithCodecsOf(united->schema, part.manifest.schema)).ok();
      return InvalidArgument(part.directory,
                             ": does not fit the datasets before it: ", ToStd(merged.status().message()),
                             by_codecs ? "; merge by copying (--copy) to store all samples again, with one codec" : "");
    }
    united->schema = *std::move(merged);
    IntersectMetadata(part.manifest.metadata, &united->metadata);
  }
  return *std::move(united);
}

absl::StatusOr<RemovedList> UniteRemoved(ReadableFileSystem& file_system, std::span<const SegmentPart> parts) {
  std::vector<uint64_t> removed;
  uint64_t first = 0;
  for (const SegmentPart& part : parts) {
    const Manifest& manifest = part.manifest;
    if (manifest.removed) {
      SHARDKIT_ASSIGN_OR_RETURN(const RemovedList list, RemovedList::Read(file_system, part.directory,
                                                                          *manifest.removed, manifest.sample_count));
      for (const uint64_t sample : list.ordinals()) removed.push_back(first + sample);
    }
    first += manifest.sample_count;
  }
  return RemovedList(std::move(removed));
}

Schema WithCodecsOf(const Schema& first, const Schema& schema) {
  std::vector<Column> columns = schema.columns();
  for (Column& column : columns) {
    if (const auto other = first.Find(column.name)) column.SetCodec(first[*other].codec);
  }
  auto changed = Schema::Create(std::move(columns));
  return changed.ok() ? *std::move(changed) : schema;
}

absl::StatusOr<UnitedParts> UniteDatasets(ReadableFileSystem& file_system, const std::vector<std::string>& paths,
                                          const ReadOptions& options) {
  std::vector<SegmentPart> parts;
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN_OR_RETURN(parts.emplace_back(), ReadPart(file_system, path, options));
  }
  UnitedParts united;
  SHARDKIT_ASSIGN_OR_RETURN(united.manifest, UniteColumns(parts));
  SHARDKIT_ASSIGN_OR_RETURN(united.removed, UniteRemoved(file_system, parts));
  Manifest& whole = united.manifest;
  const bool indexed = std::ranges::all_of(
      parts, [](const SegmentPart& part) { return part.manifest.shards.empty() || !part.manifest.segments.empty(); });
  std::string lists;  // of removed samples, by their checksums
  for (const SegmentPart& part : parts) {
    const Manifest& manifest = part.manifest;
    const uint64_t first_sample = whole.sample_count;
    for (ManifestShard shard : manifest.shards) {
      shard.name = manifest.PathOf(part.directory, shard.name);
      whole.AddShard(std::move(shard));
    }
    for (ColumnFile file : manifest.column_files) {
      file.name = manifest.PathOf(part.directory, file.name);
      for (ColumnRun& run : file.runs) run.sample += first_sample;
      whole.column_files.push_back(std::move(file));
    }
    if (manifest.removed) lists += StrCat(manifest.removed->table.checksum, " ");
    if (!indexed) continue;
    whole.segments.insert(whole.segments.end(), manifest.segments.begin(), manifest.segments.end());
    for (auto& opened : OpenSegments(file_system, part.directory, manifest.segments)) {
      united.segments.push_back(std::move(opened));
    }
  }
  if (united.removed.size() > 0) whole.removed = RemovedSamples{united.removed.size(), {.checksum = Hash64(lists)}};
  return united;
}

}  // namespace shardkit::dataset
