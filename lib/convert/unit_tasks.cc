#include "convert/unit_tasks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/strings.h"
#include "convert/unit_records.h"
#include "dataset/dataset_job.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::convert {
namespace {

absl::StatusOr<bool> IsPacked(FileSystem& file_system, const std::string& directory, const UnitRecords& records,
                              uint64_t unit) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<UnitRecord> record, records.Read(unit));
  if (!record) return false;
  for (const dataset::JournalEntry& shard : record->shards) {
    dataset::JournalEntry entry = shard;
    SHARDKIT_ASSIGN_OR_RETURN(const bool whole,
                              dataset::NativeJobFiles().IsWhole(file_system, JoinPath(directory, shard.shard.name),
                                                                ToHex(shard.shard.content_hash), &entry));
    if (!whole) return false;
  }
  return true;
}

absl::Status PackUnit(FileSystem& file_system, const UnitJob& job, const PackOptions& options, uint64_t number,
                      const UnitRecords& records, PackTaskReport* report) {
  PackPart part{.unit = number};
  SHARDKIT_ASSIGN_OR_RETURN(Source* const source, job.open(number, &part));
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, dataset::CreateUnitJob(file_system, job.directory, job.schema,
                                                                      options.dataset, dataset::JobKind::kUnit));
  SHARDKIT_ASSIGN_OR_RETURN(const PartReport packed, PackUnits(*source, options, part, *writer));
  SHARDKIT_ASSIGN_OR_RETURN(DatasetSummary summary, writer->Finish());
  UnitRecord record{packed.listed,      packed.listing,    packed.samples,
                    packed.input_bytes, writer->entries(), std::move(summary.skipped)};
  SHARDKIT_RETURN_IF_ERROR(records.Publish(number, record));
  report->samples += record.samples;
  report->input_bytes += record.input_bytes;
  std::ranges::move(record.skipped, std::back_inserter(report->skipped));
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

// Removes the temporary files of tasks that were killed or are not needed, shards that are not among `shards`, and the
// tables of an interrupted run.
absl::Status RemoveLeftovers(FileSystem& file_system, const std::string& directory,
                             const absl::flat_hash_set<std::string>& shards, bool tables) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system.List(directory));
  for (const DirectoryEntry& entry : entries) {
    const dataset::JobFiles::Name name = dataset::NativeJobFiles().Recognize(entry.name);
    const bool temporary = entry.name.ends_with(".tmp");
    if (!name.ours || (!temporary && (name.shard.empty() ? !tables : shards.contains(entry.name)))) continue;
    const absl::Status removed = file_system.RemoveFile(JoinPath(directory, entry.name));
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return absl::OkStatus();
}

// Of a dataset that is published. The end of the lock makes it durable.
absl::Status CleanUp(FileSystem& file_system, const std::string& directory, const Manifest& manifest) {
  absl::flat_hash_set<std::string> shards;
  for (const ManifestShard& shard : manifest.shards) shards.insert(shard.name);
  SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers(file_system, directory, shards, /*tables=*/false));
  return RemoveTree(file_system, PlanFolder(directory));
}

}  // namespace

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

absl::Status CheckTask(const PackTaskOptions& options) {
  if (options.task < options.tasks) return absl::OkStatus();
  return InvalidArgument("task ", options.task, "/", options.tasks,
                         ": tasks count from 0 to one less than their number");
}

absl::StatusOr<PackTaskReport> RunTask(FileSystem& file_system, const UnitJob& job, const PackTaskOptions& options) {
  PackTaskReport report;
  PackOptions pack = job.pack;
  pack.dataset.threads = options.threads;
  pack.dataset.cancellation = options.cancellation;
  const UnitRecords records(file_system, job.directory, job.fingerprint);
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
  // Another run may have packed these units, too, and the dataset may be finished since. Then the folder of the records
  // is gone, or, in a store without folders, this run's record has brought it back.
  const absl::StatusOr<bool> finished = dataset::Exists(file_system, JoinPath(job.directory, kManifestName));
  if (!finished.ok() || !*finished) {
    status.Update(finished.status());
    SHARDKIT_RETURN_IF_ERROR(status);
    return report;
  }
  SHARDKIT_RETURN_IF_ERROR(RemoveTree(file_system, PlanFolder(job.directory)));
  return report;
}

absl::StatusOr<PackReport> JoinUnits(FileSystem& file_system, const UnitJob& job, int threads,
                                     const Cancellation* cancellation) {
  const std::string& directory = job.directory;
  const UnitRecords records(file_system, directory, job.fingerprint);
  const uint64_t unit_count = job.unit_bytes.size();
  PackReport report;
  std::vector<dataset::JournalEntry> entries;
  absl::flat_hash_set<std::string> shards;
  std::vector<uint64_t> missing;
  uint64_t position = 0, listing = 0;
  for (uint64_t unit = 0; unit < unit_count; ++unit) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("finishing a dataset"));
    SHARDKIT_ASSIGN_OR_RETURN(std::optional<UnitRecord> record, records.Read(unit));
    if (!record) {
      missing.push_back(unit);
      continue;
    }
    for (const dataset::JournalEntry& shard : record->shards) shards.insert(shard.shard.name);
    std::ranges::move(record->shards, std::back_inserter(entries));
    for (SkippedSample& skipped : record->skipped) {
      skipped.position += position;
      report.skipped.push_back(std::move(skipped));
    }
    position += record->listed;
    listing += record->listing;
    report.samples += record->samples;
    report.input_bytes += record->input_bytes;
  }
  if (!missing.empty()) {
    return FailedPrecondition(directory, ": ", missing.size(), " of ", unit_count, " units are missing (",
                              Ranges(missing), "): run the tasks again, which pack those alone");
  }
  SHARDKIT_RETURN_IF_ERROR(RemoveLeftovers(file_system, directory, shards, /*tables=*/true));
  DatasetWriterOptions options = job.pack.dataset;
  options.threads = threads;
  options.cancellation = cancellation;
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, dataset::CreateUnitJob(file_system, directory, job.schema, options,
                                                                      dataset::JobKind::kJoin, std::move(entries)));
  writer->SetListing(listing);
  SHARDKIT_RETURN_IF_ERROR(CheckColumnsOf(options, writer->schema().columns()));
  for (const auto& [name, type] : job.types) {
    SHARDKIT_RETURN_IF_ERROR(CheckIsColumn("--type", name, writer->schema().columns()));
  }
  absl::Status repeated;
  SHARDKIT_ASSIGN_OR_RETURN(Source* const source, job.whole());
  if (source->keys_are_unique()) {
    writer->OnRepeatedKey({.take = [&](const dataset::RepeatedKey& found) {
      return repeated = OnRepeatedKeys(*source, job.pack, found, &report.warnings);
    }});
  }
  absl::StatusOr<DatasetSummary> summary = writer->Finish();
  if (!repeated.ok()) return repeated;
  SHARDKIT_RETURN_IF_ERROR(summary.status());
  report.manifest = std::move(summary->manifest);
  SHARDKIT_RETURN_IF_ERROR(CleanUp(file_system, directory, report.manifest));
  return report;
}

absl::StatusOr<PackReport> ReportJoined(FileSystem& file_system, const std::string& directory) {
  PackReport report;
  SHARDKIT_ASSIGN_OR_RETURN(report.manifest, ReadManifest(file_system, directory));
  report.samples = report.manifest.sample_count;
  SHARDKIT_RETURN_IF_ERROR(CleanUp(file_system, directory, report.manifest));
  return report;
}

}  // namespace shardkit::convert
