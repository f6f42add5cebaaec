// From datasets to a new one: conversion, filtering and splitting, merging, resharding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/pack.h"
#include "shardkit/select.h"
#include "shardkit/shard.h"

namespace shardkit {

// Conversion between containers: Shardkit's own, MDS, WebDataset (format-spec/interop.md, "Conversion").

enum class Container { kShard, kMds, kWebDataset };

// "shard", "mds", "webdataset".
std::string_view ContainerName(Container container);

// The options of all copies. InputOptions are of the input.
struct CopyOptions : InputOptions {
  // As for Pack, of the new dataset. Its shard_size counts the stored bytes of the input's blocks (of the columns
  // chosen, where the container stores columns apart: their share in the first shard is taken for all; of a block with
  // some samples selected, their share). Columns keep their codecs.
  PackOptions pack;

  // To Shardkit's own container: a block of the input whose samples all come into one shard stays one, if its shard
  // stores the columns as the new one does: it is copied with its checksums, without being decompressed. The samples
  // between two such blocks have blocks of their own. Not where `pack` asks for levels, dictionaries or storages. False
  // makes all blocks anew; by default so does another block_size or max_block_samples than ShardOptions has at first.
  std::optional<bool> keep_blocks;
};

struct ConvertOptions : CopyOptions {
  Container to = Container::kShard;

  // Columns to convert; empty means all.
  std::vector<std::string> columns;

  // The utf8 column that becomes the key; "" for none. By default the key column, or else a utf8 column named "key". A
  // WebDataset must have keys: without such a column its samples are numbered 000000000000, 000000000001, ….
  std::optional<std::string> key_column;

  // As DatasetOptions, of the input.
  uint64_t generation = 0;

  // Values that have no exact mapping are converted by the table of format-spec/interop.md instead of being an error.
  bool lossy = false;

  // For the other containers, in the place of `pack.dataset`, of which only threads, job, cancellation and resume apply
  // to every container, and sha256 is InvalidArgument. Here these four are ignored, and so is the origin, which comes
  // from the input. Their shard_size counts the bytes of the output.
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

// Datasets of some of the samples of another.

// The threads and the cancellation of `pack` are also those of the selection; its progress counts selected samples.
// skip_errors must be false: a sample whose values cannot be read cannot be decided on.
struct FilterOptions : CopyOptions {
  // Called as SelectionOptions::progress, before the samples are copied.
  std::function<void(uint64_t done, uint64_t total)> selecting;

  // The new dataset refers to the shards of the input, which stay where they are and must stay (format-spec/dataset.md,
  // section 9.6), and lists the samples in them that are not its own: 8 bytes in memory for each, wherever it is
  // opened. Shards without a selected sample are left out. NotFound for other containers. Else as
  // MergeOptions::by_reference.
  bool by_reference = false;
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

// Many datasets made one.

// The cancellation and the progress of `pack` are for linking, too; progress counts samples. skip_errors and
// dataset.append must be false. All else that CopyOptions have is for `copy`.
struct MergeOptions : CopyOptions {
  // Takes samples of one key, and equal shards, from several inputs; by its key the first sample is found. Otherwise
  // they are InvalidArgument, naming some of the keys and saying how many samples there are. Keys that stand several
  // times in one input are no concern of merging.
  bool keep_repeated_keys = false;

  // Stores the samples in new shards, as Convert to Shardkit's own container does. The inputs may then be of any
  // container, and have columns of one name with other codecs: they get that of the first input which has the column.
  // Otherwise the shards are linked, or copied where links do not work, and no value is read.
  bool copy = false;

  // The new dataset refers to the shards and column files of the inputs, which stay where they are and must stay
  // (format-spec/dataset.md, section 9.6); nothing is linked, copied or compared. Of one input this makes a dataset
  // whose columns and samples can be changed where the input cannot be written to. Who opens it must allow bases out of
  // its reach (AllowBases). InvalidArgument for a new dataset in a store and inputs on this machine, and with `copy`.
  bool by_reference = false;
};

// Makes `output` a dataset of the samples of `inputs`, in that order. Its columns are those of all: a column that an
// input lacks has absent values there. Of the metadata those stay that all inputs have.
//
// Shards that are linked keep the SHA-256 that their dataset lists. Index and keys are made from those of the inputs,
// and from the shards only where these are missing or damaged. Of MDS datasets that lie below `output`, an index.json
// is written there; shards are compared only where their index has hashes, and keys not at all.
//
// InvalidArgument when the columns do not fit together, and without options.keep_repeated_keys; DataLoss when a shard
// is not the one that its dataset lists. A failure leaves nothing behind, except with pack.keep_on_cancel. The result
// does not depend on the number of threads.
absl::StatusOr<Manifest> MergeDatasets(FileSystem& file_system, const std::vector<std::string>& inputs,
                                       const std::string& output, const MergeOptions& options = {});

// The samples of a dataset in other shards, or in another order.

// skip_errors and dataset.append must be false. With `shuffle`, all blocks are made anew, and shard_size counts the
// bytes of values.
struct ReshardOptions : CopyOptions {
  // Stores the samples in random order: ascending by the XXH3-64, with this seed, of their ordinals as 8 bytes,
  // little-endian.
  std::optional<uint64_t> shuffle;

  // What shuffling may hold in memory, bytes, beside the blocks that are read and written. The result does not depend
  // on it. Values of more bytes are first spread over temporary files, each of which takes a part of the order.
  uint64_t shuffle_memory = uint64_t{1} << 30;

  // The directory of those files, which take no more than the values before compression, and shrink while the shards
  // grow. It must exist. Empty: `output`, unless that is a URL, which is InvalidArgument then.
  std::string scratch;

  // Called with numbers of samples while they are spread, on the calling thread; pack.progress counts them when they
  // are stored.
  std::function<void(uint64_t done, uint64_t total)> spreading;
};

// Writes all samples of the dataset at `input` as a new dataset at `output`. The result does not depend on the number
// of threads. A run that is resumed spreads the samples again that are not stored yet. Otherwise as Convert; also
// InvalidArgument for `scratch` without `shuffle` and for `keep_blocks` with it, NotFound where there is no `scratch`.
absl::StatusOr<PackReport> Reshard(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ReshardOptions& options = {});

}  // namespace shardkit
