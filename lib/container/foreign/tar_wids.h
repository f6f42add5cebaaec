// A tar as wids sees it.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/tar_index.h"

namespace shardkit::container {

struct WidsView {
  uint64_t samples = 0;
  // The first member at which the samples of wids and webdataset differ, and how.
  std::optional<TarProblem> difference;
};

// The tar must not be compressed. wids reads names of up to 100 bytes, and ignores pax headers and those of GNU tar.
// DataLoss for a damaged tar.
absl::StatusOr<WidsView> ViewAsWids(const RandomAccessFile& file);

}  // namespace shardkit::container
