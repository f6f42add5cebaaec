// Validation of every byte and every rule.
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
  // Also decodes every value: pixels of images, JSON, UTF-8, masks, array shapes. Compares the size of a sample's
  // masks with the size of its image (one of several images), like a loader that decodes both.
  bool deep = false;
  ReadMode mode = ReadMode::kBuffered;
  size_t max_problems = 100;  // per dataset; further ones are only counted

  // Checks one of `tasks` runs of a dataset's shards. Task 0 also checks the manifest, the index and all keys. Together
  // the tasks check the same as a single one. InvalidArgument unless task < tasks.
  uint64_t task = 0;
  uint64_t tasks = 1;

  // Limits of each thread: max_decompression as in ReadOptions, and the bytes for decoding one image. Progressive JPEGs
  // take 2 bytes per coefficient, other images almost nothing; arithmetic-coded ones count as one byte per pixel. An
  // image over the limit is a problem, whose message names the limit.
  uint64_t max_decompression = kDefaultMaxDecompression;
  uint64_t max_image_memory = uint64_t{96} << 20;
};

struct Problem {
  std::string path;     // the file
  std::string message;  // what and where
  // kDataLoss for damage, kUnimplemented for data of a newer version, kNotFound for a missing file, kOk for warnings.
  absl::StatusCode code = absl::StatusCode::kOk;

  // "DataLoss", "Unimplemented", "NotFound"; empty for a warning.
  std::string_view error_class() const;
};

struct ValidateReport {
  // Counts of the dataset itself, without its column files, as in DatasetReader and ReadHistory. All removed and
  // visible samples are checked.
  uint64_t shards = 0;
  uint64_t blocks = 0;
  uint64_t samples = 0;          // visible to readers
  uint64_t removed_samples = 0;  // that the shards also hold
  uint64_t column_files = 0;     // checked by task 0
  uint64_t bytes = 0;
  uint64_t undecoded_images = 0;  // of formats without a decoder; `deep` checks their first bytes only
  uint64_t warned_images = 0;     // decoded by libjpeg with a warning (JpegDecoder::warning); `warnings` has the first
  uint64_t problem_count = 0;
  std::vector<Problem> problems;  // in the order of the shards

  // For Shardkit datasets without problems: the number of samples with the key of an earlier sample. This is allowed
  // but rarely intended: reading by key finds only the first. The warnings give their number and the place of some of
  // them.
  uint64_t repeated_keys = 0;
  std::vector<Problem> warnings;

  bool ok() const { return problem_count == 0; }
};

// Checks a dataset's directory or a shard: all checksums, padding, the block chain, statistics, key index and content
// hash. For a dataset, also compares the manifest and the offset index with the shards, and the shards with the SHA-256
// that the manifest lists (a warning if this build cannot compute it). The report describes damage. An error status
// means that the check itself was not possible (NotFound, I/O, Cancelled).
//
// For a dataset of MDS or WebDataset: reads every value, compares the hashes of its files if it lists any, and checks
// the names of a tar's members. These containers have no checksums of parts. A tar has no checksums at all unless it
// has a Shardkit index.
absl::StatusOr<ValidateReport> Validate(ReadableFileSystem& file_system, const std::string& path,
                                        const ValidateOptions& options = {});

}  // namespace shardkit
