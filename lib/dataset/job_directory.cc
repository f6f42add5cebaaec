#include "dataset/job_directory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/kept_manifests.h"
#include "dataset/manifest_text.h"
#include "io/publish_file.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kJournalName = ".shardkit-pack.journal";
constexpr std::string_view kJournalStart = "shardkit-pack-journal 1 ";
constexpr uint64_t kMaxJournalBytes = uint64_t{1} << 30;
constexpr std::string_view kShardSuffix = ".shard";

// Whether a job of any container has a file of this name beside its dataset: the lock, the journal, or the record.
bool IsOfTheJob(std::string_view name) {
  return name == kLockName || name == kMarkerName || name.starts_with(kJournalName) || name.starts_with(kJobRecordName);
}

// Whether the error means that a shard was lost or cut short in a crash, and not only that it cannot be read now.
bool IsLostShard(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsOutOfRange(status);
}

class OwnFiles final : public JobFiles {
 public:
  std::string_view manifest_name() const override { return kManifestName; }

  Name Recognize(std::string_view name) const override {
    if (const std::string_view final_name = io::TargetOfTemporary(name); !final_name.empty()) {
      return {ParseShardName(final_name) || GenerationOfTable(name).has_value() || final_name == kManifestName ||
                  GenerationOfKeptManifest(name).has_value(),
              {}};
    }
    if (ParseShardName(name)) return {true, name};
    return {GenerationOfTable(name).has_value() || GenerationOfKeptManifest(name).has_value(), {}};
  }

  absl::StatusOr<bool> IsWhole(FileSystem& file_system, const std::string& path, std::string_view content_hash,
                               JournalEntry* entry) const override {
    const auto reader = ShardReader::Open(file_system, path);
    if (!reader.ok() && !IsLostShard(reader.status())) return reader.status();
    if (!reader.ok() || ToHex((*reader)->content_hash()) != content_hash ||
        (*reader)->file_length() != entry->shard.bytes) {
      return false;
    }
    entry->shard.content_hash = (*reader)->content_hash();
    return true;
  }
};

}  // namespace

const JobFiles& NativeJobFiles() {
  static const OwnFiles files;
  return files;
}

JobFiles::Name JobDirectory::Recognize(std::string_view name) const {
  return IsOfTheJob(name) ? JobFiles::Name{true, {}} : files_.Recognize(name);
}

absl::StatusOr<std::unique_ptr<FileLock>> LockDirectory(FileSystem& file_system, const std::string& directory) {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = file_system.Lock(JoinPath(directory, kLockName));
  if (!absl::IsFailedPrecondition(lock.status())) return lock;
  return Unavailable(directory, ": another run is writing a dataset there; wait until it ends");
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

std::string UnitShardName(const UnitShard& number) {
  const std::string unit = StrCat(absl::Dec(number.unit, absl::kZeroPad8));
  return number.shard == 0 ? StrCat(unit, kShardSuffix)
                           : StrCat(unit, "_", absl::Dec(number.shard, absl::kZeroPad5), kShardSuffix);
}

std::optional<UnitShard> ParseShardName(std::string_view name) {
  if (!name.ends_with(kShardSuffix)) return std::nullopt;
  const std::string_view stem = name.substr(0, name.size() - kShardSuffix.size());
  const size_t mark = std::min(stem.find('_'), stem.size());
  UnitShard number;
  if (!absl::SimpleAtoi(ToAbsl(stem.substr(0, mark)), &number.unit)) return std::nullopt;
  if (mark < stem.size() && !absl::SimpleAtoi(ToAbsl(stem.substr(mark + 1)), &number.shard)) return std::nullopt;
  if (UnitShardName(number) != name) return std::nullopt;
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

absl::StatusOr<bool> HasJournal(ReadableFileSystem& file_system, const std::string& directory) {
  return Exists(file_system, JoinPath(directory, kJournalName));
}

absl::Status PublishManifest(FileSystem& file_system, const std::string& directory, const Manifest& manifest,
                             bool must_be_new) {
  return io::PublishFile(file_system, JoinPath(directory, kManifestName), FormatManifest(manifest), must_be_new);
}

absl::StatusOr<std::unique_ptr<JobDirectory>> JobDirectory::Open(FileSystem& file_system, const std::string& directory,
                                                                 const std::string& fingerprint, bool resume,
                                                                 const JobFiles& files) {
  std::unique_ptr<JobDirectory> job(new JobDirectory(files, fingerprint));
  job->file_system_ = &file_system;
  job->directory_ = directory;
  job->ended_ = true;  // nothing may be removed until Prepare has found that the directory is ours
  const absl::Status status = job->Prepare(resume);
  if (status.ok()) return job;
  if (job->ended_ && job->created_directory_) {
    // Only the holder of the lock may remove its file.
    if (job->lock_) (void)file_system.RemoveFile(job->Path(kLockName));
    (void)file_system.RemoveDirectory(directory);
  }
  return status;
}

JobDirectory::~JobDirectory() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

absl::Status JobDirectory::CheckForeign(const std::vector<DirectoryEntry>& entries, bool ours) const {
  for (const DirectoryEntry& entry : entries) {
    // A run may have died before its journal was in place, and a dataset may have been removed without its record.
    if (IsOfTheJob(entry.name) || (ours && Recognize(entry.name).ours)) continue;
    return absl::AlreadyExistsError(
        StrCat(directory_, ": is not empty (there is \"", entry.name, "\"); give a new or an empty directory"));
  }
  return absl::OkStatus();
}

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

// Checks whether the job may use this directory. Returns true when there is a journal. Sets complete_.
absl::StatusOr<bool> JobDirectory::LookAround(bool resume) {
  SHARDKIT_ASSIGN_OR_RETURN(complete_, Exists(*file_system_, Path(files_.manifest_name())));
  SHARDKIT_ASSIGN_OR_RETURN(const bool journal_exists, HasJournal(*file_system_, directory_));
  if (complete_ && !resume) {
    return absl::AlreadyExistsError(
        StrCat(directory_, ": already holds a dataset; give another directory, or remove it first"));
  }
  if (!complete_) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system_->List(directory_));
    SHARDKIT_RETURN_IF_ERROR(CheckForeign(entries, journal_exists));
    return journal_exists;
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto record, ReadJobRecord(*file_system_, directory_));
  if (!record || record->fingerprint != fingerprint_) return MadeByAnotherJob();
  complete_hash_ = record->dataset_hash;
  listing_ = record->listing;
  return journal_exists;
}

absl::Status JobDirectory::MadeByAnotherJob() const {
  return FailedPrecondition(directory_,
                            ": holds a dataset that another job has made, or that does not say which: give ",
                            "another directory, or the input and options it was made with, or remove it first");
}

absl::Status JobDirectory::CheckComplete(const Manifest& manifest) const {
  return manifest.dataset_hash() == complete_hash_ ? absl::OkStatus() : MadeByAnotherJob();
}

absl::Status JobDirectory::Describe(const Manifest& manifest, uint64_t listing) const {
  return PublishJobRecord(*file_system_, directory_, fingerprint_, manifest, listing);
}

absl::Status JobDirectory::Prepare(bool resume) {
  FileSystem& file_system = *file_system_;
  SHARDKIT_RETURN_IF_ERROR(CreateDurableDirectory(file_system, directory_, &created_directory_));
  // Looks first without the lock, so that a refused run leaves a lock file only where there was a job before.
  SHARDKIT_RETURN_IF_ERROR(LookAround(resume).status());
  SHARDKIT_ASSIGN_OR_RETURN(lock_, LockDirectory(file_system, directory_));

  // Looks again with the lock: another run may have ended meanwhile, and its shards must not be taken for leftovers.
  const absl::StatusOr<bool> journal_exists = LookAround(resume);
  if (complete_ && !journal_exists.ok()) (void)file_system.RemoveFile(Path(kLockName));
  if (!journal_exists.ok()) return journal_exists.status();
  if (complete_) return Finish();
  std::string kept;
  if (*journal_exists && resume) SHARDKIT_RETURN_IF_ERROR(ReadJournal(&kept));
  // If resuming fails below, the finished shards are kept.
  ended_ = !finished_.empty();
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory_));
  SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers(entries));
  // Writes the journal again, without a last line that was cut short. The rename ensures that shards never exist
  // without a journal.
  const std::string temporary = Path(StrCat(kJournalName, ".tmp"));
  SHARDKIT_ASSIGN_OR_RETURN(journal_, file_system.Create(temporary));
  SHARDKIT_RETURN_IF_ERROR(journal_->Append(StrCat(kJournalStart, fingerprint_, "\n", kept)));
  SHARDKIT_RETURN_IF_ERROR(journal_->Sync());
  SHARDKIT_RETURN_IF_ERROR(file_system.Rename(temporary, Path(kJournalName)));
  SHARDKIT_RETURN_IF_ERROR(file_system.SyncDirectory(directory_));
  ended_ = false;
  return absl::OkStatus();
}

absl::Status JobDirectory::ReadJournal(std::string* kept) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string text, file_system_->ReadFile(Path(kJournalName), kMaxJournalBytes));
  std::string_view rest = text;
  std::vector<std::string_view> lines;
  bool first = true;
  while (true) {
    const size_t newline = rest.find('\n');
    if (newline == rest.npos) break;
    const std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline + 1);
    if (std::exchange(first, false)) {
      if (line != StrCat(kJournalStart, fingerprint_)) {
        return FailedPrecondition(
            directory_,
            ": was begun with other input or options; give the same ones to resume, or run without "
            "resuming to start over");
      }
      continue;
    }
    JournalEntry entry;
    std::string content_hash;
    if (!ParseJournalEntry(line, &entry, &content_hash) || files_.Recognize(entry.shard.name).shard.empty()) break;
    // An entry is written after its shard has been published, so a shard that cannot be opened was lost afterwards.
    SHARDKIT_ASSIGN_OR_RETURN(const bool whole,
                              files_.IsWhole(*file_system_, Path(entry.shard.name), content_hash, &entry));
    if (!whole) break;
    lines.push_back(line);
    finished_.push_back(std::move(entry));
  }
  while (!finished_.empty() && !finished_.back().may_continue) finished_.pop_back();
  for (size_t i = 0; i < finished_.size(); ++i) kept->append(lines[i]).push_back('\n');
  return absl::OkStatus();
}

// Continues after a failure. Returns the first error.
absl::Status JobDirectory::RemoveLeftovers(const std::vector<DirectoryEntry>& entries) {
  absl::Status status;
  absl::flat_hash_set<std::string_view> finished;
  for (const JournalEntry& entry : finished_) finished.insert(entry.shard.name);
  for (const DirectoryEntry& entry : entries) {
    const JobFiles::Name name = Recognize(entry.name);
    if (!name.ours || entry.name == kLockName || entry.name == kJournalName) continue;
    if (finished.contains(name.shard)) continue;
    status.Update(IgnoreNotFound(file_system_->RemoveFile(Path(entry.name))));
  }
  return status;
}

absl::Status JobDirectory::Record(const JournalEntry& entry) {
  SHARDKIT_RETURN_IF_ERROR(journal_->Append(FormatJournalEntry(entry)));
  return journal_->Sync();
}

absl::Status JobDirectory::Finish() {
  ended_ = true;
  journal_.reset();
  SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_->RemoveFile(Path(kJournalName))));
  SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_->RemoveFile(Path(kLockName))));
  lock_.reset();
  return file_system_->SyncDirectory(directory_);
}

absl::Status JobDirectory::Abort() {
  if (std::exchange(ended_, true)) return absl::OkStatus();
  journal_.reset();
  finished_.clear();
  const std::unique_ptr<FileLock> lock = std::move(lock_);
  // A manifest that was published just before the failure lists shards that are about to be removed, so it is removed
  // first. If that fails, the dataset stays whole.
  const absl::Status unpublished = file_system_->RemoveFile(Path(files_.manifest_name()));
  if (!absl::IsNotFound(unpublished)) {
    SHARDKIT_RETURN_IF_ERROR(unpublished);
    SHARDKIT_RETURN_IF_ERROR(file_system_->SyncDirectory(directory_));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system_->List(directory_));
  SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers(entries));
  // Makes the removals durable first: the next run would take shards without a journal for foreign files.
  SHARDKIT_RETURN_IF_ERROR(file_system_->SyncDirectory(directory_));
  SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_->RemoveFile(Path(kJournalName))));
  SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_->RemoveFile(Path(kLockName))));
  return created_directory_ ? file_system_->RemoveDirectory(directory_) : absl::OkStatus();
}

}  // namespace shardkit::dataset
