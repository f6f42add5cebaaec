// Positions of the columns of Sa1bColumns().
#pragma once

#include <cstddef>

namespace shardkit {

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

}  // namespace shardkit
