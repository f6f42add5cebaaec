#include "dataset/write/job_folder.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/dataset_files.h"
#include "io/publish_file.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {
namespace {

constexpr std::string_view kLockName = "lock";
constexpr std::string_view kJobName = "job.json";
constexpr std::string_view kJobFormat = "shardkit-job 2";
constexpr std::string_view kRecordSuffix = ".json";
constexpr size_t kHashDigits = 16;
constexpr uint64_t kMaxJobBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

// Whether the error means that a shard was lost or cut short in a crash, and not only that it cannot be read now.
bool IsLostShard(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsOutOfRange(status);
}

class OwnFiles final : public JobFiles {
 public:
  std::string_view manifest_name() const override { return kManifestName; }

  Name Recognize(std::string_view name) const override {
    const bool beside = GenerationOfTable(name).has_value() || GenerationOfKeptManifest(name).has_value();
    if (const std::string_view final_name = io::TargetOfTemporary(name); !final_name.empty()) {
      return {ParseShardName(final_name) || final_name == kManifestName || beside, {}};
    }
    return ParseShardName(name) ? Name{true, name} : Name{beside, {}};
  }

  absl::StatusOr<bool> IsWhole(ReadableFileSystem& file_system, const std::string& path,
                               const ManifestShard& listed) const override {
    const auto reader = ShardReader::Open(file_system, path);
    if (!reader.ok() && !IsLostShard(reader.status())) return reader.status();
    return reader.ok() && (*reader)->content_hash() == listed.content_hash && (*reader)->file_length() == listed.bytes;
  }
};

std::string FormatJob(const JobDescription& job) {
  JsonValue text = JsonValue::Object();
  text.Set("format", kJobFormat).Set("fingerprint", job.fingerprint);
  if (job.in_tasks) text.Set("in_tasks", true);
  if (job.dataset_hash) text.Set("dataset_hash", *job.dataset_hash);
  if (job.listing != 0) text.Set("listing", job.listing);
  return text.FormatIndented() + "\n";
}

absl::Status ReadJobText(JsonReader& json, JobDescription* job) {
  std::string format;
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"format", &format}}));
  if (format != kJobFormat) return Unimplemented("another version of this program made it");
  return json.Object({{"format", &format},
                      {"fingerprint", &job->fingerprint},
                      {"in_tasks", &job->in_tasks, JsonField::kOptional},
                      {"dataset_hash", &job->dataset_hash, JsonField::kOptional},
                      {"listing", &job->listing, JsonField::kOptional}});
}

std::string FormatRecord(const std::string& job, const ShardRecord& record) {
  JsonValue skipped = JsonValue::Array();
  for (const SkippedSample& sample : record.skipped) {
    JsonValue object = JsonValue::Object();
    object.Set("position", sample.position)
        .Set("key", sample.key)
        .Set("reason", sample.reason)
        .Set("kind", sample.kind);
    skipped.Add(std::move(object));
  }
  const ManifestShard& shard = record.shard;
  JsonValue text = JsonValue::Object();
  text.Set("job", job).Set("name", shard.name).Set("bytes", shard.bytes).Set("samples", shard.samples);
  text.Set("blocks", shard.blocks).Set("content_hash", ToHex(shard.content_hash));
  // Kept, and not computed again when the run is resumed: a shard that is damaged meanwhile must not get the hash of
  // the damage.
  if (shard.sha256) text.Set("sha256", ToHex(*shard.sha256));
  text.Set("shards_before", record.shards_before).Set("next_position", record.next_position);
  text.Set("listing", record.listing).Set("may_continue", record.may_continue);
  text.Set("skipped", std::move(skipped)).Set("details", record.details);
  if (record.unit_end) {
    JsonValue end = JsonValue::Object();
    end.Set("listed", record.unit_end->listed).Set("listing", record.unit_end->listing);
    text.Set("unit_end", std::move(end.Set("input_bytes", record.unit_end->input_bytes)));
  }
  return text.Format() + "\n";
}

// Empty for the record of another job.
absl::StatusOr<std::optional<ShardRecord>> ParseRecord(std::string_view text, const std::string& job) {
  ShardRecord record;
  ManifestShard& shard = record.shard;
  std::string of_job;
  const auto read_skipped = [](JsonReader& json, SkippedSample* sample) {
    return json.Object(
        {{"position", &sample->position}, {"key", &sample->key}, {"reason", &sample->reason}, {"kind", &sample->kind}});
  };
  const auto read_sha256 = [&](JsonReader& digits) { return digits.Read(shard.sha256.emplace()); };
  const auto read_end = [&](JsonReader& json) {
    UnitEnd& end = record.unit_end.emplace();
    return json.Object({{"listed", &end.listed}, {"listing", &end.listing}, {"input_bytes", &end.input_bytes}});
  };
  const absl::Status status = ReadJson(text, /*all=*/true, [&](JsonReader& json) {
    return json.Object({{"job", &of_job},
                        {"name", &shard.name},
                        {"bytes", &shard.bytes},
                        {"samples", &shard.samples},
                        {"blocks", &shard.blocks},
                        {"content_hash", std::span<uint8_t>(shard.content_hash)},
                        {"sha256", read_sha256, JsonField::kOptional},
                        {"shards_before", &record.shards_before},
                        {"next_position", &record.next_position},
                        {"listing", &record.listing},
                        {"may_continue", &record.may_continue},
                        {"skipped", JsonInto(&record.skipped, read_skipped)},
                        {"details", &record.details},
                        {"unit_end", read_end, JsonField::kOptional}});
  });
  SHARDKIT_RETURN_IF_ERROR(status);
  return of_job == job ? std::optional(std::move(record)) : std::nullopt;
}

// The folder's files; none where it is missing.
absl::StatusOr<std::vector<DirectoryEntry>> ListFolder(ReadableFileSystem& file_system, const std::string& directory) {
  auto entries = file_system.List(JobFolderPath(directory));
  return absl::IsNotFound(entries.status()) ? std::vector<DirectoryEntry>() : std::move(entries);
}

std::string FilePath(const std::string& directory, std::string_view name) {
  return JoinPath(JobFolderPath(directory), name);
}

absl::StatusOr<std::vector<UnitShard>> ListRecords(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, ListFolder(file_system, directory));
  std::vector<UnitShard> numbers;
  for (const DirectoryEntry& entry : entries) {
    if (const auto number = ParseShardName(entry.name, kRecordSuffix)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

// Shards of other containers have other names.
UnitShard NumberOf(const ShardRecord& record) {
  return ParseShardName(record.shard.name).value_or(UnitShard{.unit = record.shards_before});
}

absl::Status CheckForeign(const std::string& directory, const std::vector<DirectoryEntry>& entries,
                          const JobFiles* files) {
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == kJobFolderName || (files != nullptr && files->Recognize(entry.name).ours)) continue;
    return absl::AlreadyExistsError(
        StrCat(directory, ": is not empty (there is \"", entry.name, "\"); give a new or an empty directory"));
  }
  return absl::OkStatus();
}

}  // namespace

const JobFiles& NativeJobFiles() {
  static const OwnFiles files;
  return files;
}

absl::StatusOr<std::unique_ptr<FileLock>> LockDirectory(FileSystem& file_system, const std::string& directory) {
  constexpr int kMostAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    bool created = false;
    const absl::Status made = CreateDurableDirectory(file_system, JobFolderPath(directory), &created);
    auto lock = made.ok() ? file_system.Lock(FilePath(directory, kLockName)) : made;
    if (!lock.ok() && created) (void)file_system.RemoveDirectory(JobFolderPath(directory));
    // Another run may have removed the folder at its end.
    if (absl::IsNotFound(lock.status()) && attempt < kMostAttempts) continue;
    if (!absl::IsFailedPrecondition(lock.status())) return lock;
    return Unavailable(directory, ": another run is writing a dataset there; wait until it ends");
  }
}

absl::Status UnlockDirectory(FileSystem& file_system, const std::string& directory, std::unique_ptr<FileLock> lock) {
  // Only the holder of the lock may remove its file.
  absl::Status status = IgnoreNotFound(file_system.RemoveFile(FilePath(directory, kLockName)));
  lock.reset();
  if (!status.ok()) return status;
  status = file_system.RemoveDirectory(JobFolderPath(directory));
  const bool stays = absl::IsFailedPrecondition(status);  // it is not empty
  if (!stays) SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(status));
  return file_system.SyncDirectory(stays ? JobFolderPath(directory) : directory);
}

absl::Status ClearJobFolder(FileSystem& file_system, const std::string& directory) {
  SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system.RemoveFile(FilePath(directory, kJobName))));
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, ListFolder(file_system, directory));
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == kLockName) continue;
    SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system.RemoveFile(FilePath(directory, entry.name))));
  }
  return absl::OkStatus();
}

std::string FingerprintOf(const std::string& text) { return StrCat(absl::Hex(Hash64(text), absl::kZeroPad16)); }

absl::StatusOr<std::optional<JobDescription>> ReadJob(ReadableFileSystem& file_system, const std::string& directory) {
  const auto text = file_system.ReadFile(FilePath(directory, kJobName), kMaxJobBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  SHARDKIT_RETURN_IF_ERROR(text.status());
  JobDescription job;
  const absl::Status read = ReadJson(*text, /*all=*/true, [&](JsonReader& json) { return ReadJobText(json, &job); });
  // The text must be the one that is written: a number that has lost a digit is another one.
  if (!read.ok() || job.fingerprint.size() != kHashDigits || FormatJob(job) != *text) return std::nullopt;
  return job;
}

absl::StatusOr<bool> HasUnfinishedJob(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto job, ReadJob(file_system, directory));
  return job && !job->dataset_hash;
}

absl::Status CheckIsNew(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto job, ReadJob(file_system, directory));
  if (job) {
    return absl::AlreadyExistsError(StrCat(directory, job->in_tasks
                                                          ? ": already has a plan: run its tasks, or remove it first"
                                                          : ": holds another job: give a new or an empty directory"));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  return CheckForeign(directory, entries, nullptr);
}

absl::Status BeginTasks(FileSystem& file_system, const std::string& directory, const std::string& fingerprint) {
  bool created = false;
  SHARDKIT_RETURN_IF_ERROR(CreateDurableDirectory(file_system, directory, &created));
  // Listed before job.json is read: a task writes it before anything else.
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  SHARDKIT_ASSIGN_OR_RETURN(const auto job, ReadJob(file_system, directory));
  const bool same = job && job->fingerprint == fingerprint;
  if (job && (!same || (!job->in_tasks && !job->dataset_hash))) {
    return FailedPrecondition(directory, ": holds a job of another input or with other options; give the same ones to ",
                              "all tasks, or choose another directory");
  }
  if (same && job->in_tasks) return absl::OkStatus();
  // Shards of a finished job are not its tasks' where somebody has removed the manifest.
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, Exists(file_system, JoinPath(directory, kManifestName)));
  if (same && complete) return absl::OkStatus();
  SHARDKIT_RETURN_IF_ERROR(CheckForeign(directory, entries, nullptr));
  SHARDKIT_RETURN_IF_ERROR(CreateDurableDirectory(file_system, JobFolderPath(directory), &created));
  return io::PublishShared(file_system, FilePath(directory, kJobName),
                           FormatJob({.fingerprint = fingerprint, .in_tasks = true, .dataset_hash = std::nullopt}));
}

absl::StatusOr<std::optional<ShardRecord>> ShardRecords::Read(const UnitShard& number) const {
  const auto text = file_system_.ReadFile(JoinPath(folder_, Name(number)), kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  SHARDKIT_RETURN_IF_ERROR(text.status());
  auto record = ParseRecord(*text, job_);
  return record.ok() ? *std::move(record) : std::nullopt;
}

absl::StatusOr<std::optional<std::vector<ShardRecord>>> ShardRecords::ReadUnit(uint64_t unit) const {
  std::vector<ShardRecord> records;
  while (records.empty() || !records.back().unit_end) {
    SHARDKIT_ASSIGN_OR_RETURN(auto record, Read({unit, records.size()}));
    if (!record) return std::nullopt;
    records.push_back(*std::move(record));
  }
  return records;
}

absl::Status ShardRecords::Publish(const UnitShard& number, const ShardRecord& record) const {
  return io::PublishShared(file_system_, JoinPath(folder_, Name(number)), FormatRecord(job_, record));
}

absl::Status ShardRecords::RemoveAll() const {
  const auto entries = file_system_.List(folder_);
  if (!entries.ok()) return IgnoreNotFound(entries.status());
  for (const DirectoryEntry& entry : *entries) {
    const std::string_view target = io::TargetOfTemporary(entry.name);
    if (!ParseShardName(target.empty() ? entry.name : target, kRecordSuffix)) continue;
    SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_.RemoveFile(JoinPath(folder_, entry.name))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<JobFolder>> JobFolder::Open(FileSystem& file_system, const std::string& directory,
                                                           const std::string& fingerprint, const Options& options) {
  std::unique_ptr<JobFolder> job(new JobFolder(file_system, directory, fingerprint, options));
  const absl::Status status = job->Prepare();
  if (status.ok()) return job;
  if (job->ended_) {
    if (job->lock_) (void)UnlockDirectory(file_system, directory, std::move(job->lock_));
    if (job->created_directory_) (void)file_system.RemoveDirectory(directory);
  }
  return status;
}

absl::Status JobFolder::CleanUp(FileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto there, ReadJob(file_system, directory));
  if (!there || !there->dataset_hash) return absl::OkStatus();
  JobFolder job(file_system, directory, there->fingerprint, {.resume = true});
  SHARDKIT_ASSIGN_OR_RETURN(job.lock_, LockDirectory(file_system, directory));
  const absl::Status looked = job.LookAround().status();
  if (looked.ok() && job.complete_) return job.Finish();
  (void)UnlockDirectory(file_system, directory, std::move(job.lock_));
  return looked;
}

JobFolder::~JobFolder() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

// Checks whether the job may use this directory. Returns true when a job is unfinished there, so that its files may be
// removed or continued. Sets complete_, and of a complete dataset job_.
absl::StatusOr<bool> JobFolder::LookAround() {
  const bool continues = options_.resume || options_.of_tasks != nullptr;
  SHARDKIT_ASSIGN_OR_RETURN(complete_, Exists(file_system_, Path(options_.files.manifest_name())));
  if (complete_ && !continues) {
    return absl::AlreadyExistsError(
        StrCat(directory_, ": already holds a dataset; give another directory, or remove it first"));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto there, ReadJob(file_system_, directory_));
  const bool same = there && there->fingerprint == job_.fingerprint;
  if (complete_) {
    if (!same || !there->dataset_hash) return MadeByAnotherJob();
    job_ = *there;
    return false;
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system_.List(directory_));
  bool unfinished = there && !there->dataset_hash;
  if (there && !unfinished) {
    // Its run ended just before the manifest was published. Or else somebody has removed the manifest of a dataset:
    // then the shards are not ours.
    SHARDKIT_ASSIGN_OR_RETURN(const auto records, ListRecords(file_system_, directory_));
    unfinished = !records.empty() || std::ranges::none_of(entries, [&](const DirectoryEntry& entry) {
      return !options_.files.Recognize(entry.name).shard.empty();
    });
  }
  if (unfinished && there->in_tasks && options_.of_tasks == nullptr) {
    return absl::AlreadyExistsError(StrCat(directory_,
                                           ": holds a job that tasks do: run and finish them, or give another ",
                                           "directory, or remove it first"));
  }
  SHARDKIT_RETURN_IF_ERROR(CheckForeign(directory_, entries, unfinished ? &options_.files : nullptr));
  if (unfinished && continues && !same) {
    return FailedPrecondition(directory_, ": was begun with other input or options; give the same ones to resume, or ",
                              "run without resuming to start over");
  }
  return unfinished;
}

absl::Status JobFolder::MadeByAnotherJob() const {
  return FailedPrecondition(directory_,
                            ": holds a dataset that another job has made, or that does not say which: give ",
                            "another directory, or the input and options it was made with, or remove it first");
}

absl::Status JobFolder::CheckComplete(const Manifest& manifest) const {
  return manifest.dataset_hash() == job_.dataset_hash ? absl::OkStatus() : MadeByAnotherJob();
}

absl::Status JobFolder::Prepare() {
  SHARDKIT_RETURN_IF_ERROR(CreateDurableDirectory(file_system_, directory_, &created_directory_));
  // Looks first without the lock, so that a refused run leaves nothing.
  SHARDKIT_RETURN_IF_ERROR(LookAround().status());
  SHARDKIT_ASSIGN_OR_RETURN(lock_, LockDirectory(file_system_, directory_));
  // Looks again with the lock: another run may have ended meanwhile, and its shards must not be taken for leftovers.
  SHARDKIT_ASSIGN_OR_RETURN(const bool unfinished, LookAround());
  if (complete_) return Finish();
  if (options_.of_tasks != nullptr) {
    finished_ = *options_.of_tasks;
    return RemoveLeftovers();
  }
  if (unfinished && options_.resume) SHARDKIT_RETURN_IF_ERROR(ReadRecords());
  // If resuming fails below, the finished shards are kept.
  ended_ = !finished_.empty();
  SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers());
  SHARDKIT_RETURN_IF_ERROR(PublishJob());
  ended_ = false;
  return absl::OkStatus();
}

absl::Status JobFolder::ReadRecords() {
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<UnitShard> numbers, ListRecords(file_system_, directory_));
  // Each, unless it or its shard is lost.
  using Found = absl::StatusOr<std::optional<ShardRecord>>;
  OrderedTasks<Found> reading(*options_.threads, "looking at finished shards", options_.cancellation,
                              2 * static_cast<size_t>(options_.threads->thread_count()));
  for (size_t begun = 0, taken = 0; taken < numbers.size(); ++taken) {
    for (; begun < numbers.size() && !reading.full(); ++begun) {
      reading.Add([this, number = numbers[begun]]() -> Found {
        SHARDKIT_ASSIGN_OR_RETURN(std::optional<ShardRecord> record, records_.Read(number));
        if (!record || options_.files.Recognize(record->shard.name).shard.empty()) return std::nullopt;
        // A record is written after its shard is published, so a shard that cannot be opened was lost afterwards.
        SHARDKIT_ASSIGN_OR_RETURN(const bool whole,
                                  options_.files.IsWhole(file_system_, Path(record->shard.name), record->shard));
        return whole ? std::move(record) : std::nullopt;
      });
    }
    SHARDKIT_ASSIGN_OR_RETURN(std::optional<ShardRecord> record, reading.Take().result);
    // Behind one that is lost, a crash while leftovers were removed may have left others.
    if (!record || record->shards_before != finished_.size()) break;
    finished_.push_back(*std::move(record));
  }
  while (!finished_.empty() && !finished_.back().may_continue) finished_.pop_back();
  return absl::OkStatus();
}

// Continues after a failure. Returns the first error.
absl::Status JobFolder::RemoveLeftovers() {
  absl::flat_hash_set<std::string> kept;
  for (const ShardRecord& record : finished_) kept.insert(record.shard.name);
  SHARDKIT_ASSIGN_OR_RETURN(auto entries, file_system_.List(directory_));
  absl::Status status;
  for (const DirectoryEntry& entry : entries) {
    const JobFiles::Name name = options_.files.Recognize(entry.name);
    if (!name.ours || kept.contains(ToAbsl(name.shard))) continue;
    status.Update(IgnoreNotFound(file_system_.RemoveFile(Path(entry.name))));
  }
  if (options_.of_tasks != nullptr) return status;
  // Removes the shards durably before anything says that they are not the job's.
  status.Update(file_system_.SyncDirectory(directory_));
  SHARDKIT_RETURN_IF_ERROR(status);
  names_.clear();
  for (const ShardRecord& record : finished_) names_.push_back(ShardRecords::Name(NumberOf(record)));
  kept.insert(names_.begin(), names_.end());
  SHARDKIT_ASSIGN_OR_RETURN(entries, ListFolder(file_system_, directory_));
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == kLockName || entry.name == kJobName || kept.contains(entry.name)) continue;
    status.Update(IgnoreNotFound(file_system_.RemoveFile(FilePath(directory_, entry.name))));
  }
  return status;
}

absl::Status JobFolder::PublishJob() const {
  return io::PublishFile(file_system_, FilePath(directory_, kJobName), FormatJob(job_));
}

absl::Status JobFolder::Record(const ShardRecord& record) {
  const UnitShard number = NumberOf(record);
  names_.push_back(ShardRecords::Name(number));
  return records_.Publish(number, record);
}

absl::Status JobFolder::Describe(const Manifest& manifest, uint64_t listing) {
  job_.dataset_hash = manifest.dataset_hash();
  job_.listing = listing;
  return PublishJob();
}

absl::Status JobFolder::Finish() {
  ended_ = true;
  if (complete_ || job_.in_tasks) {
    // Of a run that was killed here, and of tasks that were run twice.
    SHARDKIT_ASSIGN_OR_RETURN(auto entries, file_system_.List(directory_));
    for (const DirectoryEntry& entry : entries) {
      if (!entry.name.ends_with(".tmp") || !options_.files.Recognize(entry.name).ours) continue;
      SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_.RemoveFile(Path(entry.name))));
    }
    SHARDKIT_ASSIGN_OR_RETURN(entries, ListFolder(file_system_, directory_));
    names_.clear();
    for (const DirectoryEntry& entry : entries) {
      const bool stays = entry.name == kLockName || entry.name == kChangeName || entry.name == kJobName;
      if (!stays) names_.push_back(entry.name);
    }
  }
  if (!job_.dataset_hash) names_.emplace_back(kJobName);
  for (const std::string& name : names_) {
    SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_.RemoveFile(FilePath(directory_, name))));
  }
  if (std::exchange(job_.in_tasks, false)) SHARDKIT_RETURN_IF_ERROR(PublishJob());
  return UnlockDirectory(file_system_, directory_, std::move(lock_));
}

absl::Status JobFolder::Abort() {
  if (lock_ && options_.of_tasks != nullptr) return UnlockDirectory(file_system_, directory_, std::move(lock_));
  if (std::exchange(ended_, true)) return absl::OkStatus();
  std::unique_ptr<FileLock> lock = std::move(lock_);
  finished_.clear();
  // A manifest that was published just before the failure lists shards that are about to be removed, so it is removed
  // first. If that fails, the dataset stays whole.
  const absl::Status unpublished = file_system_.RemoveFile(Path(options_.files.manifest_name()));
  if (!absl::IsNotFound(unpublished)) {
    SHARDKIT_RETURN_IF_ERROR(unpublished);
    SHARDKIT_RETURN_IF_ERROR(file_system_.SyncDirectory(directory_));
  }
  SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers());
  SHARDKIT_RETURN_IF_ERROR(IgnoreNotFound(file_system_.RemoveFile(FilePath(directory_, kJobName))));
  SHARDKIT_RETURN_IF_ERROR(UnlockDirectory(file_system_, directory_, std::move(lock)));
  return created_directory_ ? file_system_.RemoveDirectory(directory_) : absl::OkStatus();
}

}  // namespace shardkit::dataset
