// Converts samples of one container to samples of another, by a plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "operations/copy/column_mapping.h"
#include "operations/sources/source_unit.h"
#include "shardkit/sample.h"

namespace shardkit::operations {

// One thread at a time. Keeps its memory between samples.
class SampleMapper {
 public:
  virtual ~SampleMapper() = default;

  // `guessed` has the columns of guessed types. Adds to `filled` the absent values that it makes empty ones. All three
  // outlive the mapper and the samples.
  static std::unique_ptr<SampleMapper> Create(const ColumnMapping& plan, ColumnTable& guessed,
                                              std::atomic<uint64_t>& filled);

  // Replaces *sample with sample `i` of the block, which has the number `ordinal` in the dataset. The values are
  // borrowed from the block or from *arena. Errors name the column.
  virtual absl::Status Map(const BlockView& block, uint32_t i, uint64_t ordinal, ByteArena* arena, Sample* sample) = 0;
};

}  // namespace shardkit::operations
