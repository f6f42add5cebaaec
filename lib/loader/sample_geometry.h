// The geometry of each sample of a batch.
#pragma once

#include "absl/status/status.h"
#include "loader/assembly.h"
#include "shardkit/image.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// InvalidArgument, naming the option, for sizes and probabilities that make no sense.
absl::Status CheckGeometryOptions(const GeometryOptions& options);

// Output size of every sample, or 0 x 0 when it differs from sample to sample.
struct OutputSize {
  uint32_t height = 0;
  uint32_t width = 0;
};
OutputSize FixedOutputSize(const GeometryOptions& options);

// The same size and random numbers give the same geometry. The error is CheckGeometry's.
absl::StatusOr<Geometry> MakeGeometry(const GeometryOptions& options, StoredSize stored, AugmentationRandom random);

}  // namespace shardkit::loader
