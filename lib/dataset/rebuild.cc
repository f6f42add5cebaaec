// Making manifest and index of a directory anew, and merging datasets.

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/native_shard_reader.h"
#include "dataset/index_writer.h"
#include "dataset/job_directory.h"
#include "dataset/mds_merge.h"
#include "shardkit/dataset_writer.h"

namespace shardkit {
namespace {

constexpr uint64_t kCopyPiece = uint64_t{4} << 20;

// What all parts say alike is true of the whole.
void KeepCommon(const Metadata& part, Metadata* whole) {
  std::erase_if(*whole, [&](const auto& entry) {
    const auto found = part.find(entry.first);
    return found == part.end() || found->second != entry.second;
  });
}

// Collects shards into a manifest and an index.
class Collector {
 public:
  Collector(FileSystem& file_system, std::string directory)
      : file_system_(file_system), directory_(std::move(directory)) {}

  absl::Status Start() {
    SHARDKIT_ASSIGN_OR_RETURN(index_, IndexWriter::Create(file_system_, directory_));
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& name) {
    const std::string path = JoinPath(directory_, name);
    SHARDKIT_ASSIGN_OR_RETURN(const auto shard, NativeShardReader::Open(file_system_, path, {}));
    SHARDKIT_ASSIGN_OR_RETURN(const Metadata metadata, shard->ReadMetadata());
    if (manifest_.shards.empty()) {
      manifest_.schema = shard->schema();
      manifest_.metadata = metadata;
    } else {
      absl::StatusOr<Schema> merged = MergeSchemas(manifest_.schema, shard->schema());
      if (!merged.ok()) {
        return InvalidArgument(path, ": does not fit the shards before it: ", ToStd(merged.status().message()),
                               "; pack the parts with the same --codec options");
      }
      manifest_.schema = *std::move(merged);
      KeepCommon(metadata, &manifest_.metadata);
    }
    SHARDKIT_ASSIGN_OR_RETURN(ShardIndexPart part, ReadShardIndexPart(*shard));
    SHARDKIT_RETURN_IF_ERROR(index_->Add(shard->schema(), std::move(part)));
    manifest_.shards.push_back(
        {name, shard->file_length(), shard->sample_count(), shard->blocks().size(), shard->content_hash()});
    return absl::OkStatus();
  }

  absl::StatusOr<Manifest> Publish() {
    SHARDKIT_RETURN_IF_ERROR(index_->Finish(manifest_));
    SHARDKIT_RETURN_IF_ERROR(PublishManifest(file_system_, directory_, manifest_));
    return std::move(manifest_);
  }

  const Manifest& manifest() const { return manifest_; }

  // For a dataset without shards, which has nothing else to tell its columns.
  void Describe(const Schema& schema, const Metadata& metadata) {
    manifest_.schema = schema;
    manifest_.metadata = metadata;
  }

 private:
  FileSystem& file_system_;
  const std::string directory_;
  std::unique_ptr<IndexWriter> index_;
  Manifest manifest_;
};

absl::Status CopyFile(FileSystem& file_system, const std::string& from, const std::string& to,
                      const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, file_system.OpenForReading(from));
  SHARDKIT_ASSIGN_OR_RETURN(const auto target, file_system.Create(to));
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

absl::Status RemoveIfThere(FileSystem& file_system, const std::string& path) {
  const absl::Status status = file_system.RemoveFile(path);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::StatusOr<Manifest> RebuildIndex(FileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool unfinished, HasJournal(file_system, directory));
  if (unfinished) {
    return FailedPrecondition(directory, ": an unfinished job lies there; finish it with pack --resume first");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  std::vector<std::string> names;
  const absl::StatusOr<Manifest> old = ReadManifest(file_system, directory);
  if (old.ok()) {
    for (const ManifestShard& shard : old->shards) names.push_back(shard.name);
  } else if (!absl::IsNotFound(old.status()) && !absl::IsDataLoss(old.status())) {
    return old.status();  // it may be good: its order must not be given up
  } else {
    for (const DirectoryEntry& entry : entries) {
      if (entry.name.ends_with(".shard")) names.push_back(entry.name);
    }
    std::ranges::sort(names);
    if (names.empty()) return NotFound(directory, ": there is no shard (*.shard) in it");
  }
  for (const std::string_view leftover : {"dataset.idx.tmp", "dataset.ends.tmp", "dataset.json.tmp"}) {
    SHARDKIT_RETURN_IF_ERROR(RemoveIfThere(file_system, JoinPath(directory, leftover)));
  }
  Collector collector(file_system, directory);
  SHARDKIT_RETURN_IF_ERROR(collector.Start());
  for (const std::string& name : names) SHARDKIT_RETURN_IF_ERROR(collector.Add(name));
  if (names.empty()) collector.Describe(old->schema, old->metadata);
  return collector.Publish();
}

absl::StatusOr<Manifest> MergeDatasets(FileSystem& file_system, const std::vector<std::string>& parts,
                                       const std::string& output, const Cancellation* cancellation) {
  if (parts.empty()) return InvalidArgument(output, ": no parts to merge were given");
  SHARDKIT_ASSIGN_OR_RETURN(const bool mds, AreMdsParts(file_system, parts));
  if (mds) return MergeMdsIndexes(file_system, parts, output);
  std::vector<Manifest> manifests;
  for (const std::string& part : parts) {
    SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(file_system, part));
    manifests.push_back(std::move(manifest));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto job, JobDirectory::Open(file_system, output, "merge", false));
  Collector collector(file_system, output);
  SHARDKIT_RETURN_IF_ERROR(collector.Start());
  size_t number = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const ManifestShard& shard : manifests[i].shards) {
      if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("merging datasets"));
      const std::string from = JoinPath(parts[i], shard.name);
      const std::string name = ShardName(number++);
      const std::string to = JoinPath(output, name);
      if (!file_system.Link(from, to).ok()) {
        const std::string temporary = StrCat(to, ".tmp");
        SHARDKIT_RETURN_IF_ERROR(CopyFile(file_system, from, temporary, cancellation));
        SHARDKIT_RETURN_IF_ERROR(file_system.Rename(temporary, to));
      }
      SHARDKIT_RETURN_IF_ERROR(collector.Add(name));
      if (collector.manifest().shards.back().content_hash != shard.content_hash) {
        return DataLoss(from, ": is not the shard that the manifest of ", parts[i], " lists");
      }
    }
  }
  if (number == 0) {
    Schema schema = manifests[0].schema;
    Metadata metadata = manifests[0].metadata;
    for (size_t i = 1; i < parts.size(); ++i) {
      auto merged = MergeSchemas(schema, manifests[i].schema);
      if (!merged.ok()) return Annotate(merged.status(), parts[i]);
      schema = *std::move(merged);
      KeepCommon(manifests[i].metadata, &metadata);
    }
    collector.Describe(schema, metadata);
  }
  SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, collector.Publish());
  SHARDKIT_RETURN_IF_ERROR(job->Finish());
  return manifest;
}

}  // namespace shardkit
