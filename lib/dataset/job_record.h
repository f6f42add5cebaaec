// Which job has made a dataset: the file .shardkit-job, for writers alone. Readers ignore it. It is separate because
// the other files are the same for equal samples. One line, ended by a line feed, of fields separated by a space:
//
// - "shardkit-job 1",
// - fingerprint: 16 lower-case hexadecimal digits, what the writer makes of the input's description and the options,
// - dataset_hash: as many, XXH3-64 of the content hashes of all shards; where the manifest's differs, the line tells
//   nothing, as after something was appended. In directories of MDS and WebDataset each hash is 16 zero bytes,
// - listing: as many, what the writer makes of the samples that the input had; missing where it does not know them.
//
// It is durable before the manifest is.
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
