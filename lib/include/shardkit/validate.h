// Checking every byte and every rule.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

struct ValidateOptions {
  bool deep = false;  // decode every value too: pixels of JPEG and PNG, JSON, UTF-8, masks, array shapes
  int threads = 1;
  ReadMode mode = ReadMode::kBuffered;
  size_t max_problems = 100;  // per dataset; further ones are only counted

  // Of each thread: as ReadOptions says, and the bytes that decoding one image may take. Progressive JPEGs take 2 bytes
  // a coefficient, other images next to nothing; of arithmetic-coded ones the pixels count. What passes the second is a
  // problem that names the limit.
  uint64_t max_decompression = kDefaultMaxDecompression;
  uint64_t max_image_memory = uint64_t{96} << 20;

  const Cancellation* cancellation = nullptr;
  // Called on the calling thread. An exception ends the check, and is returned as Internal with its text.
  std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

struct Problem {
  std::string path;     // the file
  std::string message;  // what and where
};

struct ValidateReport {
  uint64_t shards = 0;
  uint64_t blocks = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;
  uint64_t undecoded_images = 0;  // of formats that are not decoded: `deep` looks at their first bytes
  uint64_t problem_count = 0;
  std::vector<Problem> problems;  // in the order of the shards

  // Of a dataset of ours without problems: samples whose key an earlier one has. That is allowed, but seldom meant:
  // reading by key finds the first alone. The warnings say how many there are, and of some where they stand.
  uint64_t repeated_keys = 0;
  std::vector<Problem> warnings;

  bool ok() const { return problem_count == 0; }
};

// Checks a dataset's directory, or a shard: all checksums, padding, the block chain, statistics, key index, content
// hash; for a dataset also manifest and offset index against the shards. Damage is reported, not returned; an error
// status means that the check itself could not be done (NotFound, I/O, Cancelled). A dataset of MDS or WebDataset:
// every value is read, as are the hashes of its files where there are any, and the names of a tar's members are looked
// at. Those containers have no checksums of parts; a tar has none at all unless it has an index of ours.
absl::StatusOr<ValidateReport> Validate(FileSystem& file_system, const std::string& path,
                                        const ValidateOptions& options = {});

}  // namespace shardkit
