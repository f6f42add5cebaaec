#include "dataset/change/dataset_update.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/bases.h"
#include "dataset/dataset_files.h"
#include "dataset/manifest_text.h"
#include "dataset/write/job_folder.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kRemovedEnd = ".removed";

std::vector<const TableReference*> AllTables(const Manifest& manifest) {
  std::vector<const TableReference*> tables;
  for (const Segment& segment : manifest.segments) tables.push_back(&segment.table);
  if (manifest.removed) tables.push_back(&manifest.removed->table);
  return tables;
}

// Tables and column files.
std::set<std::string_view> FilesBeside(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const TableReference* const table : AllTables(manifest)) names.insert(table->name);
  for (const ColumnFile& file : manifest.column_files) names.insert(file.name);
  return names;
}

// Of the generations from `first` on; temporary files; and manifests that are not to be kept beside the first of
// `manifests`.
absl::Status RemoveTables(FileSystem& file_system, const std::string& directory,
                          const std::vector<DirectoryEntry>& entries, std::span<const Manifest* const> manifests,
                          uint64_t first) {
  std::set<std::string_view> named;
  for (const Manifest* const manifest : manifests) {
    if (manifest != nullptr) named.merge(FilesBeside(*manifest));
  }
  const uint64_t newest = manifests.empty() ? 0 : manifests[0]->generation;
  std::set<uint64_t> lists;  // of removed samples, by their generations
  for (const DirectoryEntry& entry : entries) {
    if (entry.name.ends_with(kRemovedEnd)) lists.insert(GenerationOfTable(entry.name).value_or(0));
  }
  for (const DirectoryEntry& entry : entries) {
    if (entry.type == FileType::kDirectory) continue;
    const bool sorted = entry.name.starts_with(kSortedFiles) && entry.name.ends_with(".tmp");
    if (sorted) {
      // Of a change that has ended: this one has the lock.
    } else if (const std::optional<uint64_t> kept = GenerationOfKeptManifest(entry.name)) {
      if (newest == 0 || (IsKept(*kept, newest) && !entry.name.ends_with(".tmp"))) continue;
    } else if (GenerationOfTable(entry.name).value_or(0) < first || named.contains(entry.name)) {
      continue;
    } else if (entry.name.ends_with(kColumnFileSuffix) && GenerationOfTable(entry.name).value_or(0) <= newest) {
      continue;  // a kept manifest may name it, as it may name shards
    } else if (entry.name.ends_with(kRemovedEnd)) {
      // Nothing else tells which samples were removed, so it stays while a manifest is kept that may name it: until the
      // one before the next list.
      const uint64_t generation = *GenerationOfTable(entry.name);
      const auto next = lists.upper_bound(generation);
      const bool needed = next == lists.end() || IsKept(*next - 1, newest);
      if (generation <= newest && needed) continue;
    }
    SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system.RemoveFile(JoinPath(directory, entry.name))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RemoveOldTables(FileSystem& file_system, const std::string& directory,
                             std::span<const Manifest* const> manifests) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  return RemoveTables(file_system, directory, entries, manifests, 1);
}

absl::StatusOr<std::unique_ptr<DatasetUpdate>> DatasetUpdate::Begin(FileSystem& file_system,
                                                                    const std::string& directory) {
  std::unique_ptr<DatasetUpdate> update(new DatasetUpdate(file_system, directory));
  SHARDKIT_RETURN_IF_ERROR(update->Prepare());
  return update;
}

DatasetUpdate::~DatasetUpdate() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

std::string DatasetUpdate::MarkerPath() const { return JoinPath(JobFolderPath(directory_), kChangeName); }

absl::Status DatasetUpdate::Prepare() {
  // Looks first without the lock, so that no lock file is left where there is no dataset.
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, Exists(file_system_, Path(kManifestName)));
  if (!complete) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool unfinished, HasUnfinishedJob(file_system_, directory_));
    if (unfinished) {
      return FailedPrecondition(directory_, ": an unfinished job lies there; finish it with pack --resume first");
    }
    return NotFound(directory_, ": is not a dataset: there is no ", kManifestName, " in it");
  }
  SHARDKIT_ASSIGN_OR_RETURN(lock_, LockDirectory(file_system_, directory_));
  bool marked = false;
  const absl::Status status = PrepareLocked(&marked);
  if (!status.ok() && marked) (void)file_system_.RemoveFile(MarkerPath());
  if (!status.ok()) (void)UnlockDirectory(file_system_, directory_, std::move(lock_));
  return status;
}

// *marked: the marker was made now.
absl::Status DatasetUpdate::PrepareLocked(bool* marked) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, ReadManifestBytes(file_system_, directory_));
  absl::StatusOr<Manifest> before = ParseManifestText(bytes);
  if (!before.ok()) return Annotate(before.status(), Path(kManifestName));
  SHARDKIT_RETURN_IF_ERROR(FindBases(directory_, &*before));
  SHARDKIT_RETURN_IF_ERROR(ReadListedShards(file_system_, directory_, &*before));
  before_ = *std::move(before);
  hash_ = Hash64(bytes);
  next_number_ = std::max<uint64_t>(before_.shards.size(), before_.next_shard);
  for (const ManifestShard& shard : before_.shards) {
    const std::optional<UnitShard> number = ParseShardName(shard.name);
    if (number) next_number_ = std::max(next_number_, number->unit + 1);
  }
  SHARDKIT_ASSIGN_OR_RETURN(const bool interrupted, Exists(file_system_, MarkerPath()));
  if (interrupted) {
    SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers());
  } else {
    // An interrupted rebuild of the index leaves no mark. The holder of the lock may remove its temporary files.
    SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system_.List(directory_));
    SHARDKIT_RETURN_IF_ERROR(RemoveTables(file_system_, directory_, entries, {}, UINT64_MAX));
    SHARDKIT_ASSIGN_OR_RETURN(const auto marker, file_system_.Create(MarkerPath()));
    *marked = true;
    // By its bytes a store's client knows that a request has succeeded whose answer was lost.
    SHARDKIT_RETURN_IF_ERROR(marker->Append("shardkit-change 1\n"));
    SHARDKIT_RETURN_IF_ERROR(marker->Close());
  }
  // No file that the change writes may be durable before its mark.
  SHARDKIT_RETURN_IF_ERROR(file_system_.SyncDirectory(JobFolderPath(directory_)));
  SHARDKIT_RETURN_IF_ERROR(file_system_.SyncDirectory(directory_));
  ended_ = false;
  return absl::OkStatus();
}

// Removes the files of changes that the current manifest does not name, and makes this durable. The marker
// stays.
absl::Status DatasetUpdate::RemoveLeftovers() {
  SHARDKIT_ASSIGN_OR_RETURN(const Manifest current, ReadManifest(file_system_, directory_));
  std::set<std::string_view> named;
  for (const ManifestShard& shard : current.shards) named.insert(shard.name);
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system_.List(directory_));
  const Manifest* const manifests[] = {&current, &before_};
  SHARDKIT_RETURN_IF_ERROR(RemoveTables(file_system_, directory_, entries, manifests, before_.generation + 1));
  for (const DirectoryEntry& entry : entries) {
    std::string_view name = entry.name;
    if (name.ends_with(".tmp")) name.remove_suffix(4);
    const std::optional<UnitShard> number = ParseShardName(name);
    const bool shard = number && number->unit >= next_number_ && !named.contains(entry.name);
    if (!shard && entry.name != StrCat(kManifestName, ".tmp")) continue;
    SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_.RemoveFile(Path(entry.name))));
  }
  return file_system_.SyncDirectory(directory_);
}

absl::Status DatasetUpdate::Replaced(const std::string& path) const {
  return absl::AbortedError(StrCat(path, ": is no longer what was written: another run writes to ", directory_,
                                   ", too; nothing was published"));
}

absl::Status DatasetUpdate::CheckAdded(const Manifest& manifest) const {
  // Most changes leave the shards that are there where they are.
  size_t same = 0;
  while (same < before_.shards.size() && same < manifest.shards.size() &&
         before_.shards[same].name == manifest.shards[same].name) {
    ++same;
  }
  const auto check = [&](const ManifestShard& shard) -> absl::Status {
    const std::string path = Path(shard.name);
    SHARDKIT_ASSIGN_OR_RETURN(const bool whole, NativeJobFiles().IsWhole(file_system_, path, shard));
    return whole ? absl::OkStatus() : Replaced(path);
  };
  std::set<std::string_view> known;
  for (const ManifestShard& shard : std::span(before_.shards).subspan(same)) known.insert(shard.name);
  for (const ManifestShard& shard : std::span(manifest.shards).subspan(same)) {
    if (!known.contains(shard.name)) SHARDKIT_RETURN_IF_ERROR(check(shard));
  }
  const std::set<std::string_view> old = FilesBeside(before_);
  for (const ColumnFile& file : manifest.column_files) {
    if (!old.contains(file.name)) SHARDKIT_RETURN_IF_ERROR(check(file));
  }
  for (const TableReference* const table : AllTables(manifest)) {
    if (old.contains(table->name)) continue;
    const std::string path = Path(table->name);
    const auto file = file_system_.OpenForReading(path);
    if (absl::IsNotFound(file.status())) return Replaced(path);
    if (!file.ok()) return file.status();
    if ((*file)->size() != table->bytes) return Replaced(path);
    char checksum[16];
    SHARDKIT_RETURN_IF_ERROR((*file)->ReadAt(table->bytes - sizeof(checksum), checksum));
    if (LoadLittle<uint64_t>(checksum) != table->checksum) return Replaced(path);
  }
  return absl::OkStatus();
}

absl::Status DatasetUpdate::CheckUnchanged() const { return ReadUnchanged().status(); }

// The bytes of the manifest, which are those that the change began with.
absl::StatusOr<std::string> DatasetUpdate::ReadUnchanged() const {
  SHARDKIT_ASSIGN_OR_RETURN(std::string now, ReadManifestBytes(file_system_, directory_));
  if (Hash64(now) == hash_) return now;
  return absl::AbortedError(StrCat(directory_, ": another run has published the dataset since this one began; ",
                                   "nothing was changed: start again"));
}

absl::Status DatasetUpdate::Publish(Manifest* published) {
  published->DropUnusedBases();
  const Manifest& manifest = *published;
  SHARDKIT_RETURN_IF_ERROR(CheckAdded(manifest));
  if (const auto readable = ParseManifestText(FormatManifest(manifest)); !readable.ok()) {
    return Internal(directory_,
                    ": nothing was published, since no reader would take it: ", ToStd(readable.status().message()));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, ReadUnchanged());
  SHARDKIT_RETURN_IF_ERROR(KeepManifest(file_system_, directory_, before_.generation, bytes));
  SHARDKIT_RETURN_IF_ERROR(PublishManifest(file_system_, directory_, manifest, /*must_be_new=*/false));
  ended_ = true;
  const Manifest* const manifests[] = {&manifest, &before_};
  // Old tables that stay now are removed after the next publication.
  absl::Status status = RemoveOldTables(file_system_, directory_, manifests);
  status.Update(file_system_.SyncDirectory(directory_));
  status.Update(Unmark());
  return status;
}

// Removes the marker, and ends the lock: only its holder may remove its file.
absl::Status DatasetUpdate::Unmark() {
  absl::Status status = IgnoreNotFound(file_system_.RemoveFile(MarkerPath()));
  status.Update(UnlockDirectory(file_system_, directory_, std::move(lock_)));
  return status;
}

absl::Status DatasetUpdate::Abort() {
  if (std::exchange(ended_, true)) return absl::OkStatus();
  if (const absl::Status status = RemoveLeftovers(); !status.ok()) {
    // The marker stays, so that the next change knows them.
    (void)UnlockDirectory(file_system_, directory_, std::move(lock_));
    return status;
  }
  return Unmark();
}

absl::Status DatasetUpdate::RemoveEarlier(uint64_t* files) {
  std::set<std::string> named;
  for (const ManifestShard& shard : before_.shards) named.insert(shard.name);
  for (const std::string_view table : FilesBeside(before_)) named.emplace(table);
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system_.List(directory_));
  // By their names, or because a manifest says so.
  std::set<std::string> earlier(before_.replaced.begin(), before_.replaced.end());
  std::vector<std::string> manifests;
  for (const DirectoryEntry& entry : entries) {
    std::string_view name = entry.name;
    if (name.ends_with(".tmp")) name.remove_suffix(4);
    if (const std::optional<uint64_t> kept = GenerationOfKeptManifest(entry.name)) {
      manifests.push_back(entry.name);
      absl::StatusOr<Manifest> manifest = ReadGeneration(file_system_, directory_, *kept);
      if (!manifest.ok() || !ReadListedShards(file_system_, directory_, &*manifest).ok()) continue;
      for (const ManifestShard& shard : manifest->shards) {
        if (manifest->BaseOf(shard.name) == nullptr) earlier.insert(shard.name);
      }
    } else if (entry.type != FileType::kDirectory && (ParseShardName(name) || GenerationOfTable(entry.name))) {
      earlier.insert(entry.name);
    }
  }
  for (const std::string& name : earlier) {
    if (named.contains(name)) continue;
    const absl::Status removed = file_system_.RemoveFile(Path(name));
    if (absl::IsNotFound(removed)) continue;
    SHARDKIT_RETURN_IF_ERROR(removed);
    ++*files;
  }
  // The manifests last: after an error the next call finds by them what is left.
  for (const std::string& name : manifests) {
    SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_.RemoveFile(Path(name))));
    ++*files;
  }
  SHARDKIT_RETURN_IF_ERROR(file_system_.SyncDirectory(directory_));
  return Release();
}

absl::Status DatasetUpdate::Release() { return std::exchange(ended_, true) ? absl::OkStatus() : Unmark(); }

absl::StatusOr<std::unique_ptr<DatasetUpdate>> BeginChange(FileSystem& file_system, const std::string& directory) {
  auto update = DatasetUpdate::Begin(file_system, directory);
  if (!absl::IsNotFound(update.status())) return update;
  const auto opened = DatasetReader::Open(file_system, directory);
  if (!opened.ok()) return update;
  return InvalidArgument(directory, (*opened)->container() == "shard"
                                        ? ": is a single shard, which never changes; merge it into a dataset first"
                                        : ": is a dataset of another container; convert it first");
}

}  // namespace shardkit::dataset
