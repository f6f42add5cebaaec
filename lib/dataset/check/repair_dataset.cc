// Repairing a dataset: each of its shards, then manifest and index.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/bases.h"
#include "dataset/change/column_file_writer.h"
#include "dataset/check/repair_shard.h"
#include "dataset/dataset_files.h"
#include "dataset/manifest_text.h"
#include "dataset/read/column_files.h"
#include "dataset/read/removed_samples.h"
#include "dataset/write/job_folder.h"
#include "dataset/write/shard_collector.h"
#include "io/without_sync.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/repair.h"
#include "shardkit/validate.h"

namespace shardkit::dataset {
namespace {

// A shard of the repaired dataset.
struct KeptShard {
  std::string path;
  uint64_t first_sample = 0;      // in the repaired dataset
  bool whole = false;             // it has all blocks of a shard of the damaged dataset
  std::vector<SampleRange> from;  // the stored samples that its samples were, in their order; empty: not known
};

class ColumnRepair {
 public:
  ColumnRepair(FileSystem& file_system, const std::string& directory, const std::string& output, const Manifest& before,
               std::span<const KeptShard> shards, const RepairOptions& options, std::vector<std::string>* notes)
      : file_system_(file_system),
        directory_(directory),
        output_(output),
        before_(before),
        shards_(shards),
        options_(options),
        notes_(*notes),
        after_(before),
        files_(file_system, directory, before_, {}, Reading(options)) {}

  absl::StatusOr<ManifestSummary> Run() {
    SHARDKIT_RETURN_IF_ERROR(KeepRemoved());
    after_.column_files.clear();
    for (size_t i = 0; i < before_.column_files.size(); ++i) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool linked, LinkFile(i));
      if (linked) continue;
      changed_ = true;
      SHARDKIT_RETURN_IF_ERROR(RewriteFile(i));
    }
    if (changed_) SHARDKIT_RETURN_IF_ERROR(LetBeAbsent());
    return std::move(after_);
  }

 private:
  static ReadOptions Reading(const RepairOptions& options) {
    ReadOptions reading;
    reading.max_decompression = options.max_decompression;
    return reading;
  }

  absl::Status KeepRemoved() {
    after_.removed.reset();
    if (!before_.removed) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const RemovedList list,
                              RemovedList::Read(file_system_, directory_, *before_.removed, before_.sample_count));
    std::vector<uint64_t> removed;
    for (const KeptShard& shard : shards_) {
      uint64_t first = shard.first_sample;
      for (const SampleRange& range : shard.from) {
        for (const uint64_t sample : list.Within(range.first, range.first + range.count)) {
          removed.push_back(first + (sample - range.first));
        }
        first += range.count;
      }
    }
    if (removed.empty()) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(after_.removed, WriteRemoved(file_system_, output_, std::string(kRemovedName),
                                                           RemovedList(std::move(removed))));
    return absl::OkStatus();
  }

  // False where the file is damaged, or samples of it were lost.
  absl::StatusOr<bool> LinkFile(size_t number) {
    const ColumnFile& file = before_.column_files[number];
    const std::string path = before_.PathOf(directory_, file.name);
    std::vector<ColumnRun> runs;
    uint64_t wanted = 0, found = 0;
    for (const ColumnRun& run : file.runs) wanted += run.samples;
    for (const KeptShard& shard : shards_) {
      if (!shard.whole || shard.from.empty()) continue;
      const SampleRange& from = shard.from.front();
      for (const ColumnRun& run : file.runs) {
        const uint64_t begin = std::max(run.sample, from.first);
        const uint64_t end = std::min(run.sample + run.samples, from.first + from.count);
        if (begin >= end) continue;
        found += end - begin;
        AddRun({shard.first_sample + (begin - from.first), end - begin, run.begin + (begin - run.sample)}, &runs);
      }
    }
    if (found != wanted || !files_.Open(number).ok()) return false;
    ValidateOptions validate;
    validate.cancellation = options_.cancellation;
    validate.max_problems = 1;
    validate.max_decompression = options_.max_decompression;
    SHARDKIT_ASSIGN_OR_RETURN(const ValidateReport report, Validate(file_system_, path, validate));
    if (!report.ok()) return false;
    ColumnFile linked = file;
    linked.name = ColumnFileName(1, after_.column_files.size());
    linked.sha256.reset();
    linked.runs = std::move(runs);
    SHARDKIT_RETURN_IF_ERROR(LinkOrCopy(file_system_, path, JoinPath(output_, linked.name), options_.cancellation));
    after_.column_files.push_back(std::move(linked));
    return true;
  }

  absl::Status RewriteFile(size_t number) {
    const ColumnFile& file = before_.column_files[number];
    std::vector<Column> columns;
    std::vector<size_t> positions;  // in the dataset's schema
    for (size_t i = 0; i < before_.schema.size(); ++i) {
      const std::string_view stored = before_.StoredName(before_.schema[i].name);
      if (std::ranges::find(file.columns, stored) == file.columns.end()) continue;
      Column& column = columns.emplace_back(before_.schema[i]);
      column.name = std::string(stored);
      column.nullable = true;
      positions.push_back(i);
    }
    if (columns.empty()) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, Schema::Create(std::move(columns)));
    const auto opened = files_.Open(number);
    if (!opened.ok()) {
      if (!absl::IsDataLoss(opened.status()) && !absl::IsNotFound(opened.status())) return opened.status();
      notes_.push_back(
          StrCat(file.name, " is lost, and with it all values of its columns: ", ToStd(opened.status().message())));
      return absl::OkStatus();
    }
    ColumnFileWriter writer(file_system_, output_, 1, schema, 1, options_.cancellation);
    writer.CountFrom(after_.column_files.size());
    uint64_t lost = 0;
    for (const KeptShard& shard : shards_) {
      SHARDKIT_RETURN_IF_ERROR(CopyValues(number, positions, shard, &writer, &lost));
    }
    if (lost > 0) notes_.push_back(StrCat(file.name, " is damaged: ", lost, " of its values are lost, and absent"));
    SHARDKIT_ASSIGN_OR_RETURN(std::vector<ColumnFile> written, writer.Finish());
    std::ranges::move(written, std::back_inserter(after_.column_files));
    return absl::OkStatus();
  }

  // The values that the file has for samples of the shard, in blocks of the shard.
  absl::Status CopyValues(size_t number, std::span<const size_t> positions, const KeptShard& shard,
                          ColumnFileWriter* writer, uint64_t* lost) {
    const auto in_file = [&](uint64_t sample) {
      const auto place = files_.Find(sample, positions[0]);
      return place && place->file == number;
    };
    // Runs begin and end with blocks, so all samples of a block are in one or none is.
    const bool any = std::ranges::any_of(before_.column_files[number].runs, [&](const ColumnRun& run) {
      return std::ranges::any_of(shard.from, [&](const SampleRange& range) {
        return range.first < run.sample + run.samples && run.sample < range.first + range.count;
      });
    });
    if (!any) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(file_system_, shard.path));
    std::vector<BlockBuffer> buffers(positions.size());
    std::vector<std::optional<Value>> row(positions.size());
    auto range = shard.from.begin();
    uint64_t in_range = 0;
    for (const BlockInfo& block : reader->blocks()) {
      if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("repairing columns"));
      bool begun = false;
      for (uint32_t i = 0; i < block.sample_count && range != shard.from.end(); ++i) {
        const uint64_t sample = range->first + in_range;
        if (++in_range == range->count) ++range, in_range = 0;
        if (!begun && !in_file(sample)) continue;
        begun = true;
        for (size_t k = 0; k < positions.size(); ++k) {
          row[k].reset();
          const auto place = files_.Find(sample, positions[k]);
          if (!place || place->file != number) continue;
          const auto value = files_.ReadValue(sample, *place, &buffers[k]);
          if (absl::IsDataLoss(value.status())) {
            ++*lost;
            continue;
          }
          SHARDKIT_RETURN_IF_ERROR(value.status());
          if (*value) row[k].emplace(**value);
        }
        SHARDKIT_RETURN_IF_ERROR(writer->Append(row));
      }
      if (begun) SHARDKIT_RETURN_IF_ERROR(writer->EndBlock(shard.first_sample + block.first_sample));
    }
    return absl::OkStatus();
  }

  // Of what lay in column files, values may be missing now.
  absl::Status LetBeAbsent() {
    std::vector<Column> columns = after_.schema.columns();
    for (size_t i = 0; i < columns.size(); ++i) columns[i].nullable = columns[i].nullable || files_.Has(i);
    SHARDKIT_ASSIGN_OR_RETURN(after_.schema, Schema::Create(std::move(columns)));
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const std::string& directory_;
  const std::string& output_;
  const Manifest& before_;
  const std::span<const KeptShard> shards_;
  const RepairOptions& options_;
  std::vector<std::string>& notes_;
  ManifestSummary after_;
  ColumnFiles files_;
  bool changed_ = false;  // some values may be lost
};

// Writes to `output`, the directory of the repaired dataset, the values that the column files of `before` in
// `directory` have for the samples of `shards`, and the list of those that were removed. Files whose samples were all
// kept are linked. Returns `before` with columns, column files and removed samples of the repaired dataset; adds to
// *notes what could not be read. DataLoss when the list of removed samples cannot be read, since nobody knows then
// which samples readers may see.
absl::StatusOr<ManifestSummary> RepairColumns(FileSystem& file_system, const std::string& directory,
                                              const std::string& output, const Manifest& before,
                                              std::span<const KeptShard> shards, const RepairOptions& options,
                                              std::vector<std::string>* notes) {
  return ColumnRepair(file_system, directory, output, before, shards, options, notes).Run();
}

}  // namespace
}  // namespace shardkit::dataset

namespace shardkit {
namespace {

constexpr std::string_view kUnfinished = ".shard.tmp";

std::string WithoutPath(const std::string& message, const std::string& path) {
  return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
}

class DatasetRepair {
 public:
  DatasetRepair(FileSystem& file_system, const std::string& directory, const std::string& output,
                const RepairOptions& options)
      : file_system_(file_system),
        directory_(directory),
        output_(output),
        options_(options),
        collector_(file_system, output),
        keys_left_(options.max_keys) {}

  absl::StatusOr<DatasetRepairReport> Run() {
    SHARDKIT_RETURN_IF_ERROR(ListShards());
    SHARDKIT_ASSIGN_OR_RETURN(const auto job,
                              dataset::JobFolder::Open(file_system_, output_, dataset::FingerprintOf("repair"), {}));
    SHARDKIT_RETURN_IF_ERROR(collector_.Start());
    for (const std::string& name : names_) {
      const size_t before = number_;
      SHARDKIT_RETURN_IF_ERROR(Take(name));
      if (number_ > before) Keep(name);
    }
    if (number_ == 0 && !(listing_ && names_.empty())) {
      SHARDKIT_RETURN_IF_ERROR(job->Abort());
      return std::move(report_);
    }
    if (number_ == 0) collector_.Describe(listing_->manifest.schema, listing_->manifest.metadata);
    if (listing_) {
      SHARDKIT_ASSIGN_OR_RETURN(const ManifestSummary columns,
                                dataset::RepairColumns(file_system_, directory_, output_, listing_->manifest, kept_,
                                                       options_, &report_.notes));
      collector_.TakeColumns(columns);
    }
    SHARDKIT_ASSIGN_OR_RETURN(report_.manifest, collector_.Publish(nullptr, options_.cancellation));
    SHARDKIT_RETURN_IF_ERROR(job->Finish());
    report_.written = true;
    return std::move(report_);
  }

 private:
  absl::Status ListShards() {
    const absl::StatusOr<Manifest> text = dataset::ReadManifestText(file_system_, directory_);
    const bool described = text.ok();
    absl::StatusOr<Manifest> manifest = text;
    if (described) {
      const absl::Status listed = dataset::ReadListedShards(file_system_, directory_, &*manifest);
      if (!listed.ok()) manifest = listed;
    }
    if (manifest.ok()) {
      for (const ManifestShard& shard : manifest->shards) names_.push_back(shard.name);
      const auto hashed = [](const ManifestShard& shard) { return shard.sha256.has_value(); };
      if (std::ranges::any_of(manifest->shards, hashed)) {
        report_.notes.emplace_back(
            "dataset.json lists sha256 of shards; that of the output lists none: compare whole shards with the listed "
            "ones");
      }
      listing_ = dataset::ListedShard{directory_, *std::move(manifest), {}};
    } else if (absl::IsNotFound(manifest.status()) || absl::IsDataLoss(manifest.status())) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto entries, file_system_.List(directory_));
      SHARDKIT_ASSIGN_OR_RETURN(const bool changed, dataset::WasChanged(file_system_, directory_, entries));
      if (!described && changed) {
        return FailedPrecondition(directory_, ": had column files, removed samples or bases, and only ", kManifestName,
                                  " says which; copy it again, or take the newest of dataset-*.json");
      }
      if (described && Changed(*text)) {
        return FailedPrecondition(directory_,
                                  ": a segment is missing or damaged, and the dataset was changed: nothing ",
                                  "tells which of the shards there are of this generation; copy the segment again, or ",
                                  "take the newest earlier generation that shardctl history can open");
      }
      report_.notes.push_back(described ? "the list of the shards is missing or damaged: they were taken by their names"
                              : absl::IsNotFound(manifest.status())
                                  ? "there is no dataset.json: the shards were taken by their names"
                                  : "dataset.json is damaged: the shards were taken by their names");
      ListByName(entries);
    } else {
      return manifest.status();
    }
    if (names_.empty() && !listing_) {
      SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system_.Stat(directory_));
      SHARDKIT_RETURN_IF_ERROR(dataset::RefuseOtherContainers(file_system_, directory_, info));
      return NotFound(directory_, ": there is neither a dataset.json nor a shard (*.shard) in it");
    }
    for (const std::string& name : names_) {
      const absl::StatusOr<FileInfo> info = file_system_.Stat(PathOf(name));
      if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
      if (info.ok()) bytes_total_ += 2 * info->size;
    }
    return absl::OkStatus();
  }

  // Whether samples or columns are not just those of the shards there, or some of these are not the dataset's.
  static bool Changed(const ManifestSummary& manifest) {
    return manifest.removed || !manifest.shards_have_columns() || manifest.next_shard > 0 || !manifest.replaced.empty();
  }

  std::string PathOf(const std::string& name) const {
    return listing_ ? listing_->manifest.PathOf(directory_, name) : JoinPath(directory_, name);
  }

  // An unfinished pack leaves the shards that it was writing; they come last.
  void ListByName(const std::vector<DirectoryEntry>& entries) {
    std::vector<std::string> unfinished;
    for (const DirectoryEntry& entry : entries) {
      if (entry.name.ends_with(".shard")) names_.push_back(entry.name);
      if (entry.name.ends_with(kUnfinished)) unfinished.push_back(entry.name);
    }
    names_.insert(names_.end(), unfinished.begin(), unfinished.end());
  }

  absl::Status Take(const std::string& name) {
    if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("repairing a dataset"));
    const std::string path = PathOf(name);
    const ManifestShard* listed = nullptr;
    if (listing_) {
      listed = &*std::ranges::find(listing_->manifest.shards, name, &ManifestShard::name);
      listing_->entry = *listed;
    }
    const absl::StatusOr<FileInfo> info = file_system_.Stat(path);
    if (absl::IsNotFound(info.status())) {
      const absl::Status missing = NotFound("the shard is missing");
      LoseShard(
          path, listed,
          std::string(ToStd((listing_ ? dataset::InBase(missing, listing_->manifest, name) : missing).message())));
      return absl::OkStatus();
    }
    if (!info.ok()) return info.status();
    const std::string new_name = dataset::ShardName(number_);
    SHARDKIT_ASSIGN_OR_RETURN(const std::string problem, FindProblem(path, listed));
    if (problem.empty()) {
      SHARDKIT_RETURN_IF_ERROR(
          dataset::LinkOrCopy(file_system_, path, JoinPath(output_, new_name), options_.cancellation));
      SHARDKIT_RETURN_IF_ERROR(collector_.Add(new_name));
      const ManifestShard& added = collector_.manifest().shards.back();
      RepairReport& report = report_.shards.emplace_back();
      report = {.path = path, .output = JoinPath(output_, new_name), .written = true};
      report.blocks_recovered = added.blocks;
      report.samples_recovered = added.samples;
      report.content_hash = added.content_hash;
      report.bytes = added.bytes;
      if (listed != nullptr && added.content_hash != listed->content_hash) {
        report.notes.emplace_back("it is whole, but not the shard that dataset.json lists");
      }
      ++number_;
    } else {
      SHARDKIT_RETURN_IF_ERROR(Repair(path, new_name, listed, problem));
    }
    bytes_done_ += 2 * info->size;
    Progress(0);
    return absl::OkStatus();
  }

  // Notes which samples of the damaged dataset the shard has that was taken last.
  void Keep(const std::string& name) {
    const RepairReport& report = report_.shards.back();
    dataset::KeptShard& kept = kept_.emplace_back();
    kept.path = report.output;
    kept.first_sample = samples_;
    samples_ += report.samples_recovered;
    if (!listing_) return;
    uint64_t first = 0;  // of the listed shard
    const ManifestShard* listed = listing_->manifest.shards.data();
    for (; listed->name != name; ++listed) first += listed->samples;
    kept.whole = report.problems.empty() && report.losses.empty() && report.content_hash == listed->content_hash;
    const bool another = report.problems.empty() && report.losses.empty() && !kept.whole;
    if (another || report.samples_recovered + report.samples_lost != listed->samples) return;
    uint64_t next = 0;
    for (const RepairLoss& loss : report.losses) {
      if (loss.first_sample > next) kept.from.push_back({first + next, loss.first_sample - next});
      next = loss.first_sample + loss.sample_count;
    }
    if (next < listed->samples) kept.from.push_back({first + next, listed->samples - next});
  }

  // The first problem of a shard; empty when it is whole.
  absl::StatusOr<std::string> FindProblem(const std::string& path, const ManifestShard* listed) {
    ValidateOptions validate;
    validate.cancellation = options_.cancellation;
    validate.max_problems = 1;
    validate.max_decompression = options_.max_decompression;
    validate.progress = [this](uint64_t bytes, uint64_t) { Progress(bytes); };
    SHARDKIT_ASSIGN_OR_RETURN(const ValidateReport found, Validate(file_system_, path, validate));
    if (!found.ok()) return found.problems[0].message;
    // Else Validate took the file for another container.
    return found.shards == 1 || listed == nullptr ? "" : StrCat(path, ": is not a shard");
  }

  absl::Status Repair(const std::string& path, const std::string& new_name, const ManifestShard* listed,
                      const std::string& problem) {
    RepairOptions options = options_;
    options.progress = [this](uint64_t bytes, uint64_t) { Progress(bytes); };
    absl::StatusOr<RepairReport> repaired = dataset::RepairListedShard(
        file_system_, path, JoinPath(output_, new_name), options, listing_ ? &*listing_ : nullptr, &keys_left_);
    // The header is lost, or the file is not a shard.
    if (absl::IsDataLoss(repaired.status())) {
      LoseShard(path, listed, WithoutPath(std::string(ToStd(repaired.status().message())), path));
      return absl::OkStatus();
    }
    if (!repaired.ok()) return repaired.status();
    // Repairing does not see every problem, such as bytes between blocks that are not zero.
    if (repaired->problems.empty() && repaired->losses.empty())
      repaired->problems.push_back(WithoutPath(problem, path));
    if (repaired->written) {
      SHARDKIT_RETURN_IF_ERROR(collector_.Add(new_name));
      ++number_;
    }
    report_.shards.push_back(*std::move(repaired));
    return absl::OkStatus();
  }

  void LoseShard(const std::string& path, const ManifestShard* listed, std::string reason) {
    RepairReport& report = report_.shards.emplace_back();
    report.path = path;
    report.problems.push_back(reason);
    report.end_known = listed != nullptr;
    if (listed == nullptr || listed->samples == 0) return;
    report.samples_lost = listed->samples;
    report.blocks_lost = listed->blocks;
    report.losses.push_back({0, listed->samples, 0, listed->blocks, std::move(reason), {}, {}});
  }

  void Progress(uint64_t of_this_shard) const {
    if (options_.progress) options_.progress(bytes_done_ + of_this_shard, bytes_total_);
  }

  FileSystem& file_system_;
  const std::string directory_;
  const std::string output_;
  const RepairOptions& options_;
  std::optional<dataset::ListedShard> listing_;
  std::vector<std::string> names_;
  std::vector<dataset::KeptShard> kept_;
  uint64_t samples_ = 0;  // in them
  dataset::ShardCollector collector_;
  size_t number_ = 0;  // shards of the output so far
  uint64_t keys_left_;
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
  DatasetRepairReport report_;
};

}  // namespace

uint64_t DatasetRepairReport::samples_recovered() const {
  return std::accumulate(shards.begin(), shards.end(), uint64_t{0},
                         [](uint64_t sum, const RepairReport& shard) { return sum + shard.samples_recovered; });
}

uint64_t DatasetRepairReport::samples_lost() const {
  return std::accumulate(shards.begin(), shards.end(), uint64_t{0},
                         [](uint64_t sum, const RepairReport& shard) { return sum + shard.samples_lost; });
}

bool DatasetRepairReport::lossless() const {
  return std::ranges::all_of(shards, [](const RepairReport& shard) { return shard.lossless(); });
}

absl::StatusOr<DatasetRepairReport> RepairDataset(FileSystem& file_system, const std::string& directory,
                                                  const std::string& output, const RepairOptions& options) {
  const auto unsynced = options.sync ? nullptr : io::WithoutSync(file_system);
  DatasetRepair repair(unsynced ? *unsynced : file_system, directory, output, options);
  return Guarded("repairing", [&] { return repair.Run(); });
}

}  // namespace shardkit
