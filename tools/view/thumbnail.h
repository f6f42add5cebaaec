// Small images of large ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "view/viewed_dataset.h"
#include "view/workspace.h"

namespace shardctl {

struct Thumbnail {
  std::string type;  // image/jpeg, or that of the value
  std::string bytes;
};

// What a thumbnail shows.
struct ThumbnailOptions {
  std::vector<size_t> columns;  // of images: the first of them that the sample has a value in
  std::optional<size_t> masks;  // column of masks to paint over it, those that have the image's size
  uint32_t size = 256;          // pixels of the longer side, at most: an image is not enlarged
};

// The image of a sample, upright. It is decoded, a JPEG at a fraction of its size where that is enough; formats that
// this build does not decode and a browser shows are given as they are, up to 8 MiB, without masks. NotFound when all
// values are absent, InvalidArgument for a column that has no images, DataLoss for a damaged image, Unimplemented and
// ResourceExhausted for one that cannot be shown.
absl::StatusOr<Thumbnail> MakeThumbnail(const Snapshot& snapshot, uint64_t ordinal, const ThumbnailOptions& options,
                                        WorkspacePool& pool);

// The columns whose type says that they hold images, after `first`, if that is given.
std::vector<size_t> ImageColumns(const shardkit::DatasetReader& reader, std::optional<size_t> first);

}  // namespace shardctl
