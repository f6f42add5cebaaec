// Repairing a dataset: each of its shards, then manifest and index.

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/bases.h"
#include "dataset/job_folder.h"
#include "dataset/manifest_text.h"
#include "dataset/repair/repair_columns.h"
#include "dataset/repair/repair_shard.h"
#include "dataset/shard_collector.h"
#include "shardkit/repair.h"
#include "shardkit/validate.h"

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
  DatasetRepair repair(file_system, directory, output, options);
  return Guarded("repairing", [&] { return repair.Run(); });
}

}  // namespace shardkit
