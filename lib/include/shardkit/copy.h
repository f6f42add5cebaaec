// Making a new dataset from others: conversion, filtering, splitting, merging, resharding.
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

// Options of all copies. InputOptions apply to the input.
struct CopyOptions : InputOptions {
  // As for Pack, for the new dataset. Columns keep their codecs. shard_size counts the stored bytes of the input's
  // blocks. If only some columns are chosen and the container stores columns apart, their share in the first shard is
  // taken for all shards. If only some samples of a block are selected, their share of the block counts.
  PackOptions pack;

  // For Shardkit's own container: an input block is copied with its checksums, without decompression, if all its
  // samples go into one shard and its shard stores the columns as the new one does. Samples between two such blocks get
  // separate blocks. Blocks are not kept if `pack` asks for levels, dictionaries or storages. False encodes all blocks
  // again; this is the default if block_size or max_block_samples differ from the defaults of ShardOptions.
  std::optional<bool> keep_blocks;
};

struct ConvertOptions : CopyOptions {
  Container to = Container::kShard;

  // Columns to convert; empty means all.
  std::vector<std::string> columns;

  // The utf8 column that becomes the key; "" for none. By default the key column, or else a utf8 column named "key". A
  // WebDataset must have keys: without such a column its samples are numbered 000000000000, 000000000001, ….
  std::optional<std::string> key_column;

  // As DatasetOptions::generation, for the input.
  uint64_t generation = 0;

  // Converts values without an exact mapping by the table of format-spec/interop.md. Otherwise they are an error.
  bool lossy = false;

  // Options of the other containers, in place of `pack.dataset`. Of `pack.dataset` only threads, job, cancellation,
  // resume and sync apply to every container, and sha256 is InvalidArgument. These five are ignored here, and so is the
  // origin, which comes from the input. The shard_size here counts the bytes of the output.
  MdsWriterOptions mds;
  WebDatasetWriterOptions webdataset;
};

// Writes the samples of the dataset at `input`, in their order, to a new dataset at `output`. With pack.dataset.append,
// for Shardkit's own container, appends them to the existing dataset. The result does not depend on the number of
// threads. Memory: one block of the input per thread, and one more. Errors as Pack, and InvalidArgument for columns
// that the container cannot store (before anything is written) and for such values (naming the sample).
absl::StatusOr<PackReport> Convert(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ConvertOptions& options = {});

// As Convert, but writes nothing.
absl::StatusOr<PackReport> DryRunConvert(FileSystem& file_system, const std::string& input,
                                         const ConvertOptions& options = {});

// Converts to Shardkit's own container in tasks, like PlanPack but without a plan: every call has the same input and
// options, which are compared. The dataset equals the result of Convert, byte for byte. Threads, cancellation and
// progress of `options.pack` apply to this call only; resume and keep_on_cancel are ignored.
//
// Errors as PackTask, and:
// - InvalidArgument: another container, where the end of a shard depends on all samples before it.
// - FailedPrecondition: tasks with another input or other options have begun in `output`.
// - AlreadyExists: `output` has other files.
absl::StatusOr<PackTaskReport> ConvertTask(FileSystem& file_system, const std::string& input, const std::string& output,
                                           const ConvertOptions& options, uint64_t task, uint64_t tasks);

// As FinishPack. NotFound if no task has begun.
absl::StatusOr<PackReport> FinishConvert(FileSystem& file_system, const std::string& input, const std::string& output,
                                         const ConvertOptions& options);

// Filtering and splitting.

// Threads and cancellation of `pack` also apply to the selection; its progress counts selected samples. skip_errors
// must be false: a sample whose values cannot be read cannot be selected or rejected.
struct FilterOptions : CopyOptions {
  // Called as SelectionOptions::progress, before the samples are copied.
  std::function<void(uint64_t done, uint64_t total)> selecting;

  // The new dataset refers to the shards of the input, which must stay where they are (format-spec/dataset.md, section
  // 9.6). It lists the unselected samples of these shards: every open reader holds 8 bytes in memory for each. Shards
  // without a selected sample are left out. NotFound for other containers. Otherwise as MergeOptions::by_reference.
  bool by_reference = false;
};

struct FilterReport {
  SelectionReport selection;
  PackReport pack;
};

// Writes the selected samples of the dataset at `input`, in their order, to a new dataset at `output`. First selects,
// reading only the columns that this needs (CountSamples). Then reads the blocks that have selected samples. The result
// does not depend on the number of threads. Errors as CountSamples and Convert; FailedPrecondition if the input changed
// meanwhile.
absl::StatusOr<FilterReport> Filter(FileSystem& file_system, const std::string& input, const std::string& output,
                                    const SampleSelection& selection, const FilterOptions& options = {});

// A part of a split.
struct SplitPart {
  std::string name;  // of its directory; a file name
  double share = 0;  // as SampleSelection::share; the sum is at most 1
};

struct SplitReport {
  SelectionReport selection;
  std::vector<PackReport> parts;
};

// Divides the samples of the dataset at `input` into datasets at `output`/NAME, by the hash of their keys with `seed`
// (SampleSelection). Samples with the same key are in the same part, and stay there when samples are appended. Parts
// take ranges of hashes in their order, so a part added at the end does not change the others. Samples beyond the sum
// of the shares are in no part. A failure removes finished parts, except with keep_on_cancel. Errors as Filter, and
// InvalidArgument for impossible names and shares.
absl::StatusOr<SplitReport> Split(FileSystem& file_system, const std::string& input, const std::string& output,
                                  const std::vector<SplitPart>& parts, uint64_t seed,
                                  const FilterOptions& options = {});

// Merging.

// Cancellation and progress of `pack` apply to linking, too; progress counts samples. skip_errors and dataset.append
// must be false. All other members of CopyOptions apply with `copy` only.
struct MergeOptions : CopyOptions {
  // Accepts samples with the same key, and equal shards, from several inputs; FindKey finds the first sample. Otherwise
  // they are InvalidArgument, naming some of the keys and the number of samples. Duplicate keys within one input are
  // not checked.
  bool keep_repeated_keys = false;

  // Stores the samples in new shards, as Convert to Shardkit's own container does. The inputs may then be of any
  // container. A column may have different codecs in the inputs: the first input that has the column decides. Otherwise
  // the shards are linked, or copied where links do not work, and no value is read.
  bool copy = false;

  // The new dataset refers to the shards and column files of the inputs, which must stay where they are
  // (format-spec/dataset.md, section 9.6). Nothing is linked, copied or compared. With one input, the result is a
  // dataset whose columns and samples can be changed although the input is read-only. Readers must allow bases out of
  // their reach (AllowBases). InvalidArgument for a new dataset in a store with inputs on this machine, and with
  // `copy`.
  bool by_reference = false;
};

// Makes `output` a dataset of the samples of `inputs`, in that order. It has the columns of all inputs: a column that
// an input lacks has absent values there. It keeps the metadata that all inputs share.
//
// Linked shards keep the SHA-256 that their dataset lists. Index and keys are made from those of the inputs; shards are
// read for this only if these are missing or damaged. For MDS datasets below `output`, this writes an index.json in
// `output`; shards are compared only if their index has hashes, and keys are not compared.
//
// A failure leaves nothing behind, except with pack.keep_on_cancel. The result does not depend on the number of
// threads. InvalidArgument if the columns do not fit together, and for duplicates without keep_repeated_keys; DataLoss
// if a shard is not the one that its dataset lists.
absl::StatusOr<Manifest> MergeDatasets(FileSystem& file_system, const std::vector<std::string>& inputs,
                                       const std::string& output, const MergeOptions& options = {});

// Resharding and shuffling.

// skip_errors and dataset.append must be false. With `shuffle`, all blocks are encoded again, and shard_size counts the
// bytes of values.
struct ReshardOptions : CopyOptions {
  // Stores the samples in random order: ascending by the XXH3-64, with this seed, of their ordinals as 8 bytes,
  // little-endian.
  std::optional<uint64_t> shuffle;

  // Memory for shuffling, bytes, beside the blocks that are read and written. The result does not depend on it. If the
  // values take more, they are first spread over temporary files, one for each part of the order.
  uint64_t shuffle_memory = uint64_t{1} << 30;

  // The directory of these files. It must exist. Empty: `output`; InvalidArgument if that is a URL. The files take at
  // most the size of the values before compression, and shrink while the shards grow.
  std::string scratch;

  // Called with numbers of samples while values are spread, on the calling thread. pack.progress counts samples when
  // they are stored.
  std::function<void(uint64_t done, uint64_t total)> spreading;
};

// Writes all samples of the dataset at `input` to a new dataset at `output`. The result does not depend on the number
// of threads. A resumed run spreads the samples that are not stored yet again. Errors as Convert; also InvalidArgument
// for `scratch` without `shuffle` and for `keep_blocks` with it, and NotFound if `scratch` does not exist.
absl::StatusOr<PackReport> Reshard(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ReshardOptions& options = {});

}  // namespace shardkit
