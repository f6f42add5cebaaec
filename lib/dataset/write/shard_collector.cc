#include "dataset/write/shard_collector.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/read/native_shard_reader.h"
#include "dataset/dataset_files.h"
#include "dataset/manifest_json.h"
#include "dataset/manifest_text.h"
#include "dataset/read/segments.h"

namespace shardkit::dataset {
namespace {

absl::Status CopyFile(FileSystem& file_system, const std::string& from, const std::string& to,
                      const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, file_system.OpenForReading(from));
  SHARDKIT_ASSIGN_OR_RETURN(const auto target, file_system.CreateForStreaming(to));
  std::string piece;
  for (uint64_t done = 0; done < source->size(); done += piece.size()) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("copying shards"));
    piece.resize(std::min(kCopyPiece, source->size() - done));
    SHARDKIT_RETURN_IF_ERROR(source->ReadAt(done, {piece.data(), piece.size()}));
    SHARDKIT_RETURN_IF_ERROR(target->Append(piece));
  }
  SHARDKIT_RETURN_IF_ERROR(target->Sync());
  return target->Close();
}

}  // namespace

void IntersectMetadata(const Metadata& part, Metadata* whole) {
  std::erase_if(*whole, [&](const auto& entry) {
    const auto found = part.find(entry.first);
    return found == part.end() || found->second != entry.second;
  });
}

absl::Status ShardCollector::Start(std::vector<Base> bases) {
  manifest_.bases = std::move(bases);
  SHARDKIT_ASSIGN_OR_RETURN(index_, SegmentWriter::Create(file_system_, directory_));
  return absl::OkStatus();
}

absl::Status ShardCollector::Add(const std::string& name, const std::optional<Sha256>& sha256) {
  const std::string path = manifest_.PathOf(directory_, name);
  SHARDKIT_ASSIGN_OR_RETURN(const auto shard, container::NativeShardReader::Open(file_system_, path, {}));
  SHARDKIT_ASSIGN_OR_RETURN(const Metadata metadata, shard->ReadMetadata());
  const bool first = manifest_.shards.empty();
  absl::StatusOr<Schema> merged = MergeSchemas(first ? shard->schema() : manifest_.schema, shard->schema());
  if (!merged.ok()) {
    return InvalidArgument(path, ": does not fit the shards before it: ", ToStd(merged.status().message()),
                           "; pack the parts with the same --codec options");
  }
  manifest_.schema = *std::move(merged);
  if (first) manifest_.metadata = metadata;
  IntersectMetadata(metadata, &manifest_.metadata);
  SHARDKIT_ASSIGN_OR_RETURN(const container::ShardIndexPart part, container::ReadShardIndexPart(*shard));
  SHARDKIT_RETURN_IF_ERROR(index_->Add(shard->schema(), part));
  manifest_.AddShard(
      {name, shard->file_length(), shard->sample_count(), shard->blocks().size(), shard->content_hash(), sha256});
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ShardCollector::Publish(const Manifest* before, const Cancellation* cancellation) {
  if (before != nullptr) SHARDKIT_RETURN_IF_ERROR(Follow(*before));
  SHARDKIT_RETURN_IF_ERROR(FinishOneSegment(file_system_, directory_, *index_, &manifest_, cancellation));
  if (before != nullptr) {
    if (SaysTheSame(*before)) {
      if (!manifest_.segments.empty()) {
        const std::string made = JoinPath(directory_, manifest_.segments[0].table.name);
        const absl::Status renamed = file_system_.Rename(made, JoinPath(directory_, before->segments[0].table.name));
        if (!renamed.ok()) {
          (void)file_system_.RemoveFile(made);
          return renamed;
        }
        SHARDKIT_RETURN_IF_ERROR(file_system_.SyncDirectory(directory_));
      }
      return *before;
    }
    SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, ReadManifestBytes(file_system_, directory_));
    SHARDKIT_RETURN_IF_ERROR(KeepManifest(file_system_, directory_, before->generation, bytes));
  }
  SHARDKIT_RETURN_IF_ERROR(PublishManifest(file_system_, directory_, manifest_, /*must_be_new=*/false));
  return std::move(manifest_);
}

// Whether the manifest needs no other generation than `before`, since it names the same files with the same bytes.
bool ShardCollector::SaysTheSame(const Manifest& before) const {
  if (before.segments.size() != manifest_.segments.size()) return false;
  if (!before.segments.empty()) {
    TableReference table = manifest_.segments[0].table;
    table.name = before.segments[0].table.name;
    if (table != before.segments[0].table) return false;
  }
  return before.shards == manifest_.shards && before.metadata == manifest_.metadata &&
         before.schema.columns() == manifest_.schema.columns();
}

void ShardCollector::TakeColumns(const ManifestSummary& before) {
  manifest_.removed = before.removed;
  if (before.shards_have_columns()) {
    // A column may be in none of the shards that are left. Where shards were exchanged for others, theirs count.
    absl::StatusOr<Schema> merged = MergeSchemas(before.schema, manifest_.schema);
    if (merged.ok()) manifest_.schema = *std::move(merged);
    return;
  }
  manifest_.schema = before.schema;
  manifest_.stored_names = before.stored_names;
  manifest_.dropped = before.dropped;
  manifest_.column_files = before.column_files;
}

absl::Status ShardCollector::Follow(const ManifestSummary& before) {
  manifest_.generation = before.generation;
  manifest_.BeginGeneration({.name = "index", .arguments = {}});
  manifest_.next_shard = before.next_shard;
  manifest_.replaced = before.replaced;
  TakeColumns(before);
  if (manifest_.sample_count == before.sample_count || (manifest_.column_files.empty() && !manifest_.removed)) {
    return CheckColumns(manifest_);
  }
  return DataLoss(directory_, ": the shards have ", manifest_.sample_count, " samples, and ", kManifestName, " counts ",
                  before.sample_count, ": its column files and removed samples would be those of others");
}

absl::Status LinkOrCopy(FileSystem& file_system, const std::string& from, const std::string& to,
                        const Cancellation* cancellation) {
  if (file_system.Link(from, to).ok()) return absl::OkStatus();
  const std::string temporary = StrCat(to, ".tmp");
  SHARDKIT_RETURN_IF_ERROR(CopyFile(file_system, from, temporary, cancellation));
  return file_system.Rename(temporary, to);
}

}  // namespace shardkit::dataset
