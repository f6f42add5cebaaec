#include "loader/engine/batch_maker.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/sample_number.h"

namespace shardkit::loader {
namespace {

constexpr uint64_t kPortionBytes = 1 << 20;  // copied by one thread at once
constexpr size_t kMostHeavySamples = 8;      // decoded by one thread at once

// A few bytes of a file can stand for any number of pixels.
absl::Status NoMemoryFor(const BatchTask& task) {
  return Guarded("loader: laying out a batch", [&] {
    return ResourceExhausted("loader: there is no memory for a batch of ", task.assembly.samples.size(),
                             " samples; lower batch_size, or choose a geometry of fixed size");
  });
}

}  // namespace

BatchMaker::BatchMaker(const LoaderOptions& options, const OpenDatasets& datasets,
                       std::vector<std::unique_ptr<ColumnAssembler>> columns, PageCacheValues& left, int threads,
                       const Cancellation& stopped, BatchPool& pool, std::shared_ptr<gpu::PinnedPool> pinned)
    : options_(options),
      datasets_(datasets),
      columns_(std::move(columns)),
      left_(left),
      heavy_(std::ranges::any_of(columns_, [](const auto& column) { return column->heavy(); })),
      fill_may_fail_(std::ranges::any_of(columns_, [](const auto& column) { return column->fill_may_fail(); })),
      holds_blocks_(std::ranges::any_of(columns_, [](const auto& column) { return column->holds_blocks(); })),
      threads_(threads),
      stopped_(stopped),
      pool_(pool),
      pinned_(std::move(pinned)) {}

// Gives the columns the samples of the batch that are good so far.
void BatchMaker::ChooseSamples(BatchTask& task) {
  Assembly& assembly = task.assembly;
  assembly.seed = options_.plan.seed;
  assembly.epoch = task.epoch;
  assembly.token_rows = task.token_rows;
  assembly.left = &left_;
  assembly.samples.clear();
  assembly.warned_images = 0;
  for (const uint32_t index : task.kept) {
    const SampleReference& reference = task.references[index];
    BlockEntry& block = *task.blocks[reference.block];
    assembly.samples.push_back({&block.view, block.buffer.state().shown, block.salvage.get(), reference.in_block,
                                block.place.block, reference.identity, reference.tokens});
  }
}

void BatchMaker::CopyKeys(BatchTask& task) const {
  BatchStorage& storage = *task.storage;
  storage.keys_.clear();
  storage.key_ends_.clear();
  if (!datasets_.key_column && !datasets_.numbered) return;
  const std::optional<size_t> column = datasets_.key_column;
  for (const AssemblySample& sample : task.assembly.samples) {
    if (column) {
      storage.keys_.Append(sample.Value(*column).value_or(std::string_view()));
    } else {
      storage.keys_.Append(dataset::NumberAsKey(sample.identity.ordinal));
    }
    storage.key_ends_.push_back(storage.keys_.size());
  }
}

void BatchMaker::LayOut(BatchTask& task) {
  try {
    LayOutColumns(task);
  } catch (const std::length_error&) {
    task.status = NoMemoryFor(task);
  } catch (const std::bad_alloc&) {
    task.status = NoMemoryFor(task);
  } catch (...) {
    task.status = StatusOfException(StrCat("loader: laying out the batch of epoch ", task.epoch, ", step ", task.step));
  }
  if (!task.status.ok()) task.samples_filling = 0;
}

void BatchMaker::LayOutColumns(BatchTask& task) {
  if (task.storage == nullptr) task.storage = pool_.Take(task.charged);
  if (!std::exchange(task.begun, true)) {
    for (uint32_t i = 0; i < task.references.size(); ++i) task.kept.push_back(i);
  }
  BatchStorage& storage = *task.storage;
  while (storage.columns_.size() < columns_.size()) {
    storage.columns_.emplace_back().values = ValueBuffer(pinned_);
  }
  task.samples_filling = 0;
  while (task.status.ok() && !stopped_.cancelled()) {
    for (const SampleReference& reference : task.references) {
      if (!task.blocks[reference.block]->status.ok()) task.status = task.blocks[reference.block]->status;
      if (!task.status.ok()) break;
    }
    if (!task.status.ok()) break;
    ChooseSamples(task);
    Assembly& assembly = task.assembly;
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      const AssemblySample& sample = assembly.samples[i];
      if (sample.salvage != nullptr && !(*sample.salvage)[sample.in_block].status.ok()) {
        assembly.Fail(i, (*sample.salvage)[sample.in_block].status);
      }
    }
    std::vector<AssemblyFailure> failures = assembly.TakeFailures();
    if (failures.empty()) {
      for (size_t i = 0; i < columns_.size(); ++i) columns_[i]->Layout(assembly, &storage.columns_[i]);
      failures = assembly.TakeFailures();
      if (!failures.empty()) task.status = CheckMaps(task, 0, task.kept.size());
      if (!task.status.ok()) break;
    }
    if (!LeaveOut(task, std::move(failures))) continue;
    CopyKeys(task);
    task.samples_filling = task.kept.size();
    break;
  }
  task.next_sample = 0;
  uint64_t bytes = 0, unused = 0;
  for (ColumnMemory& column : storage.columns_) {
    column.ShrinkIfMuchTooLarge();
    bytes += column.values.size();
    unused += column.values.capacity() - column.values.size();
  }
  const size_t n = std::max<size_t>(task.kept.size(), 1);
  task.portion = heavy_ ? std::clamp<size_t>(n / (4 * static_cast<size_t>(threads_)), 1, kMostHeavySamples)
                        : static_cast<size_t>(std::max<uint64_t>(1, n * kPortionBytes / std::max<uint64_t>(bytes, 1)));
  task.blocks_done_early =
      !holds_blocks_ && !fill_may_fail_ &&
      std::ranges::none_of(task.blocks, [](const auto& block) { return block->page_cache_bytes > 0; });
  task.block_unfilled.assign(task.blocks.size(), 0);
  for (const uint32_t index : task.kept) ++task.block_unfilled[task.references[index].block];
  const uint64_t memory = storage.memory();
  task.charged = memory;
  task.used = memory - unused;
  pool_.Charge(storage, memory);
}

// A value left in the file is bad: finds the reason that reading the block whole would have given, by the same reads.
// That of the system fails the batch.
void BatchMaker::ReadAgain(const BatchSample& sample, AssemblyFailure& failure) const {
  BlockBuffer buffer;
  const DatasetReader& reader = *datasets_.readers[sample.dataset];
  for (size_t column = 0; column < reader.columns().size(); ++column) {
    const auto value = reader.ReadValue(sample.ordinal, column, &buffer);
    if (value.ok()) continue;
    failure.status = value.status();
    break;
  }
  if (!absl::IsDataLoss(failure.status)) failure.kind = AssemblyFailure::kThrown;
}

bool BatchMaker::LeaveOut(BatchTask& task, std::vector<AssemblyFailure> failures) {
  if (failures.empty()) return true;
  for (AssemblyFailure& failure : failures) {
    if (failure.kind == AssemblyFailure::kUnread) ReadAgain(task.assembly.samples[failure.sample].identity, failure);
  }
  const auto thrown = std::ranges::find(failures, AssemblyFailure::kThrown, &AssemblyFailure::kind);
  if (options_.bad_samples == BadSamples::kFail || thrown != failures.end()) {
    const AssemblyFailure& failure = options_.bad_samples == BadSamples::kFail ? failures[0] : *thrown;
    const AssemblySample& bad = task.assembly.samples[failure.sample];
    const absl::Status status = failure.kind == AssemblyFailure::kThrown ? failure.status : WithWayOn(failure.status);
    const std::string& path = datasets_.readers[bad.identity.dataset]->path();
    task.status = At(Annotate(status, StrCat(path, ": sample ", bad.identity.ordinal, " (shard ", bad.identity.shard,
                                             ", block ", bad.block, ")")),
                     {path, bad.identity.shard, bad.block, bad.identity.ordinal});
    return false;
  }
  for (const AssemblyFailure& failure : failures) {
    const AssemblySample& bad = task.assembly.samples[failure.sample];
    task.skipped.push_back({task.epoch, bad.identity, bad.block, failure.status});
    task.kept[failure.sample] = UINT32_MAX;
  }
  std::erase(task.kept, UINT32_MAX);
  return false;
}

absl::Status BatchMaker::Fill(BatchTask& task, size_t begin, size_t end, std::optional<WorkerScratch>& scratch) {
  try {
    if (!scratch) scratch.emplace();
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!heavy_) {
        columns_[i]->Fill(task.assembly, begin, end, *scratch, &task.storage->columns_[i]);
        continue;
      }
      // One by one, so that a loader that is destroyed need not wait for a whole portion, and so that an exception,
      // most likely from a user's function, is reported for its sample.
      for (size_t sample = begin; sample < end && !stopped_.cancelled(); ++sample) {
        try {
          columns_[i]->Fill(task.assembly, sample, sample + 1, *scratch, &task.storage->columns_[i]);
        } catch (...) {
          task.assembly.Fail(sample, columns_[i]->Describe(StatusOfException("decoding")), AssemblyFailure::kThrown);
          scratch.emplace();  // the decoders may be in any state
        }
      }
    }
    return CheckMaps(task, begin, end);
  } catch (...) {
    scratch.reset();
    return StatusOfException(StrCat("loader: filling the batch of epoch ", task.epoch, ", step ", task.step));
  }
}

// Checks that the memory maps under these samples' blocks have shown the files' bytes until now.
absl::Status BatchMaker::CheckMaps(const BatchTask& task, size_t begin, size_t end) const {
  if (options_.read.mode != ReadMode::kMapped) return absl::OkStatus();
  std::vector<const BlockEntry*> blocks;
  for (size_t i = begin; i < end; ++i) blocks.push_back(task.blocks[task.references[task.kept[i]].block].get());
  std::ranges::sort(blocks);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  for (const BlockEntry* const block : blocks) SHARDKIT_RETURN_IF_ERROR(block->buffer.CheckMapped());
  return absl::OkStatus();
}

absl::Status BatchMaker::Complete(BatchTask& task) {
  BatchStorage& storage = *task.storage;
  storage.epoch_ = task.epoch;
  storage.step_ = task.step;
  storage.samples_.clear();
  for (const AssemblySample& sample : task.assembly.samples) storage.samples_.push_back(sample.identity);
  std::ranges::sort(task.skipped, {}, [](const BadSample& bad) { return bad.sample.position; });
  storage.skipped_ = task.skipped;
  for (ColumnMemory& column : storage.columns_) column.Expose();
  if (!options_.batch_function) return absl::OkStatus();
  try {
    return options_.batch_function(storage);
  } catch (...) {
    return StatusOfException(StrCat("loader: batch_function on the batch of epoch ", task.epoch, ", step ", task.step));
  }
}

}  // namespace shardkit::loader
