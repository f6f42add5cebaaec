#include "dataset/select/selection.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "dataset/sample_number.h"
#include "dataset/select/block_skipper.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/select.h"

namespace shardkit {
namespace {

constexpr uint64_t kMostKeyBytes = uint64_t{4} << 30;

// Of the blocks of one shard, those that are to be read, and what became of them.
struct ShardTask {
  std::vector<DatasetBlock> blocks;
  std::vector<std::vector<uint64_t>> parts;  // selected ordinals
  std::vector<size_t> keys;                  // wanted keys that were found, positions in SampleSelection::keys
  uint64_t samples = 0;
  uint64_t blocks_read = 0;
  uint64_t blocks_skipped = 0;
};

class Selector {
 public:
  Selector(const DatasetReader& dataset, const SampleSelection& selection, std::span<const uint64_t> ends,
           const SelectionOptions& options)
      : dataset_(dataset),
        selection_(selection),
        ends_(ends),
        options_(options),
        ranges_(Merged(selection.ranges)),
        pool_(std::max(options.threads, 1)),
        // A failure does not stop the tasks before it: the error is always that of the first task that fails.
        tasks_(pool_, "selecting samples", options.cancellation, 2 * static_cast<size_t>(pool_.thread_count())) {}

  // `predicate` is null when there is none, `key` is the position of the keys in the dataset's columns when they are
  // needed. `numbered`: they are needed, and the samples' numbers are the keys.
  absl::StatusOr<dataset::Selected> Run(const Predicate* predicate, std::optional<size_t> key, bool numbered) {
    predicate_ = predicate;
    key_ = key;
    numbered_ = numbered;
    if (selection_.keys) {
      for (size_t i = 0; i < selection_.keys->size(); ++i) wanted_.emplace((*selection_.keys)[i], i);
    }
    found_.resize(selection_.keys ? selection_.keys->size() : 0);
    result_.parts.assign(ends_.size(), dataset::SampleSet(dataset_.sample_count()));
    result_.report.samples = dataset_.sample_count();
    auto task = std::make_shared<ShardTask>();
    uint32_t shard = 0;
    const absl::Status listed = dataset_.ForEachBlock([&](const DatasetBlock& block) -> absl::Status {
      if (block.shard != shard) {
        SHARDKIT_RETURN_IF_ERROR(Start(std::exchange(task, std::make_shared<ShardTask>())));
        shard = block.shard;
      }
      ++result_.report.blocks;
      if (InRanges(block.first_sample, block.first_sample + block.sample_count)) {
        task->blocks.push_back(block);
      } else {
        done_ += block.sample_count;
      }
      return absl::OkStatus();
    });
    SHARDKIT_RETURN_IF_ERROR(listed);
    SHARDKIT_RETURN_IF_ERROR(Start(task));
    while (!tasks_.empty()) SHARDKIT_RETURN_IF_ERROR(TakeOne());
    for (const dataset::SampleSet& part : result_.parts) result_.report.selected += part.Count();
    // A key that is given twice is found once.
    for (const auto& [text, i] : wanted_) result_.report.keys_missing += found_[i] ? 0 : 1;
    return std::move(result_);
  }

 private:
  // Whether one of the ordinals [begin, end) is in the ranges.
  bool InRanges(uint64_t begin, uint64_t end) const {
    if (selection_.ranges.empty()) return true;
    const auto found = std::ranges::upper_bound(ranges_, begin, {}, &std::pair<uint64_t, uint64_t>::second);
    return found != ranges_.end() && found->first < end;
  }

  // Ascending, none empty, and none touching another.
  static std::vector<std::pair<uint64_t, uint64_t>> Merged(std::vector<std::pair<uint64_t, uint64_t>> ranges) {
    std::erase_if(ranges, [](const auto& range) { return range.first >= range.second; });
    std::ranges::sort(ranges);
    std::vector<std::pair<uint64_t, uint64_t>> merged;
    for (const auto& range : ranges) {
      if (!merged.empty() && range.first <= merged.back().second) {
        merged.back().second = std::max(merged.back().second, range.second);
      } else {
        merged.push_back(range);
      }
    }
    return merged;
  }

  absl::Status Start(std::shared_ptr<ShardTask> task) {
    if (task->blocks.empty()) return absl::OkStatus();
    while (tasks_.full()) SHARDKIT_RETURN_IF_ERROR(TakeOne());
    tasks_.Add([this, task] { return Decide(*task); }, task);
    return absl::OkStatus();
  }

  absl::Status TakeOne() {
    const auto taken = tasks_.Take();
    SHARDKIT_RETURN_IF_ERROR(taken.result);
    const ShardTask& task = *taken.item;
    for (size_t i = 0; i < task.parts.size(); ++i) {
      for (const uint64_t sample : task.parts[i]) result_.parts[i].Add(sample);
    }
    for (const size_t key : task.keys) found_[key] = true;
    result_.report.blocks_read += task.blocks_read;
    result_.report.blocks_skipped += task.blocks_skipped;
    done_ += task.samples;
    if (options_.progress) options_.progress(done_, dataset_.sample_count());
    return absl::OkStatus();
  }

  absl::Status Decide(ShardTask& task) const {
    task.parts.resize(ends_.size());
    std::optional<dataset::BlockSkipper> skipper;
    if (predicate_ != nullptr) {
      SHARDKIT_ASSIGN_OR_RETURN(auto shard, dataset_.OpenShard(task.blocks[0].shard));
      SHARDKIT_ASSIGN_OR_RETURN(skipper,
                                dataset::BlockSkipper::Create(std::move(shard), *predicate_, dataset_.summary()));
    }
    BlockBuffer buffer;
    std::vector<uint32_t> matches;
    for (const DatasetBlock& block : task.blocks) {
      SHARDKIT_RETURN_IF_ERROR(tasks_.Check());
      task.samples += block.sample_count;
      if (block.sample_count == 0) continue;  // all removed
      if (skipper && !skipper->MayMatch(block.block)) {
        ++task.blocks_skipped;
        continue;
      }
      SHARDKIT_RETURN_IF_ERROR(DecideBlock(block, &buffer, &matches, task));
    }
    return absl::OkStatus();
  }

  absl::Status DecideBlock(const DatasetBlock& block, BlockBuffer* buffer, std::vector<uint32_t>* matches,
                           ShardTask& task) const {
    BlockView view;
    if (predicate_ != nullptr || key_) {
      SHARDKIT_RETURN_IF_ERROR(dataset_.ReadBlock(block.shard, block.block, buffer, &view));
      ++task.blocks_read;
    }
    if (predicate_ != nullptr) {
      const absl::Status status = predicate_->Select(view, matches);
      if (!status.ok()) {
        const std::string place = StrCat(dataset_.path(), ": shard ", block.shard, ", block ", block.block);
        return At(Annotate(status, place), {.path = dataset_.path(), .shard = block.shard, .block = block.block});
      }
    } else {
      matches->resize(block.sample_count);
      for (uint32_t i = 0; i < block.sample_count; ++i) (*matches)[i] = i;
    }
    for (const uint32_t i : *matches) {
      const uint64_t sample = block.first_sample + i;
      if (!InRanges(sample, sample + 1)) continue;
      const std::string number = numbered_ ? dataset::NumberAsKey(sample) : std::string();
      const std::string_view key = key_ ? view.column(*key_).value(i).value_or("") : number;
      if (selection_.keys) {
        const auto wanted = wanted_.find(key);
        if (wanted == wanted_.end()) continue;
        task.keys.push_back(wanted->second);
      }
      if (const std::optional<size_t> part = PartOf(key)) task.parts[*part].push_back(sample);
    }
    return buffer->CheckMapped();
  }

  // The part that a key belongs to, if any.
  std::optional<size_t> PartOf(std::string_view key) const {
    if (ends_.size() == 1 && ends_[0] == dataset::kWholeShare) return 0;
    __extension__ typedef unsigned __int128 Uint128;
    const Uint128 place = Uint128{SeededHash64(key, selection_.seed)} * dataset::kWholeShare;
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (place < (Uint128{ends_[i]} << 64)) return i;
    }
    return std::nullopt;
  }

  const DatasetReader& dataset_;
  const SampleSelection& selection_;
  const std::span<const uint64_t> ends_;
  const SelectionOptions& options_;
  const std::vector<std::pair<uint64_t, uint64_t>> ranges_;
  const Predicate* predicate_ = nullptr;
  std::optional<size_t> key_;
  bool numbered_ = false;
  absl::flat_hash_map<std::string_view, size_t> wanted_;
  std::vector<bool> found_;  // of the wanted keys
  dataset::Selected result_;
  uint64_t done_ = 0;
  ThreadPool pool_;
  // Last: its destructor waits for tasks, which use the other members.
  OrderedTasks<absl::Status, std::shared_ptr<ShardTask>> tasks_;
};

}  // namespace

uint64_t dataset::SampleSet::CountIn(uint64_t begin, uint64_t end) const {
  uint64_t count = 0;
  while (begin < end) {
    const uint64_t in_word = std::min(end - begin, 64 - begin % 64);
    const uint64_t word = words_[begin / 64] >> (begin % 64);
    count += static_cast<uint64_t>(std::popcount(in_word == 64 ? word : word & ((uint64_t{1} << in_word) - 1)));
    begin += in_word;
  }
  return count;
}

absl::StatusOr<uint64_t> dataset::ShareSteps(double share, std::string_view name) {
  // NaN fails, too.
  if (share > 0 && share <= 1) {
    const auto steps = static_cast<uint64_t>(std::llround(share * static_cast<double>(dataset::kWholeShare)));
    if (steps > 0) return steps;
  }
  return InvalidArgument(name, ": a share lies between 0.0000001% and 100%");
}

absl::StatusOr<dataset::Selected> dataset::SelectParts(ReadableFileSystem& file_system, const std::string& path,
                                                       const SampleSelection& selection, std::span<const uint64_t> ends,
                                                       const SelectionOptions& options) {
  DatasetOptions dataset_options;
  dataset_options.max_decompression = options.max_decompression;
  dataset_options.verify_listed_hashes = options.verify_listed_hashes;
  dataset_options.generation = options.generation;
  SHARDKIT_ASSIGN_OR_RETURN(auto dataset, DatasetReader::Open(file_system, path, dataset_options));
  const Schema& schema = dataset->summary().schema;
  std::optional<Predicate> predicate;
  if (!selection.where.empty()) {
    auto parsed = Predicate::Parse(selection.where, schema.columns());
    if (!parsed.ok()) return Annotate(parsed.status(), dataset->path());
    predicate = *std::move(parsed);
    dataset_options.columns = predicate->columns();
  }
  const bool all_keys = ends.size() == 1 && ends[0] == dataset::kWholeShare;
  const bool needs_key = selection.keys.has_value() || !all_keys;
  const bool numbered = needs_key && !schema.key_column();
  std::optional<size_t> key;
  if (needs_key && !numbered) {
    const std::string& name = schema[*schema.key_column()].name;
    if (!predicate) dataset_options.columns = {name};
    dataset_options.key_column = true;
  }
  if (!dataset_options.columns.empty()) {
    SHARDKIT_ASSIGN_OR_RETURN(dataset, DatasetReader::Open(file_system, path, dataset_options));
  }
  if (needs_key && !numbered) {
    const Schema& again = dataset->summary().schema;
    if (!again.key_column()) return FailedPrecondition(dataset->path(), ": has changed while it was read");
    SHARDKIT_ASSIGN_OR_RETURN(key, dataset->FindColumn(again[*again.key_column()].name));
  }
  return Selector(*dataset, selection, ends, options).Run(predicate ? &*predicate : nullptr, key, numbered);
}

absl::StatusOr<dataset::Selected> dataset::SelectSamples(ReadableFileSystem& file_system, const std::string& path,
                                                         const SampleSelection& selection,
                                                         const SelectionOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t end, dataset::ShareSteps(selection.share, "sample"));
  return dataset::SelectParts(file_system, path, selection, std::span(&end, 1), options);
}

absl::StatusOr<SelectionReport> CountSamples(ReadableFileSystem& file_system, const std::string& path,
                                             const SampleSelection& selection, const SelectionOptions& options) {
  return Guarded("selecting samples", [&]() -> absl::StatusOr<SelectionReport> {
    SHARDKIT_ASSIGN_OR_RETURN(const dataset::Selected selected,
                              dataset::SelectSamples(file_system, path, selection, options));
    return selected.report;
  });
}

absl::StatusOr<FoundSamples> FindSamples(ReadableFileSystem& file_system, const std::string& path,
                                         const SampleSelection& selection, const SelectionOptions& options) {
  return Guarded("selecting samples", [&]() -> absl::StatusOr<FoundSamples> {
    SHARDKIT_ASSIGN_OR_RETURN(const dataset::Selected selected,
                              dataset::SelectSamples(file_system, path, selection, options));
    FoundSamples found{{}, selected.report};
    found.ordinals.reserve(selected.report.selected);
    const dataset::SampleSet& set = selected.parts[0];
    for (uint64_t i = 0; i < set.samples(); ++i) {
      if (set.Has(i)) found.ordinals.push_back(i);
    }
    return found;
  });
}

absl::StatusOr<std::vector<std::string>> ReadKeys(ReadableFileSystem& file_system, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string text, file_system.ReadFile(path, kMostKeyBytes));
  std::vector<std::string> keys;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) keys.emplace_back(line);
    begin = end + 1;
  }
  return keys;
}

}  // namespace shardkit
