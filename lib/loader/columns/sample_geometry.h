// The geometry of each sample of a batch.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loader/columns/assembly.h"
#include "shardkit/image.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// InvalidArgument, naming the option, for sizes and probabilities that make no sense.
absl::Status CheckGeometryOptions(const GeometryOptions& options);

// The image among the columns that `column` is or belongs to; null when there is none. InvalidArgument when
// LoaderColumn::of names no image.
absl::StatusOr<const LoaderColumn*> ImageOf(const LoaderColumn& column, std::span<const LoaderColumn> columns);

// Output size of every sample, or 0 x 0 when it differs from sample to sample.
struct OutputSize {
  uint32_t height = 0;
  uint32_t width = 0;
};
OutputSize FixedOutputSize(const GeometryOptions& options);

// Of sample i: the same size and stream give the same geometry. The error is CheckGeometry's.
absl::StatusOr<Geometry> MakeGeometry(const GeometryOptions& options, StoredSize stored, const Assembly& assembly,
                                      size_t i);

// The pixels of an array, borrowed. InvalidArgument for one that is no image, DataLoss for one that is damaged.
absl::StatusOr<ImageView> ArrayImage(const Column& column, std::string_view value);

// The geometry of sample i for what belongs to its image, if there is one: `what`, of `width` x `height` pixels. Sizes
// tell whether it was drawn on the image as stored, or on the upright one: then it is not turned. DataLoss for another
// size than the image has.
absl::StatusOr<Geometry> GeometryBesideImage(const GeometryOptions& options, const std::optional<StoredImage>& image,
                                             const Assembly& assembly, size_t i, uint32_t width, uint32_t height,
                                             std::string_view what);

// The geometry of sample i for boxes and points on its image: drawn on the upright image,
// or on the stored one. InvalidArgument for a sample without an image.
absl::StatusOr<Geometry> GeometryOfItems(const GeometryOptions& options, const StoredImage& image, bool upright,
                                         const Assembly& assembly, size_t i);

}  // namespace shardkit::loader
