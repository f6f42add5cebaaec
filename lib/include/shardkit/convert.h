// From one container to another: Shardkit's own, MDS, WebDataset (format-spec/interop.md, "Conversion").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/foreign_writer.h"
#include "shardkit/pack.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

enum class Container { kShard, kMds, kWebDataset };

// "shard", "mds", "webdataset".
std::string_view ContainerName(Container container);

struct ConvertOptions {
  Container to = Container::kShard;

  // Columns to convert; empty means all.
  std::vector<std::string> columns;

  // The utf8 column that becomes the key; "" for none. Without a value the key column, or a utf8 column named "key". A
  // WebDataset, which cannot do without, numbers its samples then: 000000000000, 000000000001, ….
  std::optional<std::string> key_column;

  // As ReadOptions, for the input.
  uint64_t max_decompression = kDefaultMaxDecompression;
  bool verify_listed_hashes = true;

  // What cannot be mapped exactly is mapped as well as can be, by the table of format-spec/interop.md, instead of being
  // an error.
  bool lossy = false;

  // As PackOptions; its `dataset` serves datasets of our own, and its threads, job,
  // partition, cancellation and resume all.
  PackOptions pack;

  // Of these, threads, job, partition, cancellation, resume and origin come from elsewhere.
  MdsWriterOptions mds;
  WebDatasetWriterOptions webdataset;
};

// Writes the samples of the dataset at `input`, in their order, as a new dataset at `output`. The result does not
// depend on the number of threads. InvalidArgument, before anything is written, for columns that the container has no
// place for, and, naming the sample, for values; otherwise as Pack. A block of the input stands in memory for every
// thread, and one more.
absl::StatusOr<PackReport> Convert(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ConvertOptions& options = {});

// The same without writing anything.
absl::StatusOr<PackReport> DryRunConvert(FileSystem& file_system, const std::string& input,
                                         const ConvertOptions& options = {});

}  // namespace shardkit
