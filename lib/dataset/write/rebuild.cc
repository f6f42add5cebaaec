// Making manifest and index of a directory again.

#include <algorithm>
#include <functional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/sha256.h"
#include "dataset/bases.h"
#include "dataset/change/dataset_update.h"
#include "dataset/dataset_files.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/manifest_text.h"
#include "dataset/read/segments.h"
#include "dataset/write/job_folder.h"
#include "dataset/write/shard_collector.h"
#include "shardkit/dataset_writer.h"

namespace shardkit {
namespace {

// Nobody may list a hash again that a shard had before: the shard could be another by now.
absl::Status CheckSha256(ReadableFileSystem& file_system, const std::string& path, const Sha256& listed,
                         const std::function<absl::Status()>& check) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system.OpenForReading(path));
  SHARDKIT_ASSIGN_OR_RETURN(const Sha256 found, container::FileSha256(*file, check));
  if (found == listed) return absl::OkStatus();
  return DataLoss(path, ": sha256 is ", ToHex(found), ", but ", kManifestName, " lists ", ToHex(listed),
                  ": not the file that was published; copy it again. If it is to stay, remove ", kManifestName,
                  " first: the new one will list no sha256");
}

absl::Status RemoveIfThere(FileSystem& file_system, const std::string& path) {
  const absl::Status status = file_system.RemoveFile(path);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// RebuildIndex with the lock.
absl::StatusOr<Manifest> Rebuild(FileSystem& file_system, const std::string& directory,
                                 const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  std::vector<ManifestShard> shards;  // names, and what only a manifest says
  absl::StatusOr<Manifest> old = dataset::ReadManifestText(file_system, directory);
  const absl::Status listed = old.ok() ? dataset::ReadListedShards(file_system, directory, &*old) : old.status();
  if (listed.ok()) {
    shards = old->shards;
  } else if (!absl::IsNotFound(listed) && !absl::IsDataLoss(listed)) {
    return listed;  // the manifest may be good: its order must not be lost
  } else if (old.ok()) {
    return DataLoss(ToStd(listed.message()), "; shardctl index cannot make it again");
  } else {
    for (const DirectoryEntry& entry : entries) {
      if (entry.name.ends_with(".shard")) shards.push_back({.name = entry.name});
    }
    SHARDKIT_ASSIGN_OR_RETURN(const bool changed, dataset::WasChanged(file_system, directory, entries));
    if (changed) {
      return DataLoss(ToStd(listed.message()),
                      "; cannot be made again: the dataset had column files, removed samples or bases, ", "and only ",
                      kManifestName, " says which; copy it again, or take the newest of dataset-*.json");
    }
    if (shards.empty()) return NotFound(directory, ": there is no shard (*.shard) in it");
  }
  for (const DirectoryEntry& entry : entries) {
    const std::optional<uint64_t> generation = dataset::GenerationOfTable(entry.name);
    if (generation != UINT64_MAX && entry.name != StrCat(kManifestName, ".tmp")) continue;
    SHARDKIT_RETURN_IF_ERROR(RemoveIfThere(file_system, JoinPath(directory, entry.name)));
  }
  const auto check = [&] { return cancellation ? cancellation->Check("indexing shards") : absl::OkStatus(); };
  dataset::ShardCollector collector(file_system, directory);
  SHARDKIT_RETURN_IF_ERROR(collector.Start(listed.ok() ? old->bases : std::vector<Base>()));
  for (const ManifestShard& shard : shards) {
    SHARDKIT_RETURN_IF_ERROR(check());
    const std::string path = old.ok() ? old->PathOf(directory, shard.name) : JoinPath(directory, shard.name);
    const absl::Status status = collector.Add(shard.name, shard.sha256);
    if (absl::IsNotFound(status)) {
      const absl::Status missing = NotFound(path, ": the shard is in the manifest, but is missing; copy it again, or ",
                                            "shardctl repair ", directory, " -o OUT keeps the others");
      return old.ok() ? dataset::InBase(missing, *old, shard.name) : missing;
    }
    SHARDKIT_RETURN_IF_ERROR(status);
    if (shard.sha256) SHARDKIT_RETURN_IF_ERROR(CheckSha256(file_system, path, *shard.sha256, check));
  }
  if (shards.empty()) collector.Describe(old->schema, old->metadata);
  SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, collector.Publish(listed.ok() ? &*old : nullptr, cancellation));
  // The tables of the generation before stay for its readers.
  if (listed.ok() && manifest.generation == old->generation) {
    old = dataset::ReadGeneration(file_system, directory, manifest.generation - 1);
    if (!old.ok() && !absl::IsNotFound(old.status()) && !absl::IsDataLoss(old.status())) return old.status();
  }
  const Manifest* const manifests[] = {&manifest, old.ok() ? &*old : nullptr};
  SHARDKIT_RETURN_IF_ERROR(dataset::RemoveOldTables(file_system, directory, manifests));
  return manifest;
}

}  // namespace

absl::StatusOr<Manifest> RebuildIndex(FileSystem& file_system, const std::string& directory,
                                      const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool unfinished, dataset::HasUnfinishedJob(file_system, directory));
  if (unfinished) {
    return FailedPrecondition(directory, ": an unfinished job lies there; finish it with pack --resume first");
  }
  // Looks first without the lock: where there is nothing to index, no file is made.
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  const bool something = std::ranges::any_of(entries, [](const DirectoryEntry& entry) {
    return entry.name == kManifestName || entry.name.ends_with(".shard");
  });
  if (!something) return dataset::DescribeNoDataset(file_system, directory);
  SHARDKIT_ASSIGN_OR_RETURN(auto lock, dataset::LockDirectory(file_system, directory));
  auto manifest = Rebuild(file_system, directory, cancellation);
  const absl::Status unlocked = dataset::UnlockDirectory(file_system, directory, std::move(lock));
  if (manifest.ok()) SHARDKIT_RETURN_IF_ERROR(unlocked);
  return manifest;
}

}  // namespace shardkit
