// Which job has made a dataset: a file of one line (format-spec/spec.md, section 9.3). It is separate because the other
// files are the same for equal samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit {

inline constexpr std::string_view kJobRecordName = ".shardkit-job";

// Two runs with the same identity write the same dataset.
struct JobIdentity {
  std::string fingerprint;  // of the input and the options: the same for all parts of a job
  uint64_t partition = 0;
  uint64_t partition_count = 1;

  bool operator==(const JobIdentity&) const = default;

  // "FINGERPRINT I/N"
  std::string Text() const;
};

// InvalidArgument unless `partition` is below `partition_count`.
absl::Status CheckPartition(uint64_t partition, uint64_t partition_count);

struct JobRecord {
  JobIdentity job;
  uint64_t dataset_hash = 0;  // the manifest's
};

// Writes the record of a dataset whose manifest is about to be published. The write is atomic.
absl::Status PublishJobRecord(FileSystem& file_system, const std::string& directory, const JobIdentity& job,
                              const Manifest& manifest);

// Empty when there is no record, or one that cannot be parsed.
absl::StatusOr<std::optional<JobRecord>> ReadJobRecord(FileSystem& file_system, const std::string& directory);

// If `parts` has a part of a job, it must have all parts of that job, each once and in their order; else
// InvalidArgument. Checks only parts with a record that belongs to their manifest.
absl::Status CheckPartitions(FileSystem& file_system, const std::vector<std::string>& parts,
                             const std::vector<Manifest>& manifests);

}  // namespace shardkit
