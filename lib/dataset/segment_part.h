// Shards of one directory, of which a dataset or a segment is made.
#pragma once

#include <memory>
#include <string>

#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Shards in their order, with the segments that they have in their directory, or without.
struct SegmentPart {
  std::string directory;
  Manifest manifest;
  // Where these are some shards of a dataset, in its order, and have no segments of their own: the dataset. Else null.
  std::shared_ptr<const Manifest> whole = nullptr;
};

}  // namespace shardkit::dataset
