// The machine's own limits, for comparison with a loader: plain reads, plain copies, plain JPEG decoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/loader.h"
#include "shardkit/shard.h"

namespace shardctl {

struct StorageCeiling {
  double bytes_per_second = 0;
  uint64_t bytes = 0;  // read in the measurement: whole files, perhaps several times, or what a few seconds allow
};

// Reads the files from front to back and ignores their bytes. `threads` threads each take the next piece. The loader
// reads in the same way, but also works on the bytes. With `once` there is a single pass over the files, because a
// second pass would find them in memory. Cancelled when `cancellation` asks for it.
absl::StatusOr<StorageCeiling> MeasureStorage(const std::vector<std::string>& files, shardkit::ReadMode mode,
                                              int threads, bool once, const shardkit::Cancellation& cancellation);

// Bytes per second of memcpy on one thread, in buffers larger than the caches.
double MeasureMemoryCopy();

struct JpegCeiling {
  double one_thread = 0;   // images per second
  double all_threads = 0;  // images per second of `threads` threads together
  int threads = 0;
  size_t images = 0;   // decoded repeatedly; 0: no image can be decoded
  double present = 0;  // share of the samples that have an image
};

// Decodes images from all over the dataset to RGB at full size with libjpeg-turbo's own interface.
absl::StatusOr<JpegCeiling> MeasureJpeg(const shardkit::LoaderDataset& dataset, const std::string& column,
                                        const shardkit::ReadOptions& read, int threads,
                                        const shardkit::Cancellation& cancellation);

}  // namespace shardctl
