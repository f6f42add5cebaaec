// Packing sources into datasets, and unpacking datasets to files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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
  uint64_t total_samples = 0;  // 0 while unknown
};

struct PackOptions {
  // Threads, job, cancellation and resume of this apply to the whole job. Its shard_size counts bytes of the input (see
  // Source), so that the ends of shards are known without packing the samples before: a shard ends with the sample that
  // reaches it, or with 1,048,576 samples. shard_samples counts skipped samples, too. Each tar gets separate shards.
  // With resume, FailedPrecondition, naming a sample if possible, if names or sizes of packed samples have changed in
  // the input; for a finished dataset, if any name or size differs.
  DatasetWriterOptions dataset;

  // Samples that cannot be loaded: true reports and skips them, false fails the job.
  bool skip_errors = false;

  // On cancellation or failure, keeps finished shards for a run with dataset.resume, instead of removing everything.
  bool keep_on_cancel = false;

  // The most samples to list, to try a source: what follows is not looked at. InvalidArgument with dataset.resume and
  // for PlanPack.
  uint64_t limit = UINT64_MAX;

  // Called from time to time on the calling thread. An exception ends the packing like an error: Pack returns Internal
  // with its text.
  std::function<void(const PackProgress&)> progress;

  // Called on the calling thread with Source::notes, before samples are packed. Empty: the notes are the first warnings
  // of the report or plan.
  std::function<void(const std::string&)> note;
};

struct PackReport {
  Manifest manifest;     // a dry run has only the columns known in advance
  uint64_t samples = 0;  // stored (dry run: loaded) by this call, not by the resumed run
  uint64_t input_bytes = 0;
  std::vector<SkippedSample> skipped;
  std::vector<std::string> warnings;  // see Source::warnings
  uint64_t existing = 0;              // skipped by ExistingKeys::kSkip
};

// Packs a source into a new dataset at `directory`; with dataset.append, appends it to the existing dataset, as
// DatasetWriter does. A failure leaves nothing behind, except with keep_on_cancel, and leaves an existing dataset
// unchanged. OutOfRange if an option names a column that does not exist.
absl::StatusOr<PackReport> Pack(FileSystem& file_system, Source& source, const std::string& directory,
                                const PackOptions& options = {});

// As Pack, but writes nothing: counts samples and bytes, and finds the samples that would be skipped.
absl::StatusOr<PackReport> DryRunPack(Source& source, const PackOptions& options = {});

// Packing in tasks, in any number of processes and machines that see the input and the dataset's directory by the same
// paths. One of them plans; the tasks may then run in any order, at the same time, again, and twice at once; when all
// have ended, one of them finishes. The dataset is the one that Pack makes, byte for byte, whatever the number of
// tasks.
//
// The plan divides the input into units, each with shards of its own: the files of a shard, a whole tar, or blocks of a
// dataset. A task is a run of units.

struct PackPlan {
  uint64_t units = 0;
  uint64_t input_bytes = 0;           // of files and tars, and of datasets the stored bytes of blocks
  std::optional<uint64_t> samples;    // empty when there are tars or tables, which nobody has looked into
  std::vector<std::string> warnings;  // see Source::warnings; none of ReadPackPlan
};

// Lists the inputs, which are those of OpenSource, and writes the plan into `directory`, which must be empty or
// missing. Holds the samples of one unit in memory, beside what the source needs to list. Of the options, progress
// counts what was listed, and resume and keep_on_cancel are ignored. A failure leaves nothing behind. AlreadyExists
// when there is a plan or a dataset; InvalidArgument when a path is not UTF-8, and with dataset.append: tasks make new
// datasets.
absl::StatusOr<PackPlan> PlanPack(FileSystem& file_system, std::string_view kind,
                                  const std::vector<std::string>& inputs, const SourceOptions& source_options,
                                  const std::string& directory, const PackOptions& options = {});

// The plan in `directory`. NotFound when there is none.
absl::StatusOr<PackPlan> ReadPackPlan(FileSystem& file_system, const std::string& directory);

struct PackTaskOptions {
  uint64_t task = 0;   // from 0
  uint64_t tasks = 1;  // any number: the units are the same
  int threads = 1;
  const Cancellation* cancellation = nullptr;         // may be null
  std::function<void(const PackProgress&)> progress;  // as PackOptions::progress
};

struct PackTaskReport {
  uint64_t units = 0;         // of the task
  uint64_t units_before = 0;  // of these, packed before, by another run of the task
  uint64_t samples = 0;       // stored by this run
  uint64_t input_bytes = 0;
  std::vector<SkippedSample> skipped;  // by this run; positions count from the first sample of their unit
  std::vector<std::string> warnings;   // see Source::warnings
};

// Packs the units of a task that are not there yet. A run that fails or is killed loses the unit that it is at, and
// leaves at most files that FinishPack removes. NotFound when there is no plan; nothing is done when the dataset is
// finished.
absl::StatusOr<PackTaskReport> PackTask(FileSystem& file_system, const std::string& directory,
                                        const PackTaskOptions& options = {});

// Publishes the dataset of all units and removes the plan. Reads indexes and keys of the shards, not their values, in
// memory for 16 MiB of keys and the list of shards, on `threads` threads. FailedPrecondition, naming them, when units
// are missing: run their tasks again. InvalidArgument when two samples have one key, unless errors are skipped. Unless
// it succeeds, the plan and what tasks have packed stays. The report counts all samples. Does nothing to a dataset that
// is finished already.
absl::StatusOr<PackReport> FinishPack(FileSystem& file_system, const std::string& directory, int threads = 1,
                                      const Cancellation* cancellation = nullptr);

struct UnpackOptions : JobOptions {
  uint64_t first_sample = 0;
  uint64_t end_sample = UINT64_MAX;

  // Samples that cannot be read, with names that cannot be file names, or with files that an earlier sample has: true
  // reports and skips them, false fails the job. If names repeat, files are written on one thread.
  bool skip_errors = false;

  // Writes the files of each shard into a folder named by its place in the dataset, with eight digits.
  bool by_shard = false;
};

struct UnpackReport {
  uint64_t samples = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<SkippedSample> skipped;  // ascending; a position is the sample's ordinal in the dataset
  std::vector<std::string> warnings;   // what files lack because the dataset has it no longer, one line each
};

// Writes the files that a dataset was packed from, byte for byte, below `directory`, which must be empty or missing.
// For datasets of other origin: KEY.COLUMN for byte strings, KEY.COLUMN.npy for arrays, KEY.COLUMN.json for all other
// types. Refuses names that would lead out of the directory. Does not overwrite existing files.
absl::StatusOr<UnpackReport> Unpack(FileSystem& file_system, const DatasetReader& dataset, const std::string& directory,
                                    const UnpackOptions& options = {});

}  // namespace shardkit
