// Packing in tasks.
#include <filesystem>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/pack_plan.h"
#include "convert/packer.h"
#include "convert/sources/dataset_source.h"
#include "convert/unit_list.h"
#include "convert/unit_tasks.h"
#include "dataset/dataset_job.h"
#include "dataset/job_directory.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {
namespace {

// Tasks may run in another working directory.
std::string AbsolutePath(const std::string& path) {
  if (IsUrl(path)) return path;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

absl::Status CheckDirectory(FileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool planned, convert::HasPlan(file_system, directory));
  if (planned) {
    return absl::AlreadyExistsError(StrCat(directory, ": already has a plan: run its tasks, or remove it first"));
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == dataset::kLockName || JoinPath(directory, entry.name) == convert::PlanFolder(directory)) continue;
    return absl::AlreadyExistsError(
        StrCat(directory, ": is not empty (there is \"", entry.name, "\"); give a new or an empty directory"));
  }
  return absl::OkStatus();
}

// Empty for other sources.
absl::StatusOr<std::string> IdentityHash(const Source& source) {
  const auto* const datasets = dynamic_cast<const convert::DatasetSource*>(&source);
  if (datasets == nullptr) return std::string();
  SHARDKIT_ASSIGN_OR_RETURN(const std::string identity, datasets->Identity());
  return StrCat(absl::Hex(Hash64(identity), absl::kZeroPad16));
}

// With the lock.
absl::StatusOr<PackPlan> Plan(FileSystem& file_system, std::string_view kind, const std::vector<std::string>& inputs,
                              const SourceOptions& source_options, const std::string& directory,
                              const PackOptions& options) {
  convert::PlanHead head;
  head.source = source_options;
  for (const std::string& input : inputs) head.inputs.push_back(AbsolutePath(input));
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, OpenSource(kind, head.inputs, source_options));
  head.kind = std::string(source->name());
  if (const auto* const files = dynamic_cast<const convert::FileSource*>(source.get())) head.classes = files->classes();
  SHARDKIT_ASSIGN_OR_RETURN(head.datasets, IdentityHash(*source));
  SHARDKIT_ASSIGN_OR_RETURN(head.columns, convert::FirstColumns(*source, options));
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, Schema::Create(head.columns));
  head.pack.skip_errors = options.skip_errors;
  SHARDKIT_ASSIGN_OR_RETURN(head.pack.dataset, convert::WriterOptionsOf(*source, options));
  head.pack.dataset.resume = false;
  // Refuses what every task would refuse.
  SHARDKIT_RETURN_IF_ERROR(
      dataset::CreateUnitJob(file_system, directory, schema, head.pack.dataset, dataset::JobKind::kUnit).status());
  SHARDKIT_RETURN_IF_ERROR(RemoveTree(file_system, convert::PlanFolder(directory)));  // of an interrupted run
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, convert::PlanWriter::Create(file_system, directory));
  const auto add = [&](const convert::PlannedUnit& unit) { return writer->Add(unit); };
  SHARDKIT_RETURN_IF_ERROR(Guarded("listing", [&] { return convert::ListUnits(*source, options, add, &head.totals); }));
  SHARDKIT_RETURN_IF_ERROR(writer->Finish(head));
  head.totals.warnings = convert::WarningsOf(*source, options);
  return head.totals;
}

// A plan and the sources of its units. One thread at a time.
class PlannedJob {
 public:
  static absl::StatusOr<std::unique_ptr<PlannedJob>> Open(FileSystem& file_system, const std::string& directory) {
    std::unique_ptr<PlannedJob> planned(new PlannedJob());
    SHARDKIT_ASSIGN_OR_RETURN(planned->plan_, convert::PlanReader::Open(file_system, directory));
    const convert::PlanHead& head = planned->plan_->head();
    convert::UnitJob& job = planned->job_;
    job.directory = directory;
    job.fingerprint = planned->plan_->fingerprint();
    job.pack = head.pack;
    SHARDKIT_ASSIGN_OR_RETURN(job.schema, Schema::Create(head.columns));
    job.types = head.source.types;
    job.unit_bytes = planned->plan_->unit_bytes();
    job.open = [raw = planned.get()](uint64_t unit, convert::PackPart* part) { return raw->OpenUnit(unit, part); };
    job.whole = [raw = planned.get()] { return raw->OpenWhole(); };
    return planned;
  }

  const convert::UnitJob& job() const { return job_; }

 private:
  PlannedJob() = default;

  absl::StatusOr<Source*> OpenUnit(uint64_t number, convert::PackPart* part) {
    const convert::PlanHead& head = plan_->head();
    SHARDKIT_ASSIGN_OR_RETURN(convert::PlannedUnit unit, plan_->Unit(number));
    part->count = unit.samples;
    if (!unit.inputs.empty()) {
      SHARDKIT_ASSIGN_OR_RETURN(source_,
                                convert::OpenFileSource(head.kind, std::move(unit.inputs), head.source, head.classes));
      return source_.get();
    }
    // Opening a dataset may take long, so it is opened once for all its units.
    if (!source_) {
      SHARDKIT_RETURN_IF_ERROR(OpenWhole().status());
      SHARDKIT_RETURN_IF_ERROR(source_->InitialColumns().status());
    }
    part->skip = unit.skip - position_;
    position_ = unit.skip + unit.samples;
    return source_.get();
  }

  absl::StatusOr<Source*> OpenWhole() {
    const convert::PlanHead& head = plan_->head();
    SHARDKIT_ASSIGN_OR_RETURN(source_, OpenSource(head.kind, head.inputs, head.source));
    SHARDKIT_ASSIGN_OR_RETURN(const std::string datasets, IdentityHash(*source_));
    if (datasets == head.datasets) return source_.get();
    return FailedPrecondition(head.inputs[0], head.inputs.size() > 1 ? ", or another input," : "",
                              ": has changed since it was planned: give it back as it was, or remove ", job_.directory,
                              " and plan anew");
  }

  std::unique_ptr<convert::PlanReader> plan_;
  convert::UnitJob job_;
  std::unique_ptr<Source> source_;
  uint64_t position_ = 0;  // of a dataset's source
};

}  // namespace

absl::StatusOr<PackPlan> PlanPack(FileSystem& file_system, std::string_view kind,
                                  const std::vector<std::string>& inputs, const SourceOptions& source_options,
                                  const std::string& directory, const PackOptions& options) {
  if (options.dataset.append) return InvalidArgument(directory, ": tasks make new datasets: pack appends in one run");
  bool created = false;
  SHARDKIT_RETURN_IF_ERROR(dataset::CreateDurableDirectory(file_system, directory, &created));
  absl::StatusOr<PackPlan> plan = [&]() -> absl::StatusOr<PackPlan> {
    SHARDKIT_RETURN_IF_ERROR(CheckDirectory(file_system, directory));
    return convert::WithLock<absl::StatusOr<PackPlan>>(file_system, directory, [&]() -> absl::StatusOr<PackPlan> {
      SHARDKIT_RETURN_IF_ERROR(CheckDirectory(file_system, directory));
      absl::StatusOr<PackPlan> made = Plan(file_system, kind, inputs, source_options, directory, options);
      if (!made.ok()) (void)RemoveTree(file_system, convert::PlanFolder(directory));
      return made;
    });
  }();
  if (!plan.ok() && created) (void)file_system.RemoveDirectory(directory);
  return plan;
}

absl::StatusOr<PackPlan> ReadPackPlan(FileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto plan, convert::PlanReader::Open(file_system, directory));
  return plan->head().totals;
}

absl::StatusOr<PackTaskReport> PackTask(FileSystem& file_system, const std::string& directory,
                                        const PackTaskOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(convert::CheckTask(options));
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, dataset::Exists(file_system, JoinPath(directory, kManifestName)));
  if (complete) return PackTaskReport();
  SHARDKIT_ASSIGN_OR_RETURN(const auto planned, PlannedJob::Open(file_system, directory));
  return convert::RunTask(file_system, planned->job(), options);
}

absl::StatusOr<PackReport> FinishPack(FileSystem& file_system, const std::string& directory, int threads,
                                      const Cancellation* cancellation) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, dataset::Exists(file_system, JoinPath(directory, kManifestName)));
  SHARDKIT_ASSIGN_OR_RETURN(const bool there, convert::HasPlan(file_system, directory));
  if (!complete && !there) return convert::PlanReader::Open(file_system, directory).status();
  return convert::WithLock<absl::StatusOr<PackReport>>(file_system, directory, [&]() -> absl::StatusOr<PackReport> {
    if (complete) return convert::ReportJoined(file_system, directory);
    SHARDKIT_ASSIGN_OR_RETURN(const auto planned, PlannedJob::Open(file_system, directory));
    return convert::JoinUnits(file_system, planned->job(), threads, cancellation);
  });
}

}  // namespace shardkit
