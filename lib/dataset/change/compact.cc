#include "shardkit/change.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "container/read/native_shard_reader.h"
#include "container/whole_block.h"
#include "container/write/block_builder.h"
#include "container/write/block_encoder.h"
#include "container/write/block_encoding.h"
#include "container/write/shard_file_writer.h"
#include "dataset/change/column_file_writer.h"
#include "dataset/change/dataset_update.h"
#include "dataset/dataset_files.h"
#include "dataset/read/any_dataset_reader.h"
#include "dataset/read/removed_samples.h"
#include "dataset/read/segments.h"
#include "format/constants.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardkit {
namespace dataset {
namespace {

constexpr uint32_t kDictionaryBytes = 64 << 10;

// What the shard was written with, as far as it can be told. `names` are the names of its columns in the new one.
absl::StatusOr<ShardOptions> OptionsOf(const ShardReader& shard, const std::map<std::string, std::string>& names) {
  ShardOptions options;
  options.alignment = shard.alignment();
  SHARDKIT_ASSIGN_OR_RETURN(options.metadata, shard.ReadMetadata());
  const auto name_of = [&](const Column& column) {
    const auto found = names.find(column.name);
    return found == names.end() ? std::nullopt : std::optional(found->second);
  };
  for (const size_t column : shard.dictionary_columns()) {
    if (const auto name = name_of(shard.schema()[column])) options.dictionaries[*name] = kDictionaryBytes;
  }
  for (const Column& column : shard.schema().columns()) {
    const std::optional<std::string> name = name_of(column);
    if (!name || column.codec != Codec::kNone || column.fixed_size()) continue;
    options.storage[*name] = column.storage;
  }
  return options;
}

// Rewrites a shard of a dataset. Thread-safe.
class ShardRewriter {
 public:
  // `dataset` is the dataset with all of its columns, of `manifest`, and `removed` its samples that readers do not see.
  // With `fold`, the shards get all columns that it shows, by the names that readers see; otherwise the columns that
  // have values there, by their stored names. All must outlive the rewriter. `cancellation` may be null; `progress`,
  // which may be empty, gets the samples that a block had.
  ShardRewriter(FileSystem& file_system, const DatasetReader& dataset, const Manifest& manifest,
                const RemovedList& removed, bool fold, const Cancellation* cancellation,
                std::function<void(uint64_t)> progress);

  // Writes the samples of shard `number` that were not removed to the new shard `name` in the dataset's directory: a
  // block for each of its blocks that still has samples. Without samples no shard is written, and the entry says so.
  absl::StatusOr<ManifestShard> Rewrite(size_t number, const std::string& name) const;

 private:
  // The columns of the new shard, and the positions of their values in the columns of the dataset.
  struct Columns {
    Schema schema;
    std::vector<size_t> positions;
  };
  absl::StatusOr<Columns> ColumnsOf(const Schema& shard, size_t number) const;

  FileSystem& file_system_;
  const DatasetReader& dataset_;
  const Manifest& manifest_;
  const RemovedList& removed_;
  const bool fold_;
  const Cancellation* const cancellation_;
  const std::function<void(uint64_t)> progress_;
  std::vector<uint64_t> first_samples_;  // stored samples, of the shards
};

ShardRewriter::ShardRewriter(FileSystem& file_system, const DatasetReader& dataset, const Manifest& manifest,
                             const RemovedList& removed, bool fold, const Cancellation* cancellation,
                             std::function<void(uint64_t)> progress)
    : file_system_(file_system),
      dataset_(dataset),
      manifest_(manifest),
      removed_(removed),
      fold_(fold),
      cancellation_(cancellation),
      progress_(std::move(progress)) {
  uint64_t first = 0;
  for (const ManifestShard& shard : manifest.shards) {
    first_samples_.push_back(first);
    first += shard.samples;
  }
}

absl::StatusOr<ShardRewriter::Columns> ShardRewriter::ColumnsOf(const Schema& shard, size_t number) const {
  const uint64_t first = first_samples_[number], end = first + manifest_.shards[number].samples;
  Columns result;
  std::vector<Column> columns;
  const Schema& seen = manifest_.schema;
  const auto add = [&](size_t position, Column column) {
    column.name = fold_ ? seen[position].name : std::string(manifest_.StoredName(seen[position].name));
    columns.push_back(std::move(column));
    result.positions.push_back(position);
  };
  if (fold_) {
    for (size_t i = 0; i < seen.size(); ++i) add(i, seen[i]);
  }
  // In the order of the shard, and as narrow as there.
  for (const Column& column : shard.columns()) {
    for (size_t i = 0; i < seen.size() && !fold_; ++i) {
      if (manifest_.StoredName(seen[i].name) == column.name) add(i, column);
    }
  }
  for (size_t i = 0; i < seen.size() && !fold_; ++i) {
    const std::string_view stored = manifest_.StoredName(seen[i].name);
    const bool in_files = std::ranges::any_of(manifest_.column_files, [&](const ColumnFile& file) {
      return std::ranges::find(file.columns, stored) != file.columns.end() &&
             std::ranges::any_of(
                 file.runs, [&](const ColumnRun& run) { return run.sample < end && run.sample + run.samples > first; });
    });
    if (in_files && std::ranges::find(result.positions, i) == result.positions.end()) add(i, seen[i]);
  }
  SHARDKIT_ASSIGN_OR_RETURN(result.schema, Schema::Create(std::move(columns)));
  return result;
}

absl::StatusOr<ManifestShard> ShardRewriter::Rewrite(size_t number, const std::string& name) const {
  const ManifestShard& listed = manifest_.shards[number];
  SHARDKIT_ASSIGN_OR_RETURN(const auto shard, dataset_.OpenShard(number));
  SHARDKIT_ASSIGN_OR_RETURN(const Columns columns, ColumnsOf(shard->schema(), number));
  const Schema& schema = columns.schema;
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < schema.size(); ++i) {
    names.emplace(manifest_.StoredName(manifest_.schema[columns.positions[i]].name), schema[i].name);
  }
  SHARDKIT_ASSIGN_OR_RETURN(const ShardOptions options, OptionsOf(*shard, names));
  SHARDKIT_ASSIGN_OR_RETURN(container::BlockEncoding plan, container::MakeBlockEncoding(schema, options));
  const std::string path = JoinPath(dataset_.path(), name);
  std::unique_ptr<container::ShardFileWriter> writer;
  container::BlockEncoder encoder;
  std::vector<container::RawBlock> held;  // until the dictionaries are trained
  container::BlockBuilder builder(schema, format::kMaxLength, UINT32_MAX);
  const auto begin_shard = [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(plan.schema,
                              container::ChooseStorages(options, plan.schema, held.empty() ? nullptr : &held[0]));
    SHARDKIT_RETURN_IF_ERROR(container::TrainDictionaries(options, held, &plan));
    std::unique_ptr<NamedHash> sha256;
    if (listed.sha256) {
      SHARDKIT_ASSIGN_OR_RETURN(sha256, NamedHash::Create("sha256"));
    }
    SHARDKIT_ASSIGN_OR_RETURN(writer,
                              container::ShardFileWriter::Create(file_system_, path, plan, options, std::move(sha256)));
    return absl::OkStatus();
  };
  const auto write_held = [&]() -> absl::Status {
    if (!writer) SHARDKIT_RETURN_IF_ERROR(begin_shard());
    for (container::RawBlock& block : held) {
      SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock encoded, encoder.Encode(plan, std::move(block)));
      SHARDKIT_RETURN_IF_ERROR(writer->Write(encoded, cancellation_));
      builder.Recycle(std::move(encoded.raw));
    }
    held.clear();
    return absl::OkStatus();
  };
  // Blocks of which nothing was removed are copied as they are stored. The storages of the shard are those of the
  // options, so the new one has them, too.
  const auto native = std::dynamic_pointer_cast<const container::NativeShardReader>(shard);
  bool copies = native && container::BlocksCanBeCopied(*native, schema);
  for (size_t i = 0; i < schema.size() && copies; ++i) {
    // Two columns may have changed their names.
    copies = manifest_.StoredName(manifest_.schema[columns.positions[i]].name) == shard->schema()[i].name;
  }
  container::WholeBlocks whole_blocks;
  BlockBuffer buffer;
  BlockView view;
  std::vector<std::optional<Value>> row(schema.size());
  for (size_t block = 0; block < shard->blocks().size(); ++block) {
    if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("rewriting shards"));
    const BlockInfo& info = shard->blocks()[block];
    const uint64_t first = first_samples_[number] + info.first_sample;
    const auto removed = removed_.Within(first, first + info.sample_count);
    if (copies && removed.empty()) {
      if (!writer) SHARDKIT_RETURN_IF_ERROR(begin_shard());
      SHARDKIT_ASSIGN_OR_RETURN(container::StoredBlock stored, whole_blocks.Read(native, block));
      SHARDKIT_RETURN_IF_ERROR(writer->Copy(std::move(stored), cancellation_));
    } else if (removed.size() < info.sample_count) {
      SHARDKIT_RETURN_IF_ERROR(dataset_.ReadBlock(number, block, &buffer, &view));
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        for (size_t column = 0; column < schema.size(); ++column) {
          row[column].reset();
          if (const auto value = view.column(columns.positions[column]).value(i)) row[column].emplace(*value);
        }
        SHARDKIT_RETURN_IF_ERROR(container::CheckValues(schema, row));
        builder.Add(row);
      }
      SHARDKIT_RETURN_IF_ERROR(buffer.CheckMapped());
      held.push_back(builder.Take());
      if (writer || options.dictionaries.empty() || held.size() == container::kTrainingBlocks) {
        SHARDKIT_RETURN_IF_ERROR(write_held());
      }
    }
    if (progress_) progress_(info.sample_count);
  }
  if (!held.empty()) SHARDKIT_RETURN_IF_ERROR(write_held());
  if (!writer) return ManifestShard{};
  SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary summary, writer->Finish());
  return ManifestShard{
      name, summary.file_length, summary.sample_count, summary.block_count, summary.content_hash, writer->sha256()};
}

}  // namespace
}  // namespace dataset

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
    }
    if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("compacting"));
    SHARDKIT_RETURN_IF_ERROR(update_->Publish(&manifest));
    return std::move(report_);
  }

 private:
  // All shards are rewritten then.
  bool folds() const {
    return options_.fold && (!update_->before().shards_have_columns() || !update_->before().bases.empty());
  }

  absl::Status ChooseShards() {
    rewritten_.assign(update_->before().shards.size(), folds());
    if (folds()) return absl::OkStatus();
    if (removed_.size() > 0) SHARDKIT_RETURN_IF_ERROR(ChooseShardsThatLost());
    if (options_.purge) DissolveColumnFiles();
    return absl::OkStatus();
  }

  absl::Status ChooseShardsThatLost() {
    SHARDKIT_ASSIGN_OR_RETURN(const auto stored, dataset::OpenWithRemoved(file_system_, directory_));
    std::vector<double> lost(rewritten_.size()), all(rewritten_.size());
    std::vector<bool> any(rewritten_.size());
    SHARDKIT_RETURN_IF_ERROR(stored->ForEachBlock([&](const DatasetBlock& block) {
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

  // A column file stays as it is, with values of samples that no run names. So shards are rewritten until each file is
  // needed whole or not at all.
  void DissolveColumnFiles() {
    const std::vector<ManifestShard>& shards = update_->before().shards;
    for (bool changed = true; changed;) {
      changed = false;
      for (const ColumnFile& file : update_->before().column_files) {
        uint64_t first = 0, named = 0;
        std::vector<size_t> served;
        bool whole = true;
        for (size_t i = 0; i < shards.size(); first += shards[i++].samples) {
          std::vector<ColumnRun> runs;
          dataset::KeepRuns(file.runs, first, first + shards[i].samples, 0, &runs);
          for (const ColumnRun& run : runs) named += run.samples;
          if (runs.empty()) continue;
          served.push_back(i);
          whole = whole && !rewritten_[i];
        }
        if (whole && named == file.samples) continue;
        for (const size_t i : served) {
          changed = changed || !rewritten_[i];
          rewritten_[i] = true;
        }
      }
    }
  }

  // Shards are written side by side, each by one thread. Puts them in the places of the old ones.
  absl::Status RewriteShards() {
    SHARDKIT_ASSIGN_OR_RETURN(const auto dataset, DatasetReader::Open(file_system_, directory_));
    const std::vector<ManifestShard>& before = update_->before().shards;
    uint64_t total = 0, done = 0;
    for (size_t i = 0; i < before.size(); ++i) total += rewritten_[i] ? before[i].samples : 0;
    std::mutex mutex;
    const dataset::ShardRewriter rewriter(file_system_, *dataset, update_->before(), removed_, folds(),
                                          options_.cancellation, [&](uint64_t samples) {
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
      const std::string& old_name = shards[number].name;
      if (!dataset::ParseShardName(old_name) && report_.manifest.BaseOf(old_name) == nullptr) {
        report_.manifest.replaced.push_back(old_name);
      }
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

  // Gives the removed samples that are left, and the runs of column files, the numbers that samples have now.
  absl::Status Renumber() {
    const Manifest& before = update_->before();
    Manifest& manifest = report_.manifest;
    std::vector<uint64_t> left;
    uint64_t first = 0;
    uint64_t dropped = 0;  // of the samples before `first`
    std::vector<ColumnFile> files = std::exchange(manifest.column_files, {});
    std::vector<std::vector<ColumnRun>> runs(files.size());
    for (size_t i = 0; i < before.shards.size(); first += before.shards[i++].samples) {
      for (size_t k = 0; k < files.size() && !rewritten_[i]; ++k) {
        dataset::KeepRuns(files[k].runs, first, first + before.shards[i].samples, dropped, &runs[k]);
      }
      for (const uint64_t sample : removed_.Within(first, first + before.shards[i].samples)) {
        if (rewritten_[i]) {
          ++dropped;
        } else {
          left.push_back(sample - dropped);
        }
      }
    }
    report_.samples_dropped = dropped;
    manifest.removed.reset();
    if (!left.empty()) {
      SHARDKIT_ASSIGN_OR_RETURN(
          manifest.removed,
          dataset::WriteRemoved(file_system_, directory_, NameInGeneration(kRemovedName, manifest.generation),
                                dataset::RemovedList(std::move(left))));
    }
    // All shards are new ones, and nothing has the stored names of before.
    if (folds() || manifest.shards.empty()) {
      manifest.stored_names.clear();
      manifest.dropped.clear();
      return absl::OkStatus();
    }
    for (size_t k = 0; k < files.size(); ++k) {
      if (runs[k].empty()) continue;
      files[k].runs = std::move(runs[k]);
      manifest.column_files.push_back(std::move(files[k]));
    }
    return absl::OkStatus();
  }

  FileSystem& file_system_;
  const std::string directory_;
  const CompactOptions& options_;
  CompactReport report_;
  std::unique_ptr<dataset::DatasetUpdate> update_;
  dataset::RemovedList removed_;
  std::vector<bool> rewritten_;  // of the shards before
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
