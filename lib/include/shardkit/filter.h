// Datasets of some of the samples of another.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/pack.h"
#include "shardkit/selection.h"

namespace shardkit {

struct FilterOptions {
  // As for Convert to Shardkit's own container: the new shards take what the options say, and columns keep their
  // codecs. Of a block of the input with some samples selected, shard_size counts that share of its stored bytes. Its
  // threads and its cancellation are also those of the selection; progress counts selected samples. skip_errors must be
  // false: a sample whose values cannot be read cannot be decided on.
  PackOptions pack;

  // As ConvertOptions::keep_blocks.
  std::optional<bool> keep_blocks;

  // As ReadOptions, for the input.
  uint64_t max_decompression = kDefaultMaxDecompression;
  bool verify_listed_hashes = true;

  // Called as SelectionOptions::progress, before the samples are copied.
  std::function<void(uint64_t done, uint64_t total)> selecting;
};

struct FilterReport {
  SelectionReport selection;
  PackReport pack;
};

// Writes the selected samples of the dataset at `input`, in their order, as a new dataset at `output`. Decides first,
// on the columns that this takes (CountSamples), and then reads the blocks that have selected samples. The result does
// not depend on the number of threads. Errors as of CountSamples and Convert; FailedPrecondition when the input has
// changed between.
absl::StatusOr<FilterReport> Filter(FileSystem& file_system, const std::string& input, const std::string& output,
                                    const SampleSelection& selection, const FilterOptions& options = {});

// A part of a dataset that is divided.
struct SplitPart {
  std::string name;  // of its directory: a file name
  double share = 0;  // as SampleSelection::share; all together at most 1
};

struct SplitReport {
  SelectionReport selection;
  std::vector<PackReport> parts;
};

// Divides the samples of the dataset at `input` into datasets at `output`/NAME, by the hash of their keys with `seed`
// (SampleSelection): samples of one key are in one part, and stay there when samples are appended. Parts take the
// hashes in their order, so that a part that is added at the end leaves the others as they are. Samples behind the last
// share are in no part. A failure removes the parts that were finished before, except with keep_on_cancel.
// InvalidArgument for names and shares that are impossible. Otherwise as Filter.
absl::StatusOr<SplitReport> Split(FileSystem& file_system, const std::string& input, const std::string& output,
                                  const std::vector<SplitPart>& parts, uint64_t seed,
                                  const FilterOptions& options = {});

}  // namespace shardkit
