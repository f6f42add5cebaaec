// Removing samples from a dataset (format-spec/spec.md, section 9.8).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/selection.h"

namespace shardkit {

struct RemoveReport {
  SelectionReport selection;  // `selected` are the samples that were removed now
  uint64_t removed = 0;       // samples that the shards hold and readers do not see, with those removed before
  uint64_t samples = 0;       // that readers see now
  uint64_t generation = 1;    // of the dataset afterwards
};

// Makes the selected samples of the dataset at `directory` invisible to all readers, in its next generation: the
// manifest then names a list of them. No shard changes: the bytes are there, and earlier generations show the samples,
// until CompactDataset with `purge`. Where no sample is selected nothing is published.
//
// Errors as of CountSamples; InvalidArgument when the selection has none of where, keys and ranges; and before anything
// is read as of DatasetWriter::Create with `append`. Aborted as of DatasetWriter::Finish; after any error the dataset
// is as it was.
absl::StatusOr<RemoveReport> RemoveSamples(FileSystem& file_system, const std::string& directory,
                                           const SampleSelection& selection, const SelectionOptions& options = {});

}  // namespace shardkit
