// Writing a dataset: shards of bounded size, the offset index, and last the manifest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/manifest.h"
#include "shardkit/sample.h"
#include "shardkit/shard_writer.h"

namespace shardkit {

struct DatasetWriterOptions {
  ShardOptions shard;

  // A shard is closed before the block that would bring its stored blocks past this many bytes.
  uint64_t shard_size = uint64_t{256} << 20;

  // Exactly this many samples per shard (the last may have fewer); 0 for no such limit. With this, or with
  // dictionaries, shard_size counts bytes before compression.
  uint64_t shard_samples = 0;

  // Threads that checksum and compress. The output does not depend on it.
  int threads = 1;

  // Codec of columns by name, where another than the column's own is wanted.
  std::map<std::string, Codec> codecs;

  // Go on with an interrupted run in the same directory. FailedPrecondition when it was started with other options or
  // another `job`, and likewise when it has completed the dataset; so, too, when that does not say how it was made, as
  // after merging.
  bool resume = false;

  // Describes the input, the same for all its parts. It is compared when a run is resumed and when parts are merged.
  std::string job;

  // The samples are part `partition` (from 0) of `partition_count` runs of consecutive samples of the input. Recorded
  // beside the dataset, for MergeDatasets.
  uint64_t partition = 0;
  uint64_t partition_count = 1;

  // Borrowed: outlives the writer. Cancelled from any thread it makes Append and Finish return Cancelled.
  const Cancellation* cancellation = nullptr;
};

// A sample that was passed over, remembered across an interruption.
struct SkippedSample {
  uint64_t position = 0;
  std::string key;
  std::string reason;
};

struct DatasetSummary {
  Manifest manifest;
  std::vector<SkippedSample> skipped;
};

// One thread at a time. Dropping the writer without Finish aborts, unless Suspend was called. The file system outlives
// the writer; schema and options are copied, but for the cancellation that they point to.
class DatasetWriter {
 public:
  virtual ~DatasetWriter() = default;

  // Creates `directory` when it is missing and locks it. AlreadyExists when it holds a complete dataset; Unavailable
  // when another writer is at work there; FailedPrecondition when it holds foreign files. Leftovers of an interrupted
  // run are removed (or taken up, with options.resume).
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(FileSystem& file_system, const std::string& directory,
                                                               const Schema& schema,
                                                               const DatasetWriterOptions& options = {});

  // Where to go on: the `next_position` of the last sample that is safely stored; 0 in a fresh run. UINT64_MAX when an
  // earlier run has completed the dataset: only Finish is left, which changes nothing and returns what there is.
  virtual uint64_t resume_position() const = 0;

  // Paths of the shards that an interrupted run has finished, in order: they hold the samples in front of
  // resume_position(). Empty in a fresh run.
  virtual std::vector<std::string> finished_shards() const = 0;

  // The schema so far: the one given to Create, or, resumed, that of the interrupted run, widened as samples came. The
  // reference is good until the next call.
  virtual const Schema& schema() const = 0;

  // Copies the sample. `next_position` is given back by resume_position(); where it is left out it is one more than
  // that of the sample before, or than resume_position(), so that it counts samples where none is passed over. A field
  // whose column is new, or does not fit the type of the column of that name, widens the schema and starts a new shard.
  // InvalidArgument for a sample that breaks the rules (nothing was written: the caller may go on without it);
  // FailedPrecondition for a dataset that is complete; after any other error only Abort may be called.
  virtual absl::Status Append(const Sample& sample, std::optional<uint64_t> next_position = std::nullopt) = 0;

  // The same with one value per column of schema(), in its order, the key among them; absent ones empty.
  virtual absl::Status Append(std::span<const std::optional<Value>> row,
                              std::optional<uint64_t> next_position = std::nullopt) = 0;

  // Remembers a sample that was passed over.
  virtual void RecordSkip(SkippedSample skipped) = 0;

  virtual absl::StatusOr<DatasetSummary> Finish() = 0;

  // Removes everything this run (and the run it resumed) has written. Idempotent.
  virtual absl::Status Abort() = 0;

  // Stops but keeps the finished shards, for a later run with options.resume.
  virtual absl::Status Suspend() = 0;

  // Bytes handed to the file system so far.
  virtual uint64_t stored_bytes() const = 0;
};

// Rebuilds dataset.idx and dataset.json of a directory from its shards, in the order of the manifest if there is a
// readable one, else of the shards' names. DataLoss when a shard is damaged.
absl::StatusOr<Manifest> RebuildIndex(FileSystem& file_system, const std::string& directory);

// Makes `output` a dataset of the samples of `parts`, in that order. Shards are linked, or copied where links do not
// work. InvalidArgument when the parts' schemas do not fit together; when shards of two parts have the same content
// hash; and when parts were written with a partition_count, as is recorded beside them, unless all partitions of their
// job are given, each once and in their order (among other datasets, too). Of MDS only shards whose index has hashes
// can be compared.
absl::StatusOr<Manifest> MergeDatasets(FileSystem& file_system, const std::vector<std::string>& parts,
                                       const std::string& output, const Cancellation* cancellation = nullptr);

}  // namespace shardkit
