// Making a dataset of the shards of others, by reference.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/read/segments.h"
#include "dataset/select/selection.h"
#include "dataset/write/duplicate_key_finder.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

struct LinkOptions {
  bool keep_repeated_keys = false;  // as MergeOptions
  bool by_reference = false;        // the same
  // Only these of the samples that readers of the parts see, in their order. Shards without any are left out. May be
  // null: all. REQUIRES: by_reference.
  const SampleSet* chosen = nullptr;
  const Cancellation* cancellation = nullptr;                   // may be null
  std::function<void(uint64_t done, uint64_t total)> progress;  // samples; may be empty
};

// The manifests of datasets in our own container. NotFound, saying what to do, where there is none.
absl::StatusOr<std::vector<SegmentPart>> ReadParts(ReadableFileSystem& file_system,
                                                   const std::vector<std::string>& directories);

// As MergeDatasets, without copying. FailedPrecondition where the parts have not as many samples as `chosen` is of;
// ResourceExhausted where more samples would be removed than a dataset may have.
absl::StatusOr<Manifest> LinkParts(FileSystem& file_system, std::vector<SegmentPart> parts, const std::string& output,
                                   const LinkOptions& options);

// InvalidArgument when a shard of one part holds the same samples as one of another: where there are no keys, nothing
// would show this mistake later.
absl::Status CheckShardsDiffer(std::span<const SegmentPart> parts);

// InvalidArgument when samples of several parts have one key, as far as the tables of the keys tell; no sample is read
// unless there are such keys. Parts without a table are left out.
absl::Status CheckKeysOfParts(FileSystem& file_system, std::span<const SegmentPart> parts,
                              const Cancellation* cancellation);

// The error which says that a key stands in several inputs. The samples of input i end before ends[i].
absl::Status DuplicateAcrossInputs(const DuplicateKey& found, std::span<const std::string> inputs,
                                   std::span<const uint64_t> ends);

}  // namespace shardkit::dataset
