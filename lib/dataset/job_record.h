// Which job has made a dataset: a file of one line (format-spec/spec.md, section 9.3). It is separate because the other
// files are the same for equal samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

inline constexpr std::string_view kJobRecordName = ".shardkit-job";

// Two runs with the same fingerprint, which is 16 hexadecimal digits, write the same dataset.
struct JobRecord {
  std::string fingerprint;
  uint64_t dataset_hash = 0;  // the manifest's
  uint64_t listing = 0;       // of the whole input (see DatasetJob::SetListing)
};

// Describes everything that a dataset depends on which is written so, except the samples.
std::string DescribeJob(const Schema& schema, const DatasetWriterOptions& options);

// `text` describes everything that the dataset depends on, except the samples.
std::string FingerprintOf(const std::string& text);

// Writes the record of a dataset whose manifest is about to be published. The write is atomic.
absl::Status PublishJobRecord(FileSystem& file_system, const std::string& directory, const std::string& fingerprint,
                              const Manifest& manifest, uint64_t listing);

// Empty when there is no record, or one that cannot be parsed.
absl::StatusOr<std::optional<JobRecord>> ReadJobRecord(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit::dataset
