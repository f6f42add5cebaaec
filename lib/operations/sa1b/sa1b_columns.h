// Positions of the columns of Sa1bColumns(), and the values there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "operations/sa1b/sa1b.h"
#include "shardkit/sample.h"

namespace shardkit::operations {

enum Sa1bColumn : size_t {
  kSa1bKey,
  kSa1bImage,
  kSa1bImageId,
  kSa1bWidth,
  kSa1bHeight,
  kSa1bFileName,
  kSa1bMasks,
  kSa1bAnnotationId,
  kSa1bArea,
  kSa1bBbox,
  kSa1bPredictedIou,
  kSa1bStabilityScore,
  kSa1bCropBox,
  kSa1bPointCoords,
  kSa1bSourceJson,
  kSa1bColumnCount,
};

// Where the columns are in a schema that has them all.
using Sa1bPositions = std::array<size_t, kSa1bColumnCount>;

// The annotation columns of sample `i`, an absent value being empty. Borrows the block's memory.
Sa1bValues Sa1bValuesOf(const BlockView& block, const Sa1bPositions& positions, uint32_t i);

}  // namespace shardkit::operations
