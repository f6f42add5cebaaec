// Synthetic input, generated from a seed, for trying things without data and for measuring.
//
// Everything is computed with integers, so the same options give the same bytes on every machine and for any number of
// threads. JPEG files are equal only where the releases of libjpeg-turbo encode equally.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardctl {

struct SynthProgress {
  uint64_t samples_done = 0;  // pairs, or files
  uint64_t samples = 0;       // total
  uint64_t bytes = 0;         // written so far
};

// Called after each sample, by one thread at a time but not always the same one. May be empty. Does not throw.
using SynthProgressCallback = std::function<void(const SynthProgress&)>;

struct SynthSa1bOptions {
  uint64_t count = 40;    // pairs
  uint64_t first_id = 1;  // the pairs are sa_FIRST .. sa_(FIRST + count - 1)
  uint64_t seed = 1;
  int threads = 0;            // 0: one per processor
  uint32_t width = 0;         // pixels, up to 16384; 0: the short side is 1500, as in the published photographs
  uint32_t height = 0;        // both are 0 or neither is
  uint32_t min_objects = 60;  // annotations per picture, from this to max_objects; at most 250
  uint32_t max_objects = 150;
  int jpeg_quality = 90;   // 1 to 100
  bool overwrite = false;  // false: an existing file is an error
};

// Writes sa_N.jpg and sa_N.json for each N into `directory`, and creates it with its parents. The masks are exact: the
// pixels whose centre lies in the object's shape, even where a nearer object hides them. Each file is written under a
// temporary name (".sa_N.jpg.partial") and renamed when its pair is complete. A failed or cancelled run removes the
// temporary files and leaves the finished pairs. Nothing is synced. InvalidArgument for impossible options,
// AlreadyExists for an existing file, Cancelled.
absl::Status SynthesizeSa1b(shardkit::FileSystem& file_system, const std::string& directory,
                            const SynthSa1bOptions& options, const SynthProgressCallback& progress = {},
                            const shardkit::Cancellation* cancellation = nullptr);

enum class SynthContent {
  kRandom,  // uniform bytes: nothing compresses
  kText,    // lines of invented words: zstd compresses them by a factor of about four
};

struct SynthFilesOptions {
  uint64_t count = 1000;  // files
  uint64_t seed = 1;
  int threads = 0;                      // 0: one per processor
  uint64_t size = uint64_t{100} << 10;  // bytes per file
  uint32_t size_jitter_percent = 0;     // sizes are uniform in size -/+ this share of it; 0 to 100
  std::string extension = "bin";        // without the dot; may be empty
  uint64_t files_per_directory = 1000;  // 0: all in `directory` itself
  SynthContent content = SynthContent::kRandom;
  bool overwrite = false;
};

// Writes files 000000/000000000.bin, 000000/000000001.bin, ... below `directory`. Otherwise like SynthesizeSa1b.
absl::Status SynthesizeFiles(shardkit::FileSystem& file_system, const std::string& directory,
                             const SynthFilesOptions& options, const SynthProgressCallback& progress = {},
                             const shardkit::Cancellation* cancellation = nullptr);

}  // namespace shardctl
