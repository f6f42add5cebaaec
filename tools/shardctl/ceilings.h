// What the machine itself can do, measured beside a loader: plain reads, plain copies, plain JPEG decoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard_reader.h"

namespace shardctl {

struct StorageCeiling {
  double bytes_per_second = 0;
  uint64_t bytes = 0;  // read for it: all, perhaps several times, or as many as a few seconds allow
};

// Reads the files from front to back, `threads` at a time each with the next piece, and looks at nothing. The loader's
// way of reading without anything it does with the bytes. `once`: no pass over them is repeated, because the next one
// would find them in memory. Cancelled when told so.
absl::StatusOr<StorageCeiling> MeasureStorage(const std::vector<std::string>& files, shardkit::ReadMode mode,
                                              int threads, bool once, const shardkit::Cancellation& cancellation);

// Bytes per second of memcpy on one thread, in buffers larger than the caches.
double MeasureMemoryCopy();

struct JpegCeiling {
  double one_thread = 0;   // images per second
  double all_threads = 0;  // of `threads` at once
  int threads = 0;
  size_t images = 0;   // that were decoded over and over; 0: none that can be
  double present = 0;  // share of the samples that have an image
};

// Decodes images from all over the dataset to RGB at full size with libjpeg-turbo's own interface.
absl::StatusOr<JpegCeiling> MeasureJpeg(const std::string& path, const std::string& column,
                                        const shardkit::ReadOptions& read, int threads,
                                        const shardkit::Cancellation& cancellation);

}  // namespace shardctl
