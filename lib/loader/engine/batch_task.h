// A batch while the engine makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "loader/columns/assembly.h"
#include "loader/engine/batch_storage.h"
#include "loader/engine/block_table.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

// One sample that the plan wants in the batch.
struct SampleReference {
  uint32_t block = 0;  // in BatchTask::blocks
  uint32_t in_block = 0;
  BatchSample identity;
  TokenPlace tokens;
};

struct BatchTask {
  uint64_t sequence = 0;  // number of the batch since the loader began, from 0
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t steps_left_after = 0;  // left in its epoch
  Cursor cursor_after;
  std::vector<SampleReference> references;
  uint64_t token_rows = 0;
  std::vector<std::shared_ptr<BlockEntry>> blocks;  // each once
  std::vector<uint32_t> block_unfilled;             // samples of each that are still to be filled
  bool blocks_done_early = false;                   // a block is not needed once its samples are filled
  size_t missing = 0;                               // blocks not in memory yet

  // Positions in `references` of the assembly's samples, and the samples that were left out.
  std::vector<uint32_t> kept;
  std::vector<BadSample> skipped;
  Assembly assembly;
  uint64_t charged = 0;  // bytes that the pool has charged
  uint64_t used = 0;     // of these, after it was laid out
  uint64_t needed = 0;   // bytes, known after the batch was laid out and put off
  bool begun = false;
  bool at_work = false;  // a thread uses its blocks
  std::unique_ptr<BatchStorage> storage;
  size_t next_sample = 0;      // the next sample to fill
  size_t portion = 1;          // samples filled at once
  size_t samples_filling = 0;  // samples that are not filled yet
  bool done = false;
  absl::Status status;
};

struct BySequence {
  bool operator()(const BatchTask* a, const BatchTask* b) const { return a->sequence < b->sequence; }
};

}  // namespace shardkit::loader
