#include "shardkit/change.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "dataset/dataset_update.h"
#include "dataset/job_directory.h"
#include "dataset/segments.h"
#include "dataset/view/extend_view.h"
#include "dataset/view/layer_writer.h"
#include "dataset/view/removed_samples.h"
#include "dataset/view/shard_rewrite.h"
#include "dataset/view/stored_dataset.h"

namespace shardkit {
namespace {

class Compaction {
 public:
  Compaction(FileSystem& file_system, const std::string& directory, const CompactOptions& options)
      : file_system_(file_system), directory_(directory), options_(options) {}

  absl::StatusOr<CompactReport> Run() {
    if (!(options_.least_lost > 0 && options_.least_lost <= 1)) {
      return InvalidArgument(directory_, ": a share of ", options_.least_lost, " is not above 0 and at most 1");
    }
    SHARDKIT_ASSIGN_OR_RETURN(update_, dataset::BeginChange(file_system_, directory_));
    const Manifest& before = update_->before();
    report_.manifest = before;
    report_.bytes_before = before.bytes;
    if (before.removed) {
      SHARDKIT_ASSIGN_OR_RETURN(
          removed_, dataset::RemovedList::Read(file_system_, directory_, *before.removed, before.sample_count));
    }
    SHARDKIT_RETURN_IF_ERROR(ChooseShards());
    const bool rewrites = std::ranges::find(rewritten_, true) != rewritten_.end();
    if (!rewrites && !folds() && before.segments.size() < 2) {
      SHARDKIT_RETURN_IF_ERROR(update_->Release());
      return std::move(report_);
    }
    Manifest& manifest = report_.manifest;
    manifest.BeginGeneration({.name = "compact", .arguments = {}});
    if (rewrites) manifest.operation.arguments["shards"] = {StrCat(std::ranges::count(rewritten_, true))};
    if (rewrites || folds()) {
      SHARDKIT_RETURN_IF_ERROR(RewriteShards());
      SHARDKIT_RETURN_IF_ERROR(Renumber());
      SHARDKIT_RETURN_IF_ERROR(
          dataset::MakeOneSegment(file_system_, directory_, before, options_.cancellation, &manifest));
    } else {
      SHARDKIT_RETURN_IF_ERROR(dataset::JoinSegments(file_system_, directory_, 0, manifest.segments.size(),
                                                     options_.cancellation, &manifest));
      SHARDKIT_RETURN_IF_ERROR(dataset::UpdateShardLists(file_system_, directory_, &manifest));
    }
    if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("compacting"));
    SHARDKIT_RETURN_IF_ERROR(update_->Publish(manifest));
    return std::move(report_);
  }

 private:
  bool folds() const { return options_.fold && update_->before().view.has_value(); }

  absl::Status ChooseShards() {
    SHARDKIT_ASSIGN_OR_RETURN(stored_, dataset::StoredDataset::Open(file_system_, directory_, {}));
    rewritten_.assign(update_->before().shards.size(), folds());
    if (folds() || removed_.size() == 0) return absl::OkStatus();
    std::vector<double> lost(rewritten_.size()), all(rewritten_.size());
    std::vector<bool> any(rewritten_.size());
    SHARDKIT_RETURN_IF_ERROR(stored_->ForEachBlock([&](const DatasetBlock& block) {
      const size_t removed = removed_.Within(block.first_sample, block.first_sample + block.sample_count).size();
      any[block.shard] = any[block.shard] || removed > 0;
      all[block.shard] += static_cast<double>(block.length);
      if (block.sample_count == 0) return absl::OkStatus();
      lost[block.shard] += static_cast<double>(block.length) * static_cast<double>(removed) / block.sample_count;
      return absl::OkStatus();
    }));
    for (size_t i = 0; i < rewritten_.size(); ++i) {
      rewritten_[i] = any[i] && (options_.purge || lost[i] >= options_.least_lost * all[i]);
    }
    return absl::OkStatus();
  }

  // Shards are written side by side, each by one thread. Puts them in the places of the old ones.
  absl::Status RewriteShards() {
    std::unique_ptr<DatasetReader> seen;
    if (folds()) {
      SHARDKIT_ASSIGN_OR_RETURN(seen, DatasetReader::Open(file_system_, directory_));
    }
    const std::vector<ManifestShard>& before = update_->before().shards;
    uint64_t total = 0, done = 0;
    for (size_t i = 0; i < before.size(); ++i) total += rewritten_[i] ? before[i].samples : 0;
    std::mutex mutex;
    const dataset::ShardRewriter rewriter(file_system_, *stored_, removed_, seen.get(), options_.cancellation,
                                          [&](uint64_t samples) {
                                            std::lock_guard lock(mutex);
                                            done += samples;
                                            if (options_.progress) options_.progress(done, total);
                                          });
    using Result = absl::StatusOr<ManifestShard>;
    ThreadPool pool(std::max(options_.threads, 1));
    OrderedTasks<Result, size_t> rewriting(pool, "rewriting shards", options_.cancellation,
                                           2 * static_cast<size_t>(pool.thread_count()));
    std::vector<ManifestShard> shards = report_.manifest.shards;
    const auto take = [&]() -> absl::Status {
      auto [number, written] = rewriting.Take();
      SHARDKIT_RETURN_IF_ERROR(At(written.status(), {.path = directory_, .shard = number}));
      if (!dataset::ParseShardName(shards[number].name))
        report_.manifest.replaced.push_back(std::move(shards[number].name));
      shards[number] = *std::move(written);
      ++report_.shards_rewritten;
      return absl::OkStatus();
    };
    size_t next = update_->next_number();
    for (size_t i = 0; i < before.size(); ++i) {
      if (!rewritten_[i]) continue;
      if (rewriting.full()) SHARDKIT_RETURN_IF_ERROR(take());
      rewriting.Add([&rewriter, i, name = dataset::ShardName(next++)] { return rewriter.Rewrite(i, name); }, i);
    }
    while (!rewriting.empty()) SHARDKIT_RETURN_IF_ERROR(take());
    std::erase_if(shards, [](const ManifestShard& shard) { return shard.name.empty(); });
    uint64_t greatest = shards.size();
    for (const ManifestShard& shard : shards) {
      if (const auto number = dataset::ParseShardName(shard.name)) greatest = std::max(greatest, number->unit + 1);
    }
    if (greatest < next) report_.manifest.next_shard = next;
    report_.manifest.SetShards(std::move(shards));
    return absl::OkStatus();
  }

  // Of the stored samples before `stored`, those that are stored no longer.
  uint64_t DroppedBefore(uint64_t stored) const {
    return static_cast<uint64_t>(std::ranges::lower_bound(dropped_, stored) - dropped_.begin());
  }

  // Gives the removed samples that are left, and what the view says, the numbers that samples have now.
  absl::Status Renumber() {
    const Manifest& before = update_->before();
    Manifest& manifest = report_.manifest;
    std::vector<uint64_t> left;
    uint64_t first = 0;
    for (size_t i = 0; i < before.shards.size(); first += before.shards[i++].samples) {
      for (const uint64_t sample : removed_.Within(first, first + before.shards[i].samples)) {
        if (rewritten_[i]) {
          dropped_.push_back(sample);
        } else {
          left.push_back(sample - dropped_.size());
        }
      }
    }
    report_.samples_dropped = dropped_.size();
    manifest.removed.reset();
    if (!left.empty()) {
      SHARDKIT_ASSIGN_OR_RETURN(
          manifest.removed,
          dataset::WriteRemoved(file_system_, directory_, NameInGeneration(kRemovedName, manifest.generation),
                                dataset::RemovedList(std::move(left))));
    }
    // Without samples there are no layers either.
    const bool empty = manifest.sample_count == 0 && manifest.view.has_value();
    if (folds() || empty) {
      manifest.schema = before.view->schema;
      manifest.view.reset();
    }
    if (!manifest.view || dropped_.empty()) return absl::OkStatus();
    DatasetView& view = *manifest.view;
    for (std::vector<ColumnSource>& sources : view.sources) {
      uint64_t end = 0;
      for (ColumnSource& source : sources) source.end -= DroppedBefore(source.end);
      std::erase_if(sources, [&](const ColumnSource& source) { return std::exchange(end, source.end) == source.end; });
    }
    dataset::LeaveOutLayers(&view);
    for (size_t i = 0; i < view.layers.size(); ++i) {
      if (DroppedBefore(view.layers[i].samples) == 0) continue;
      SHARDKIT_RETURN_IF_ERROR(RewriteLayer(i));
    }
    return absl::OkStatus();
  }

  // A layer without the samples that were dropped. Its blocks end where those of the new shards do.
  absl::Status RewriteLayer(size_t number) {
    Layer& layer = report_.manifest.view->layers[number];
    const std::string name = StrCat(dataset::LayerName(report_.manifest.generation), "-", number + 1);
    SHARDKIT_ASSIGN_OR_RETURN(const auto from, DatasetReader::Open(file_system_, JoinPath(directory_, layer.name)));
    const Schema& schema = from->summary().schema;
    SHARDKIT_ASSIGN_OR_RETURN(const auto writer, dataset::LayerWriter::Create(file_system_, directory_, name, schema,
                                                                              from->summary().metadata,
                                                                              options_.threads, options_.cancellation));
    SHARDKIT_ASSIGN_OR_RETURN(const auto scanner, from->Scan({.threads = options_.threads}));
    std::unique_ptr<ScannedBlock> block;
    std::vector<std::optional<Value>> row(schema.size());
    const auto copy = [&](const DatasetBlock& base) -> absl::Status {
      if (base.first_sample >= layer.samples) return absl::OkStatus();
      SHARDKIT_RETURN_IF_ERROR(writer->BeginBlock(base.sample_count));
      for (uint64_t sample = base.first_sample; sample < base.first_sample + base.sample_count; ++sample) {
        if (!block || sample >= block->first_sample() + block->view().sample_count()) {
          if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("rewriting layers"));
          block.reset();
          SHARDKIT_ASSIGN_OR_RETURN(block, scanner->Next());
          if (!block) return DataLoss(from->path(), ": has no sample ", sample);
        }
        if (std::ranges::binary_search(dropped_, sample)) continue;
        const auto local = static_cast<uint32_t>(sample - block->first_sample());
        for (size_t i = 0; i < row.size(); ++i) {
          row[i].reset();
          if (const auto value = block->view().column(i).value(local)) row[i].emplace(*value);
        }
        SHARDKIT_RETURN_IF_ERROR(writer->Append(row));
      }
      return block->CheckMapped();
    };
    SHARDKIT_RETURN_IF_ERROR(stored_->ForEachBlock(copy));
    SHARDKIT_RETURN_IF_ERROR(writer->Finish(&layer).status());
    ++report_.layers_rewritten;
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const std::string directory_;
  const CompactOptions& options_;
  CompactReport report_;
  std::unique_ptr<dataset::DatasetUpdate> update_;
  std::unique_ptr<dataset::StoredDataset> stored_;
  dataset::RemovedList removed_;
  std::vector<bool> rewritten_;    // of the shards before
  std::vector<uint64_t> dropped_;  // stored samples of before that are stored no longer
};

// In short steps, since nothing wakes it.
absl::Status Wait(std::chrono::seconds time, const Cancellation* cancellation) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("waiting before earlier generations are deleted"));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompactReport> CompactDataset(FileSystem& file_system, const std::string& directory,
                                             const CompactOptions& options) {
  return Guarded("compacting", [&]() -> absl::StatusOr<CompactReport> {
    SHARDKIT_ASSIGN_OR_RETURN(CompactReport report, Compaction(file_system, directory, options).Run());
    if (!options.purge) return report;
    SHARDKIT_RETURN_IF_ERROR(Wait(options.grace, options.cancellation));
    SHARDKIT_ASSIGN_OR_RETURN(const auto update, dataset::DatasetUpdate::Begin(file_system, directory));
    if (update->before().generation != report.manifest.generation) {
      // Nobody waited for the readers of the generations that came between.
      return absl::AbortedError(StrCat(directory, ": another run has published the dataset since it was compacted; ",
                                       "nothing was deleted: purge again"));
    }
    SHARDKIT_RETURN_IF_ERROR(update->RemoveEarlier(&report.files_deleted));
    return report;
  });
}

}  // namespace shardkit
