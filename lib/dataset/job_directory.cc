#include "dataset/job_directory.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "shardkit/shard_reader.h"

namespace shardkit {
namespace {

constexpr std::string_view kJournalName = ".shardkit-pack.journal";
constexpr std::string_view kLockName = ".shardkit-pack.lock";
constexpr std::string_view kJournalStart = "shardkit-pack-journal 1 ";
constexpr uint64_t kMaxJournalBytes = uint64_t{1} << 30;

bool IsShardName(std::string_view name) {
  return name.size() == 14 && name.ends_with(".shard") &&
         name.substr(0, 8).find_first_not_of("0123456789") == name.npos;
}

// Every name a job may leave behind.
bool IsOurs(std::string_view name) {
  if (name.ends_with(".tmp")) {
    const std::string_view final_name = name.substr(0, name.size() - 4);
    return IsShardName(final_name) || final_name == kIndexName || final_name == kManifestName ||
           final_name == "dataset.ends";
  }
  return IsShardName(name) || name == kIndexName || name == kLockName || name.starts_with(kJournalName);
}

std::string FormatEntry(const JournalEntry& entry) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  nlohmann::json skipped = nlohmann::json::array();
  for (const SkippedSample& sample : entry.skipped) {
    skipped.push_back({{"position", sample.position}, {"key", sample.key}, {"reason", sample.reason}});
  }
  const nlohmann::json line = {{"name", entry.shard.name},
                               {"bytes", entry.shard.bytes},
                               {"samples", entry.shard.samples},
                               {"blocks", entry.shard.blocks},
                               {"content_hash", ToHex(entry.shard.content_hash)},
                               {"next_position", entry.next_position},
                               {"skipped", std::move(skipped)}};
  return line.dump(-1, ' ', false, kReplace) + "\n";
}

// False for a line that is not whole: the crash came while it was written.
bool ParseEntry(std::string_view line, JournalEntry* entry, std::string* content_hash) {
  const nlohmann::json json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (json.is_discarded()) return false;
  try {
    entry->shard.name = json.at("name").get<std::string>();
    entry->shard.bytes = json.at("bytes").get<uint64_t>();
    entry->shard.samples = json.at("samples").get<uint64_t>();
    entry->shard.blocks = json.at("blocks").get<uint64_t>();
    *content_hash = json.at("content_hash").get<std::string>();
    entry->next_position = json.at("next_position").get<uint64_t>();
    for (const nlohmann::json& skipped : json.at("skipped")) {
      entry->skipped.push_back({skipped.at("position").get<uint64_t>(), skipped.at("key").get<std::string>(),
                                skipped.at("reason").get<std::string>()});
    }
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

}  // namespace

std::string ShardName(size_t number) {
  char name[32];
  std::snprintf(name, sizeof(name), "%08zu.shard", number);
  return name;
}

bool HasJournal(FileSystem& file_system, const std::string& directory) {
  return file_system.Stat(JoinPath(directory, kJournalName)).ok();
}

absl::Status PublishManifest(FileSystem& file_system, const std::string& directory, const Manifest& manifest) {
  const std::string path = JoinPath(directory, kManifestName);
  const std::string temporary = StrCat(path, ".tmp");
  if (absl::Status status = file_system.RemoveFile(temporary); !status.ok() && !absl::IsNotFound(status)) return status;
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, file_system.Create(temporary));
  SHARDKIT_RETURN_IF_ERROR(file->Append(FormatManifest(manifest)));
  SHARDKIT_RETURN_IF_ERROR(file->Sync());
  SHARDKIT_RETURN_IF_ERROR(file->Close());
  // What the manifest names must be durable before the manifest is.
  SHARDKIT_RETURN_IF_ERROR(file_system.SyncDirectory(directory));
  SHARDKIT_RETURN_IF_ERROR(file_system.Rename(temporary, path));
  return file_system.SyncDirectory(directory);
}

absl::StatusOr<std::unique_ptr<JobDirectory>> JobDirectory::Open(FileSystem& file_system, const std::string& directory,
                                                                 const std::string& fingerprint, bool resume) {
  std::unique_ptr<JobDirectory> job(new JobDirectory());
  job->file_system_ = &file_system;
  job->directory_ = directory;
  job->ended_ = true;  // nothing to remove until Prepare has found the directory to be ours
  SHARDKIT_RETURN_IF_ERROR(job->Prepare(fingerprint, resume));
  return job;
}

JobDirectory::~JobDirectory() { (void)Abort(); }

absl::Status JobDirectory::CheckForeign(const std::vector<DirectoryEntry>& entries, bool ours) const {
  for (const DirectoryEntry& entry : entries) {
    // A run may have died before its journal was in place.
    if (entry.name == kLockName || entry.name.starts_with(kJournalName) || (ours && IsOurs(entry.name))) continue;
    return FailedPrecondition(directory_, ": is not empty (there is \"", entry.name,
                              "\"); give a new or an empty directory");
  }
  return absl::OkStatus();
}

absl::Status JobDirectory::Prepare(const std::string& fingerprint, bool resume) {
  FileSystem& file_system = *file_system_;
  const bool existed = file_system.Stat(directory_).ok();
  SHARDKIT_RETURN_IF_ERROR(CreateDirectories(file_system, directory_));
  created_directory_ = !existed;
  // A run that is refused leaves the lock file only where there was a job before.
  const bool manifest_exists = file_system.Stat(Path(kManifestName)).ok();
  const bool journal_exists = HasJournal(file_system, directory_);
  if (manifest_exists && !resume) {
    return absl::AlreadyExistsError(
        StrCat(directory_, ": already holds a dataset; give another directory, or remove it first"));
  }
  if (existed && !manifest_exists) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory_));
    SHARDKIT_RETURN_IF_ERROR(CheckForeign(entries, journal_exists));
  }
  absl::StatusOr<std::unique_ptr<FileLock>> lock = file_system.Lock(Path(kLockName));
  if (absl::IsFailedPrecondition(lock.status())) {
    return FailedPrecondition(directory_, ": another run is writing a dataset there");
  }
  if (!lock.ok()) return lock.status();
  lock_ = *std::move(lock);

  if (manifest_exists) {
    complete_ = true;
    return Finish();
  }
  std::string kept;
  if (journal_exists && resume) SHARDKIT_RETURN_IF_ERROR(ReadJournal(fingerprint, &kept));
  ended_ = false;
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory_));
  SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers(entries));
  // The journal is written anew, which drops a line that was cut short. It is renamed into place so that at no moment
  // there are shards without it.
  const std::string temporary = Path(StrCat(kJournalName, ".new"));
  if (absl::Status status = file_system.RemoveFile(temporary); !status.ok() && !absl::IsNotFound(status)) return status;
  SHARDKIT_ASSIGN_OR_RETURN(journal_, file_system.Create(temporary));
  SHARDKIT_RETURN_IF_ERROR(journal_->Append(StrCat(kJournalStart, fingerprint, "\n", kept)));
  SHARDKIT_RETURN_IF_ERROR(journal_->Sync());
  SHARDKIT_RETURN_IF_ERROR(file_system.Rename(temporary, Path(kJournalName)));
  return file_system.SyncDirectory(directory_);
}

absl::Status JobDirectory::ReadJournal(const std::string& fingerprint, std::string* kept) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string text, file_system_->ReadFile(Path(kJournalName), kMaxJournalBytes));
  std::string_view rest = text;
  bool first = true;
  while (true) {
    const size_t newline = rest.find('\n');
    if (newline == rest.npos) break;
    const std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline + 1);
    if (std::exchange(first, false)) {
      if (line != StrCat(kJournalStart, fingerprint)) {
        return FailedPrecondition(directory_,
                                  ": was begun with other input or options; give the same ones to resume, or run without "
                                  "resuming to start over");
      }
      continue;
    }
    JournalEntry entry;
    std::string content_hash;
    if (!ParseEntry(line, &entry, &content_hash) || entry.shard.name != ShardName(finished_.size())) break;
    // The journal is written after the shard has been published, so a shard that cannot be opened was lost afterwards.
    auto reader = ShardReader::Open(*file_system_, Path(entry.shard.name));
    if (!reader.ok() || ToHex((*reader)->content_hash()) != content_hash ||
        (*reader)->file_length() != entry.shard.bytes) {
      break;
    }
    entry.shard.content_hash = (*reader)->content_hash();
    kept->append(line).push_back('\n');
    finished_.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

absl::Status JobDirectory::RemoveLeftovers(const std::vector<DirectoryEntry>& entries) {
  for (const DirectoryEntry& entry : entries) {
    if (!IsOurs(entry.name) || entry.name == kLockName || entry.name == kJournalName) continue;
    if (IsShardName(entry.name) && std::stoull(entry.name) < finished_.size()) continue;
    SHARDKIT_RETURN_IF_ERROR(file_system_->RemoveFile(Path(entry.name)));
  }
  return absl::OkStatus();
}

absl::Status JobDirectory::Record(const JournalEntry& entry) {
  SHARDKIT_RETURN_IF_ERROR(journal_->Append(FormatEntry(entry)));
  return journal_->Sync();
}

absl::Status JobDirectory::Finish() {
  ended_ = true;
  journal_.reset();
  if (absl::Status status = file_system_->RemoveFile(Path(kJournalName)); !status.ok() && !absl::IsNotFound(status)) {
    return status;
  }
  if (absl::Status status = file_system_->RemoveFile(Path(kLockName)); !status.ok() && !absl::IsNotFound(status)) {
    return status;
  }
  lock_.reset();
  return file_system_->SyncDirectory(directory_);
}

absl::Status JobDirectory::Abort() {
  if (std::exchange(ended_, true)) return absl::OkStatus();
  journal_.reset();
  finished_.clear();
  absl::Status status;
  // A manifest that was published just before the failure would name shards that are about to go.
  if (absl::Status removed = file_system_->RemoveFile(Path(kManifestName)); !absl::IsNotFound(removed)) {
    status.Update(removed);
  }
  const auto entries = file_system_->List(directory_);
  if (!entries.ok()) return entries.status();
  status.Update(RemoveLeftovers(*entries));
  for (const std::string_view name : {kJournalName, kLockName}) {
    if (absl::Status removed = file_system_->RemoveFile(Path(name)); !absl::IsNotFound(removed)) status.Update(removed);
  }
  lock_.reset();
  if (created_directory_) status.Update(file_system_->RemoveDirectory(directory_));
  return status;
}

}  // namespace shardkit
