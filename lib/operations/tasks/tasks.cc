// Packing and converting in tasks: each writes the shards of some units, with a record for each (see JobFolder), and in
// the end a dataset is made of all of them.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "dataset/write/dataset_job.h"
#include "dataset/write/job_folder.h"
#include "operations/archives/input_file_system.h"
#include "operations/copy/conversion.h"
#include "operations/pack/packer.h"
#include "operations/sources/dataset_source.h"
#include "operations/tasks/pack_plan.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::operations {
namespace {

// A job whose input is divided into units.
struct TaskSet {
  std::string directory;              // of the dataset
  std::string records;                // whose the records are: 16 hexadecimal digits, of the input and the options
  PackOptions pack;                   // with the job and the metadata that the dataset gets
  Schema schema;                      // before any sample is looked at
  std::map<std::string, Type> types;  // that were asked for
  std::vector<uint64_t> unit_bytes;   // of each unit, in the input

  // The source of a unit, and its place there. Units are opened in ascending order; the source is valid until the next
  // call.
  std::function<absl::StatusOr<Source*>(uint64_t unit, PackPart* part)> open;
  // The source of all units, for CheckTypes and FindKey; valid as long as the job.
  std::function<absl::StatusOr<Source*>()> whole;
};

// The first unit of task `task` of `tasks`: runs of units, of about the same bytes. Their number for task == tasks.
uint64_t FirstUnit(const std::vector<uint64_t>& unit_bytes, uint64_t task, uint64_t tasks) {
  // A unit belongs to the task in whose share of all bytes its middle lies. Each counts one byte more, so that empty
  // ones are divided, too.
  long double total = 0;
  for (const uint64_t bytes : unit_bytes) total += static_cast<long double>(bytes) + 1;
  const long double begin = total / static_cast<long double>(tasks) * static_cast<long double>(task);
  long double before = 0;
  uint64_t unit = 0;
  for (; unit < unit_bytes.size() && task > 0; ++unit) {
    const long double size = static_cast<long double>(unit_bytes[unit]) + 1;
    if (task < tasks && before + size / 2 >= begin) break;
    before += size;
  }
  return unit;
}

// InvalidArgument unless the task is one of them.
absl::Status CheckTask(const PackTaskOptions& options) {
  if (options.task < options.tasks) return absl::OkStatus();
  return InvalidArgument("task ", options.task, "/", options.tasks,
                         ": tasks count from 0 to one less than their number");
}

// A task takes what others have finished for durable.
absl::Status CheckSyncs(const WriterOptions& options) {
  if (options.sync) return absl::OkStatus();
  return InvalidArgument("work in tasks waits for the device: not without sync");
}

absl::StatusOr<bool> IsPacked(FileSystem& file_system, const std::string& directory,
                              const dataset::ShardRecords& records, uint64_t unit) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto found, records.ReadUnit(unit));
  if (!found) return false;
  for (const dataset::ShardRecord& record : *found) {
    if (record.shard.name.empty()) continue;
    const std::string path = JoinPath(directory, record.shard.name);
    SHARDKIT_ASSIGN_OR_RETURN(const bool whole, dataset::NativeJobFiles().IsWhole(file_system, path, record.shard));
    if (!whole) return false;
  }
  return true;
}

absl::Status PackUnit(FileSystem& file_system, const TaskSet& job, const PackOptions& options, uint64_t number,
                      const dataset::ShardRecords& records, PackTaskReport* report) {
  PackPart part{.unit = number};
  SHARDKIT_ASSIGN_OR_RETURN(Source* const source, job.open(number, &part));
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, dataset::CreateUnitWriter(file_system, job.directory, job.schema,
                                                                         options.dataset, dataset::JobKind::kTask));
  SHARDKIT_ASSIGN_OR_RETURN(const PartReport packed, RunUnits(*source, options, part, *writer));
  SHARDKIT_ASSIGN_OR_RETURN(DatasetSummary summary, writer->Finish());
  std::vector<dataset::ShardRecord> shards = writer->records();
  if (shards.empty()) shards.emplace_back().skipped = summary.skipped;
  shards.back().unit_end = {packed.listed, packed.listing, packed.input_bytes};
  for (size_t i = 0; i < shards.size(); ++i) {
    SHARDKIT_RETURN_IF_ERROR(records.Publish({.unit = number, .shard = i}, shards[i]));
  }
  report->samples += packed.samples;
  report->input_bytes += packed.input_bytes;
  std::ranges::move(summary.skipped, std::back_inserter(report->skipped));
  std::ranges::move(source->warnings(), std::back_inserter(report->warnings));
  return absl::OkStatus();
}

// "3, 7-9", at most ten runs.
std::string Ranges(const std::vector<uint64_t>& numbers) {
  std::string text;
  size_t runs = 0;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (++runs > 10) return text + ", …";
    text += StrCat(i == 0 ? "" : ", ", numbers[i]);
    if (end - i > 1) text += StrCat("-", numbers[end - 1]);
    i = end;
  }
  return text;
}

absl::StatusOr<bool> IsComplete(FileSystem& file_system, const std::string& directory) {
  return dataset::Exists(file_system, JoinPath(directory, kManifestName));
}

// Packs the units of a task. The directory's job must have begun.
absl::StatusOr<PackTaskReport> RunTask(FileSystem& file_system, const TaskSet& job, const PackTaskOptions& options) {
  PackTaskReport report;
  PackOptions pack = job.pack;
  pack.dataset.threads = options.threads;
  pack.dataset.cancellation = options.cancellation;
  const dataset::ShardRecords records(file_system, job.directory, job.records);
  const uint64_t begin = FirstUnit(job.unit_bytes, options.task, options.tasks);
  const uint64_t end = FirstUnit(job.unit_bytes, options.task + 1, options.tasks);
  report.units = end - begin;
  absl::Status status;
  for (uint64_t unit = begin; unit < end; ++unit) {
    if (options.cancellation) SHARDKIT_RETURN_IF_ERROR(options.cancellation->Check("packing units"));
    SHARDKIT_ASSIGN_OR_RETURN(const bool whole, IsPacked(file_system, job.directory, records, unit));
    if (whole) {
      ++report.units_before;
      continue;
    }
    if (options.progress) {
      pack.progress = [&](const PackProgress& now) {
        options.progress({report.samples + now.samples, report.input_bytes + now.input_bytes, 0});
      };
    }
    if (const absl::Status packed = PackUnit(file_system, job, pack, unit, records, &report); !packed.ok()) {
      status = Annotate(packed, StrCat("unit ", unit));
      break;
    }
  }
  if (status.ok() && report.units_before == report.units) return report;
  // Another run may have packed these units, too, and the dataset may be finished since. Then this run's records are
  // left over, or could not be written.
  const absl::StatusOr<bool> finished = IsComplete(file_system, job.directory);
  if (finished.ok() && *finished) {
    SHARDKIT_RETURN_IF_ERROR(records.RemoveAll());
    return report;
  }
  status.Update(finished.status());
  SHARDKIT_RETURN_IF_ERROR(status);
  return report;
}

// Makes the dataset of all units, or reports the one that has been made of them.
absl::StatusOr<PackReport> JoinUnits(FileSystem& file_system, const TaskSet& job, int threads,
                                     const Cancellation* cancellation) {
  const std::string& directory = job.directory;
  const dataset::ShardRecords records(file_system, directory, job.records);
  const uint64_t unit_count = job.unit_bytes.size();
  PackReport report;
  std::vector<dataset::ShardRecord> shards;
  std::vector<uint64_t> missing;
  uint64_t position = 0, listing = 0;
  const auto take = [&](std::vector<dataset::ShardRecord> unit) {
    for (dataset::ShardRecord& record : unit) {
      record.next_position += position;
      for (SkippedSample& skipped : record.skipped) {
        skipped.position += position;
        report.skipped.push_back(skipped);
      }
      report.samples += record.shard.samples;
      if (!record.shard.name.empty()) shards.push_back(record);
    }
    const dataset::UnitEnd& end = *unit.back().unit_end;
    position += end.listed;
    listing += end.listing;
    report.input_bytes += end.input_bytes;
  };
  ThreadPool pool(std::max(threads, 1));
  OrderedTasks<absl::StatusOr<std::optional<std::vector<dataset::ShardRecord>>>> reading(
      pool, "finishing a dataset", cancellation, 2 * static_cast<size_t>(pool.thread_count()));
  SHARDKIT_ASSIGN_OR_RETURN(bool complete, IsComplete(file_system, directory));
  uint64_t begun = 0;
  for (uint64_t unit = 0; unit < unit_count && !complete; ++unit) {
    for (; begun < unit_count && !reading.full(); ++begun) {
      reading.Add([&records, begun] { return records.ReadUnit(begun); });
    }
    SHARDKIT_ASSIGN_OR_RETURN(auto found, reading.Take().result);
    if (found) {
      take(*std::move(found));
    } else {
      missing.push_back(unit);
    }
  }
  // Another run may have finished the dataset since, and its records go then.
  if (!missing.empty()) {
    SHARDKIT_ASSIGN_OR_RETURN(complete, IsComplete(file_system, directory));
  }
  if (!missing.empty() && !complete) {
    return FailedPrecondition(directory, ": ", missing.size(), " of ", unit_count, " units are missing (",
                              Ranges(missing), "): run the tasks again, which pack those alone");
  }
  DatasetWriterOptions options = job.pack.dataset;
  options.threads = threads;
  options.cancellation = cancellation;
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, dataset::CreateUnitWriter(file_system, directory, job.schema, options,
                                                                         dataset::JobKind::kUnits, &shards));
  absl::Status repeated;
  if (!complete) {
    writer->SetListing(listing);
    SHARDKIT_RETURN_IF_ERROR(CheckColumnsOf(options, writer->schema().columns()));
    for (const auto& [name, type] : job.types) {
      SHARDKIT_RETURN_IF_ERROR(CheckIsColumn("--type", name, writer->schema().columns()));
    }
    SHARDKIT_ASSIGN_OR_RETURN(Source* const source, job.whole());
    if (source->keys_are_unique()) {
      writer->OnDuplicateKey({.take = [&, source](const dataset::DuplicateKey& found) {
        return repeated = ReportDuplicateKeys(*source, job.pack, found, &report.warnings);
      }});
    }
  }
  absl::StatusOr<DatasetSummary> summary = writer->Finish();
  if (!repeated.ok()) return repeated;
  SHARDKIT_RETURN_IF_ERROR(summary.status());
  report.manifest = std::move(summary->manifest);
  if (complete) report.samples = report.manifest.sample_count;
  return report;
}

// Tasks may run in another working directory.
std::string AbsolutePath(const std::string& path) {
  if (IsUrl(path)) return path;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

// Empty without an identity.
absl::StatusOr<std::string> IdentityHash(const Source& source) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string identity, source.Identity());
  if (identity.empty()) return identity;
  return StrCat(absl::Hex(Hash64(identity), absl::kZeroPad16));
}

// With the lock.
absl::StatusOr<PackPlan> Plan(FileSystem& file_system, std::string_view kind, const std::vector<std::string>& inputs,
                              const SourceOptions& source_options, const std::string& directory,
                              const PackOptions& options) {
  PlanHead head;
  head.source = source_options;
  for (const std::string& input : inputs) head.inputs.push_back(AbsolutePath(input));
  if (!source_options.root.empty()) head.source.root = AbsolutePath(source_options.root);
  SHARDKIT_ASSIGN_OR_RETURN(const auto source, OpenSource(kind, head.inputs, head.source));
  head.kind = std::string(source->name());
  if (const auto* const files = dynamic_cast<const FileSource*>(source.get())) {
    head.classes = files->classes();
    head.source.file = files->options().file;  // those that were found, too
  }
  SHARDKIT_ASSIGN_OR_RETURN(head.datasets, IdentityHash(*source));
  SHARDKIT_ASSIGN_OR_RETURN(head.columns, FirstColumns(*source, options));
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, Schema::Create(head.columns));
  head.pack.skip_errors = options.skip_errors;
  SHARDKIT_ASSIGN_OR_RETURN(head.pack.dataset, WriterOptionsOf(*source, options));
  head.pack.dataset.resume = false;
  // Refuses what every task would refuse.
  SHARDKIT_RETURN_IF_ERROR(
      dataset::CreateUnitWriter(file_system, directory, schema, head.pack.dataset, dataset::JobKind::kTask).status());
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, PlanWriter::Create(file_system, directory, head));
  const auto add = [&](const PlannedUnit& unit) { return writer->Add(unit); };
  SHARDKIT_ASSIGN_OR_RETURN(PackPlan made, Guarded("listing", [&] { return ListUnits(*source, options, add); }));
  SHARDKIT_RETURN_IF_ERROR(writer->Finish());
  // Last: without it the directory has no plan.
  SHARDKIT_RETURN_IF_ERROR(
      dataset::BeginTasks(file_system, directory, dataset::FingerprintOfJob(schema, head.pack.dataset)));
  made.warnings = WarningsOf(*source, options);
  return made;
}

// A plan and the sources of its units. One thread at a time.
class PlannedTasks {
 public:
  static absl::StatusOr<std::unique_ptr<PlannedTasks>> Open(FileSystem& file_system, const std::string& directory) {
    std::unique_ptr<PlannedTasks> planned(new PlannedTasks());
    SHARDKIT_ASSIGN_OR_RETURN(planned->plan_, PlanReader::Open(file_system, directory));
    const PlanHead& head = planned->plan_->head();
    TaskSet& job = planned->job_;
    job.directory = directory;
    job.records = planned->plan_->fingerprint();
    job.pack = head.pack;
    SHARDKIT_ASSIGN_OR_RETURN(job.schema, Schema::Create(head.columns));
    planned->source_options_ = head.source;
    SHARDKIT_ASSIGN_OR_RETURN(planned->opened_, OpenInputs(head.kind, head.inputs, &planned->source_options_));
    job.types = head.source.types;
    job.unit_bytes = planned->plan_->unit_bytes();
    job.open = [raw = planned.get()](uint64_t unit, PackPart* part) { return raw->OpenUnit(unit, part); };
    job.whole = [raw = planned.get()] { return raw->OpenWhole(); };
    return planned;
  }

  const TaskSet& job() const { return job_; }

 private:
  PlannedTasks() = default;

  absl::StatusOr<Source*> OpenUnit(uint64_t number, PackPart* part) {
    const PlanHead& head = plan_->head();
    SHARDKIT_ASSIGN_OR_RETURN(PlannedUnit unit, plan_->Unit(number));
    part->count = unit.samples;
    if (!unit.inputs.empty()) {
      SHARDKIT_ASSIGN_OR_RETURN(auto source,
                                OpenFileSource(head.kind, std::move(unit.inputs), source_options_, head.classes));
      source->UseColumns(head.columns);
      source_ = std::move(source);
      return source_.get();
    }
    // Opening a dataset or COCO's annotations may take long, so they are opened once for all units.
    if (!source_) {
      SHARDKIT_RETURN_IF_ERROR(OpenWhole().status());
      SHARDKIT_RETURN_IF_ERROR(source_->InitialColumns().status());
    }
    part->skip = unit.skip - position_;
    position_ = unit.skip + unit.samples;
    return source_.get();
  }

  absl::StatusOr<Source*> OpenWhole() {
    const PlanHead& head = plan_->head();
    SHARDKIT_ASSIGN_OR_RETURN(source_, OpenSource(head.kind, head.inputs, head.source));
    if (auto* const files = dynamic_cast<FileSource*>(source_.get())) files->UseColumns(head.columns);
    SHARDKIT_ASSIGN_OR_RETURN(const std::string datasets, IdentityHash(*source_));
    if (datasets == head.datasets) return source_.get();
    return FailedPrecondition(head.inputs[0], head.inputs.size() > 1 ? ", or another input," : "",
                              ": has changed since it was planned: give it back as it was, or remove ", job_.directory,
                              " and plan again");
  }

  std::unique_ptr<PlanReader> plan_;
  TaskSet job_;
  SourceOptions source_options_;
  std::shared_ptr<ReadableFileSystem> opened_;  // of source_options_
  std::unique_ptr<Source> source_;
  uint64_t position_ = 0;  // of a dataset's source
};

// A conversion and the source of its units. One thread at a time.
class ConversionTasks {
 public:
  static absl::StatusOr<std::unique_ptr<ConversionTasks>> Open(FileSystem& file_system, const std::string& input,
                                                               const std::string& output,
                                                               const ConvertOptions& options) {
    if (options.to != Container::kShard) {
      return InvalidArgument("--to ", ContainerName(options.to),
                             ": cannot be converted in tasks, because where its shards end depends on all samples "
                             "before; convert in tasks to shard, then that at once");
    }
    std::unique_ptr<ConversionTasks> conversion(new ConversionTasks());
    SHARDKIT_RETURN_IF_ERROR(conversion->Start(file_system, input, output, options));
    return conversion;
  }

  const TaskSet& job() const { return job_; }

 private:
  struct Unit {
    uint64_t skip = 0;
    uint64_t samples = 0;
  };

  ConversionTasks() = default;

  absl::Status Start(FileSystem& file_system, const std::string& input, const std::string& output,
                     const ConvertOptions& options) {
    SHARDKIT_RETURN_IF_ERROR(CheckSyncs(options.pack.dataset));
    job_.directory = output;
    job_.pack = options.pack;
    SHARDKIT_ASSIGN_OR_RETURN(source_, OpenConversion(file_system, {input}, options));
    SHARDKIT_ASSIGN_OR_RETURN(job_.schema, SchemaOf(*source_, options.pack));
    SHARDKIT_ASSIGN_OR_RETURN(job_.pack.dataset, NativeOptionsOf(*source_, options));
    job_.pack.dataset.resume = false;
    job_.records = dataset::FingerprintOfJob(job_.schema, job_.pack.dataset);
    PackOptions listing = job_.pack;
    listing.progress = nullptr;
    const auto take = [&](const PlannedUnit& unit) {
      units_.push_back({unit.skip, unit.samples});
      job_.unit_bytes.push_back(unit.bytes);
      return absl::OkStatus();
    };
    SHARDKIT_RETURN_IF_ERROR(ListUnits(*source_, listing, take).status());
    source_->Rewind();
    job_.open = [this](uint64_t unit, PackPart* part) {
      part->skip = units_[unit].skip - position_;
      part->count = units_[unit].samples;
      position_ = units_[unit].skip + units_[unit].samples;
      return absl::StatusOr<Source*>(source_.get());
    };
    job_.whole = [this] { return absl::StatusOr<Source*>(source_.get()); };
    return absl::OkStatus();
  }

  std::unique_ptr<DatasetSource> source_;
  std::vector<Unit> units_;
  TaskSet job_;
  uint64_t position_ = 0;  // of the source
};

// Whether the dataset is finished. AlreadyExists when it is another one.
absl::StatusOr<bool> IsFinished(FileSystem& file_system, const TaskSet& job) {
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, IsComplete(file_system, job.directory));
  if (!complete) return false;
  SHARDKIT_ASSIGN_OR_RETURN(const auto made, dataset::ReadJob(file_system, job.directory));
  if (made && made->fingerprint == job.records) return true;
  return absl::AlreadyExistsError(
      StrCat(job.directory, ": holds a dataset that another job made; choose another directory"));
}

}  // namespace
}  // namespace shardkit::operations

namespace shardkit {

absl::StatusOr<PackPlan> PlanPack(FileSystem& file_system, std::string_view kind,
                                  const std::vector<std::string>& inputs, const SourceOptions& source_options,
                                  const std::string& directory, const PackOptions& options) {
  if (options.dataset.append) return InvalidArgument(directory, ": tasks make new datasets: pack appends in one run");
  if (options.limit != UINT64_MAX) return InvalidArgument("limit is for trying a source: not with tasks");
  SHARDKIT_RETURN_IF_ERROR(operations::CheckSyncs(options.dataset));
  bool created = false;
  SHARDKIT_RETURN_IF_ERROR(dataset::CreateDurableDirectory(file_system, directory, &created));
  const auto with_lock = [&]() -> absl::StatusOr<PackPlan> {
    // Looks first without the lock, so that a refused run leaves nothing.
    SHARDKIT_RETURN_IF_ERROR(dataset::CheckIsNew(file_system, directory));
    SHARDKIT_ASSIGN_OR_RETURN(auto lock, dataset::LockDirectory(file_system, directory));
    const auto make = [&]() -> absl::StatusOr<PackPlan> {
      SHARDKIT_RETURN_IF_ERROR(dataset::CheckIsNew(file_system, directory));
      // What an interrupted run has left.
      SHARDKIT_RETURN_IF_ERROR(dataset::ClearJobFolder(file_system, directory));
      auto plan = operations::Plan(file_system, kind, inputs, source_options, directory, options);
      if (!plan.ok()) (void)dataset::ClearJobFolder(file_system, directory);
      return plan;
    };
    absl::StatusOr<PackPlan> plan = make();
    const absl::Status unlocked = dataset::UnlockDirectory(file_system, directory, std::move(lock));
    if (plan.ok()) SHARDKIT_RETURN_IF_ERROR(unlocked);
    return plan;
  };
  absl::StatusOr<PackPlan> plan = with_lock();
  if (!plan.ok() && created) (void)file_system.RemoveDirectory(directory);
  return plan;
}

absl::StatusOr<PackPlan> ReadPackPlan(FileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto plan, operations::PlanReader::Open(file_system, directory));
  return plan->totals();
}

absl::StatusOr<PackTaskReport> PackTask(FileSystem& file_system, const std::string& directory,
                                        const PackTaskOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(operations::CheckTask(options));
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, operations::IsComplete(file_system, directory));
  if (complete) return PackTaskReport();
  SHARDKIT_ASSIGN_OR_RETURN(const auto planned, operations::PlannedTasks::Open(file_system, directory));
  return operations::RunTask(file_system, planned->job(), options);
}

absl::StatusOr<PackReport> FinishPack(FileSystem& file_system, const std::string& directory, int threads,
                                      const Cancellation* cancellation) {
  const auto planned = operations::PlannedTasks::Open(file_system, directory);
  if (planned.ok()) return operations::JoinUnits(file_system, (*planned)->job(), threads, cancellation);
  if (!absl::IsNotFound(planned.status())) return planned.status();
  SHARDKIT_ASSIGN_OR_RETURN(const bool complete, operations::IsComplete(file_system, directory));
  if (!complete) return planned.status();
  SHARDKIT_RETURN_IF_ERROR(dataset::JobFolder::CleanUp(file_system, directory));
  PackReport report;
  SHARDKIT_ASSIGN_OR_RETURN(report.manifest, ReadManifest(file_system, directory));
  report.samples = report.manifest.sample_count;
  return report;
}

absl::StatusOr<PackTaskReport> ConvertTask(FileSystem& file_system, const std::string& input, const std::string& output,
                                           const ConvertOptions& options, uint64_t task, uint64_t tasks) {
  PackTaskOptions run;
  run.task = task;
  run.tasks = tasks;
  run.threads = options.pack.dataset.threads;
  run.cancellation = options.pack.dataset.cancellation;
  run.progress = options.pack.progress;
  SHARDKIT_RETURN_IF_ERROR(operations::CheckTask(run));
  SHARDKIT_ASSIGN_OR_RETURN(const auto conversion,
                            operations::ConversionTasks::Open(file_system, input, output, options));
  const operations::TaskSet& job = conversion->job();
  SHARDKIT_ASSIGN_OR_RETURN(const bool finished, operations::IsFinished(file_system, job));
  if (finished) return PackTaskReport();
  SHARDKIT_RETURN_IF_ERROR(dataset::BeginTasks(file_system, output, job.records));
  return operations::RunTask(file_system, job, run);
}

absl::StatusOr<PackReport> FinishConvert(FileSystem& file_system, const std::string& input, const std::string& output,
                                         const ConvertOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto conversion,
                            operations::ConversionTasks::Open(file_system, input, output, options));
  const operations::TaskSet& job = conversion->job();
  SHARDKIT_ASSIGN_OR_RETURN(const bool finished, operations::IsFinished(file_system, job));
  if (!finished) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto begun, dataset::ReadJob(file_system, output));
    if (!begun) return NotFound(output, ": no task of this conversion has begun; run --task 0/N, 1/N, … first");
    SHARDKIT_RETURN_IF_ERROR(dataset::BeginTasks(file_system, output, job.records));  // refuses another job
  }
  return operations::JoinUnits(file_system, job, options.pack.dataset.threads, options.pack.dataset.cancellation);
}

}  // namespace shardkit
