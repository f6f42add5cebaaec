// Packs sources into datasets, and unpacks datasets to files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/source.h"

namespace shardkit {

struct PackProgress {
  uint64_t samples = 0;        // done
  uint64_t input_bytes = 0;    // bytes of their values
  uint64_t total_samples = 0;  // 0 while not known
};

struct PackOptions {
  // Its threads, job, cancellation and resume apply to the whole job. With a partition, pass the whole source: Pack
  // takes only the samples of that partition.
  DatasetWriterOptions dataset;

  // Samples that cannot be loaded: true reports and skips them, false fails the job.
  bool skip_errors = false;

  // On cancellation or failure, keep finished shards, for a run with dataset.resume, instead of removing everything.
  bool keep_on_cancel = false;

  // Called from time to time on the calling thread. An exception ends the packing as an error does, and Pack returns
  // Internal with its text.
  std::function<void(const PackProgress&)> progress;

  // Called on the calling thread before samples are packed, with what the user may not intend: datasets of other
  // containers among the files.
  std::function<void(const std::string&)> note;
};

struct PackReport {
  Manifest manifest;     // a dry run has only the columns known beforehand
  uint64_t samples = 0;  // stored (dry run: loaded) by this call, not by the run that it resumed
  uint64_t input_bytes = 0;
  std::vector<SkippedSample> skipped;
  std::vector<std::string> warnings;  // see Source::warnings
};

// Packs all (or a partition) of a source into a new dataset at `directory`. A failure leaves nothing behind, except
// with keep_on_cancel. OutOfRange when an option names a column that does not exist.
absl::StatusOr<PackReport> Pack(FileSystem& file_system, Source& source, const std::string& directory,
                                const PackOptions& options = {});

// The same without writing anything: counts samples and bytes, and finds what would be skipped.
absl::StatusOr<PackReport> DryRunPack(Source& source, const PackOptions& options = {});

struct UnpackOptions {
  int threads = 1;
  uint64_t first_sample = 0;
  uint64_t end_sample = UINT64_MAX;

  // Samples that cannot be read, or whose names cannot be file names: true reports and skips them, false fails the job.
  bool skip_errors = false;

  const Cancellation* cancellation = nullptr;
  std::function<void(uint64_t samples_done, uint64_t samples_total)> progress;  // as PackOptions::progress
};

struct UnpackReport {
  uint64_t samples = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<SkippedSample> skipped;  // ascending; a position is the sample's ordinal in the dataset
};

// Writes the files that a dataset was packed from, byte for byte, below `directory`, which must be empty or missing.
// For datasets of other origin: KEY.COLUMN for byte strings, KEY.COLUMN.npy for arrays, KEY.COLUMN.json for the rest.
// Refuses names that would lead out of the directory. Does not overwrite existing files.
absl::StatusOr<UnpackReport> Unpack(FileSystem& file_system, const DatasetReader& dataset, const std::string& directory,
                                    const UnpackOptions& options = {});

}  // namespace shardkit
