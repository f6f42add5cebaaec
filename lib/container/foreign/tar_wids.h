// A tar as wids sees it.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/tar_index.h"

namespace shardkit {

struct WidsView {
  uint64_t samples = 0;
  // The first member by which its samples are others than webdataset's, and how.
  std::optional<TarProblem> difference;
};

// Of a tar that is not compressed. wids knows names of 100 bytes, and neither pax headers nor those of GNU
// tar. DataLoss for a damaged tar.
absl::StatusOr<WidsView> ViewAsWids(const RandomAccessFile& file);

}  // namespace shardkit
