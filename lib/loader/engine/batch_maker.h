// Makes a batch of the samples of blocks in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gpu/pinned_pool.h"
#include "loader/columns/assembly.h"
#include "loader/engine/batch_pool.h"
#include "loader/engine/batch_task.h"
#include "loader/engine/page_cache_values.h"
#include "loader/open_datasets.h"
#include "shardkit/job.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// Many threads may Fill one batch at once. All else is done by one thread for each batch. Borrows its arguments.
class BatchMaker {
 public:
  // `threads`: how many share the work.
  BatchMaker(const LoaderOptions& options, const OpenDatasets& datasets,
             std::vector<std::unique_ptr<ColumnAssembler>> columns, PageCacheValues& left, int threads,
             const Cancellation& stopped, BatchPool& pool, std::shared_ptr<gpu::PinnedPool> pinned);

  // Batches point into the memory of blocks.
  bool holds_blocks() const { return holds_blocks_; }

  // Takes memory from the pool, and sets the places of all values. task.samples_filling is then how many samples are to
  // be filled, `portion` at a time. Sets task.status.
  void LayOut(BatchTask& task);

  // Fills the kept samples [begin, end). `scratch` is the thread's own.
  absl::Status Fill(BatchTask& task, size_t begin, size_t end, std::optional<WorkerScratch>& scratch);

  // Takes failed samples out of the batch, which is then laid out again, or fails the batch. True when there was none.
  bool LeaveOut(BatchTask& task, std::vector<AssemblyFailure> failures);

  // Sets what the consumer sees of the batch, then calls the user's batch_function.
  absl::Status Complete(BatchTask& task);

 private:
  void LayOutColumns(BatchTask& task);
  void ChooseSamples(BatchTask& task);
  void CopyKeys(BatchTask& task) const;
  void ReadAgain(const BatchSample& sample, AssemblyFailure& failure) const;
  absl::Status CheckMaps(const BatchTask& task, size_t begin, size_t end) const;

  const LoaderOptions& options_;
  const OpenDatasets& datasets_;
  const std::vector<std::unique_ptr<ColumnAssembler>> columns_;
  PageCacheValues& left_;
  const bool heavy_;  // filling takes long for each sample
  const bool fill_may_fail_;
  const bool holds_blocks_;
  const int threads_;
  const Cancellation& stopped_;
  BatchPool& pool_;
  const std::shared_ptr<gpu::PinnedPool> pinned_;  // null for ordinary memory
};

}  // namespace shardkit::loader
