// Conversion between containers: Shardkit's own, MDS, WebDataset (format-spec/interop.md, "Conversion").
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

  // The utf8 column that becomes the key; "" for none. By default the key column, or else a utf8 column named "key". A
  // WebDataset must have keys: without such a column its samples are numbered 000000000000, 000000000001, ….
  std::optional<std::string> key_column;

  // As ReadOptions, for the input.
  uint64_t max_decompression = kDefaultMaxDecompression;
  bool verify_listed_hashes = true;

  // As DatasetOptions, of the input.
  uint64_t generation = 0;

  // To Shardkit's own container: a block of the input whose samples all come into one shard stays one, if its shard
  // stores the columns as the new one does: it is copied with its checksums, without being decompressed. The samples
  // between two such blocks have blocks of their own. Not where `pack` asks for levels, dictionaries or storages. False
  // makes all blocks anew; by default so does another block_size or max_block_samples than ShardOptions has at first.
  std::optional<bool> keep_blocks;

  // Values that have no exact mapping are converted by the table of format-spec/interop.md instead of being an error.
  bool lossy = false;

  // As for Pack. `pack.dataset` is for output in Shardkit's own container, and its sha256 is InvalidArgument for any
  // other. Its threads, job, cancellation and resume apply to every container. Its shard_size counts the stored bytes
  // of the input's blocks (of the columns chosen, where the container stores columns apart: their share in the first
  // shard is taken for all), while those of `mds` and `webdataset` count the bytes of the output.
  PackOptions pack;

  // Their threads, job, cancellation, resume and origin are ignored: they come from `pack` and the input.
  MdsWriterOptions mds;
  WebDatasetWriterOptions webdataset;
};

// Writes the samples of the dataset at `input`, in their order, as a new dataset at `output`, or with
// pack.dataset.append, for Shardkit's own container, into the one that is there. The result does not
// depend on the number of threads. InvalidArgument, before anything is written, for columns that the container cannot
// store. InvalidArgument, naming the sample, for such values. Otherwise as Pack. Each thread holds one block of the
// input in memory, and there is one block more.
absl::StatusOr<PackReport> Convert(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ConvertOptions& options = {});

// The same without writing anything.
absl::StatusOr<PackReport> DryRunConvert(FileSystem& file_system, const std::string& input,
                                         const ConvertOptions& options = {});

// Converting to Shardkit's own container in tasks, as packing in tasks (see PlanPack), without a plan: every call has
// the same input and options, which are compared. The dataset is the one that Convert makes, byte for byte. The
// threads, the cancellation and the progress of `options.pack` are of the call; resume and keep_on_cancel are ignored.
//
// As PackTask. InvalidArgument for another container: where its shards end depends on all samples before.
// FailedPrecondition when tasks with another input or other options have begun in `output`, AlreadyExists when there is
// something else.
absl::StatusOr<PackTaskReport> ConvertTask(FileSystem& file_system, const std::string& input, const std::string& output,
                                           const ConvertOptions& options, uint64_t task, uint64_t tasks);

// As FinishPack. NotFound when no task has begun.
absl::StatusOr<PackReport> FinishConvert(FileSystem& file_system, const std::string& input, const std::string& output,
                                         const ConvertOptions& options);

}  // namespace shardkit
