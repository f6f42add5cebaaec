// Converting in tasks.
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/conversion.h"
#include "convert/unit_list.h"
#include "convert/unit_tasks.h"
#include "dataset/dataset_job.h"
#include "io/publish_file.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {
namespace {

constexpr uint64_t kMaxMarkBytes = 4096;

// A conversion and the source of its units. One thread at a time.
class ConversionJob {
 public:
  static absl::StatusOr<std::unique_ptr<ConversionJob>> Open(FileSystem& file_system, const std::string& input,
                                                             const std::string& output, const ConvertOptions& options) {
    if (options.to != Container::kShard) {
      return InvalidArgument("--to ", ContainerName(options.to),
                             ": cannot be converted in tasks, because where its shards end depends on all samples "
                             "before; convert in tasks to shard, then that at once");
    }
    std::unique_ptr<ConversionJob> conversion(new ConversionJob());
    SHARDKIT_RETURN_IF_ERROR(conversion->Start(file_system, input, output, options));
    return conversion;
  }

  const convert::UnitJob& job() const { return job_; }

 private:
  struct Unit {
    uint64_t skip = 0;
    uint64_t samples = 0;
  };

  ConversionJob() = default;

  absl::Status Start(FileSystem& file_system, const std::string& input, const std::string& output,
                     const ConvertOptions& options) {
    job_.directory = output;
    job_.pack = options.pack;
    SHARDKIT_ASSIGN_OR_RETURN(source_, convert::OpenConversion(file_system, {input}, options));
    SHARDKIT_ASSIGN_OR_RETURN(job_.schema, convert::SchemaOf(*source_, options.pack));
    SHARDKIT_ASSIGN_OR_RETURN(job_.pack.dataset, convert::NativeOptionsOf(*source_, options));
    job_.pack.dataset.resume = false;
    job_.fingerprint = dataset::FingerprintOfJob(job_.schema, job_.pack.dataset);
    PackOptions listing = job_.pack;
    listing.progress = nullptr;
    PackPlan totals;
    const auto take = [&](const convert::PlannedUnit& unit) {
      units_.push_back({unit.skip, unit.samples});
      job_.unit_bytes.push_back(unit.bytes);
      return absl::OkStatus();
    };
    SHARDKIT_RETURN_IF_ERROR(convert::ListUnits(*source_, listing, take, &totals));
    source_->Rewind();
    job_.open = [this](uint64_t unit, convert::PackPart* part) {
      part->skip = units_[unit].skip - position_;
      part->count = units_[unit].samples;
      position_ = units_[unit].skip + units_[unit].samples;
      return absl::StatusOr<Source*>(source_.get());
    };
    job_.whole = [this] { return absl::StatusOr<Source*>(source_.get()); };
    return absl::OkStatus();
  }

  std::unique_ptr<convert::DatasetSource> source_;
  std::vector<Unit> units_;
  convert::UnitJob job_;
  uint64_t position_ = 0;  // of the source
};

std::string MarkPath(const std::string& directory) { return JoinPath(convert::PlanFolder(directory), "convert"); }

// Whether tasks of this conversion have begun. FailedPrecondition for tasks of another job.
absl::StatusOr<bool> HasBegun(FileSystem& file_system, const convert::UnitJob& job) {
  const auto mark = file_system.ReadFile(MarkPath(job.directory), kMaxMarkBytes);
  if (absl::IsNotFound(mark.status())) return false;
  SHARDKIT_RETURN_IF_ERROR(mark.status());
  if (*mark == job.fingerprint) return true;
  return FailedPrecondition(job.directory,
                            ": holds tasks of a conversion of another input or with other options; give "
                            "the same ones to all tasks, or choose another directory");
}

// Whether the dataset is finished. AlreadyExists when it is another one.
absl::StatusOr<bool> IsFinished(FileSystem& file_system, const convert::UnitJob& job) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, dataset::Exists(file_system, JoinPath(job.directory, kManifestName)));
  if (!complete) return false;
  SHARDKIT_ASSIGN_OR_RETURN(const auto record, dataset::ReadJobRecord(file_system, job.directory));
  if (record && record->fingerprint == job.fingerprint) return true;
  return absl::AlreadyExistsError(
      StrCat(job.directory, ": holds a dataset that another job made; choose another directory"));
}

// Marks the directory as this conversion's, unless it is so already.
absl::Status Begin(FileSystem& file_system, const convert::UnitJob& job) {
  bool created = false;
  SHARDKIT_RETURN_IF_ERROR(dataset::CreateDurableDirectory(file_system, job.directory, &created));
  // Listed before the mark is read: a task marks the directory before it writes anything else.
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(job.directory));
  SHARDKIT_ASSIGN_OR_RETURN(const bool begun, HasBegun(file_system, job));
  if (begun) return absl::OkStatus();
  for (const DirectoryEntry& entry : entries) {
    if (JoinPath(job.directory, entry.name) == convert::PlanFolder(job.directory)) continue;
    return absl::AlreadyExistsError(
        StrCat(job.directory, ": is not empty (there is \"", entry.name, "\"); give a new or an empty directory"));
  }
  SHARDKIT_RETURN_IF_ERROR(dataset::CreateDurableDirectory(file_system, convert::PlanFolder(job.directory), &created));
  return io::PublishShared(file_system, MarkPath(job.directory), job.fingerprint);
}

}  // namespace

absl::StatusOr<PackTaskReport> ConvertTask(FileSystem& file_system, const std::string& input, const std::string& output,
                                           const ConvertOptions& options, uint64_t task, uint64_t tasks) {
  PackTaskOptions run;
  run.task = task;
  run.tasks = tasks;
  run.threads = options.pack.dataset.threads;
  run.cancellation = options.pack.dataset.cancellation;
  run.progress = options.pack.progress;
  SHARDKIT_RETURN_IF_ERROR(convert::CheckTask(run));
  SHARDKIT_ASSIGN_OR_RETURN(const auto conversion, ConversionJob::Open(file_system, input, output, options));
  const convert::UnitJob& job = conversion->job();
  SHARDKIT_ASSIGN_OR_RETURN(const bool finished, IsFinished(file_system, job));
  if (finished) return PackTaskReport();
  SHARDKIT_RETURN_IF_ERROR(Begin(file_system, job));
  // The dataset may have been finished before the folder was made.
  SHARDKIT_ASSIGN_OR_RETURN(const bool late, IsFinished(file_system, job));
  if (!late) return convert::RunTask(file_system, job, run);
  SHARDKIT_RETURN_IF_ERROR(RemoveTree(file_system, convert::PlanFolder(output)));
  return PackTaskReport();
}

absl::StatusOr<PackReport> FinishConvert(FileSystem& file_system, const std::string& input, const std::string& output,
                                         const ConvertOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto conversion, ConversionJob::Open(file_system, input, output, options));
  const convert::UnitJob& job = conversion->job();
  SHARDKIT_ASSIGN_OR_RETURN(bool ours, IsFinished(file_system, job));
  if (!ours) {
    SHARDKIT_ASSIGN_OR_RETURN(ours, HasBegun(file_system, job));
  }
  if (!ours) return NotFound(output, ": no task of this conversion has begun; run --task 0/N, 1/N, … first");
  return convert::WithLock<absl::StatusOr<PackReport>>(file_system, output, [&]() -> absl::StatusOr<PackReport> {
    SHARDKIT_ASSIGN_OR_RETURN(const bool finished, IsFinished(file_system, job));
    if (finished) return convert::ReportJoined(file_system, output);
    return convert::JoinUnits(file_system, job, options.pack.dataset.threads, options.pack.dataset.cancellation);
  });
}

}  // namespace shardkit
