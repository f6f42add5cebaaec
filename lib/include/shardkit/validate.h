// Checking every byte and every rule.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/shard.h"

namespace shardkit {

// Progress counts bytes.
struct ValidateOptions : JobOptions {
  // Also decode every value: pixels of JPEG and PNG, JSON, UTF-8, masks, array shapes. And compare the size of the
  // masks of a sample with that of its image (of several images, one), as a loader does that decodes both.
  bool deep = false;
  ReadMode mode = ReadMode::kBuffered;
  size_t max_problems = 100;  // per dataset; further ones are only counted

  // Checks one run of `tasks` runs of a dataset's shards; task 0 also checks what there is once: the manifest, the
  // index and all keys. Together the tasks check what one does. InvalidArgument unless task < tasks.
  uint64_t task = 0;
  uint64_t tasks = 1;

  // Limits of each thread: max_decompression as in ReadOptions, and the bytes that decoding one image may take.
  // Progressive JPEGs take 2 bytes per coefficient, other images almost nothing; arithmetic-coded ones count as one
  // byte per pixel. An image over the limit is a problem, whose message names the limit.
  uint64_t max_decompression = kDefaultMaxDecompression;
  uint64_t max_image_memory = uint64_t{96} << 20;
};

struct Problem {
  std::string path;     // the file
  std::string message;  // what and where
  // kDataLoss for damage, kUnimplemented for what a newer version has written, kNotFound for a missing file. Warnings
  // have kOk.
  absl::StatusCode code = absl::StatusCode::kOk;

  // "DataLoss", "Unimplemented", "NotFound"; empty for a warning.
  std::string_view error_class() const;
};

struct ValidateReport {
  // Of the dataset itself, without its column files, as DatasetReader and ReadHistory count them. All removed and seen
  // samples are checked.
  uint64_t shards = 0;
  uint64_t blocks = 0;
  uint64_t samples = 0;          // that readers see
  uint64_t removed_samples = 0;  // that the shards hold besides
  uint64_t column_files = 0;     // checked by task 0
  uint64_t bytes = 0;
  uint64_t undecoded_images = 0;  // of formats without a decoder; `deep` checks their first bytes only
  uint64_t warned_images = 0;  // that libjpeg decodes with a warning (JpegDecoder::warning); `warnings` has the first
  uint64_t problem_count = 0;
  std::vector<Problem> problems;  // in the order of the shards

  // For Shardkit datasets without problems: the number of samples whose key an earlier sample has. This is allowed but
  // rarely intended: reading by key finds only the first. The warnings say how many there are, and where some of them
  // are.
  uint64_t repeated_keys = 0;
  std::vector<Problem> warnings;

  bool ok() const { return problem_count == 0; }
};

// Checks a dataset's directory, or a shard: all checksums, padding, the block chain, statistics, key index and content
// hash; for a dataset also the manifest and the offset index against the shards, and the shards against the SHA-256
// that the manifest lists (a warning where this build cannot compute it). Damage is in the report. An error status
// means that the check itself was not possible (NotFound, I/O, Cancelled).
//
// For a dataset of MDS or WebDataset: reads every value, compares the hashes of its files when it lists any, and checks
// the names of a tar's members. These containers have no checksums of parts. A tar has no checksums at all unless it
// has a Shardkit index.
absl::StatusOr<ValidateReport> Validate(ReadableFileSystem& file_system, const std::string& path,
                                        const ValidateOptions& options = {});

}  // namespace shardkit
