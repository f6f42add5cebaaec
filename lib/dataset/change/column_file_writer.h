// Writing columns that are added to a dataset (format-spec/dataset.md, section 9.4).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "container/write/block_builder.h"
#include "container/write/block_encoder.h"
#include "container/write/block_encoding.h"
#include "container/write/shard_file_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

// Adds a run to others, of which the last one may go on with it.
void AddRun(const ColumnRun& run, std::vector<ColumnRun>* runs);

// Adds what `runs` say of the stored samples from `first` to `end`, which have numbers less by `dropped` now.
void KeepRuns(const std::vector<ColumnRun>& runs, uint64_t first, uint64_t end, uint64_t dropped,
              std::vector<ColumnRun>* kept);

// One thread at a time. The files of a writer that is not finished stay: they are of a generation that is not
// published, whose files the next change removes.
class ColumnFileWriter {
 public:
  // Bytes of a file, behind which the next one begins.
  static constexpr uint64_t kFileBytes = uint64_t{256} << 20;

  // `directory` is that of the dataset, and `schema` has the stored names. `threads` compress; `cancellation` may be
  // null.
  ColumnFileWriter(FileSystem& file_system, std::string directory, uint64_t generation, const Schema& schema,
                   int threads, const Cancellation* cancellation, uint64_t file_bytes = kFileBytes);

  // The values of the next stored sample, in the order of the schema. InvalidArgument when they do not fit it.
  absl::Status Append(std::span<const std::optional<Value>> row);

  // Call behind the samples of each block of the shards, which begins with stored sample `first`.
  absl::Status EndBlock(uint64_t first);

  // Before the first sample: the manifest lists the SHA-256 of the files, as it does of shards.
  void HashFiles() { hashes_ = true; }

  // Before the first sample: the number that the first file has in its name, among the files of the generation.
  void CountFrom(size_t number) { first_number_ = number; }

  // The files that were written.
  absl::StatusOr<std::vector<ColumnFile>> Finish();

 private:
  absl::Status WriteOne();
  absl::Status FinishFile();

  FileSystem& file_system_;
  const std::string directory_;
  const uint64_t generation_;
  const Schema schema_;
  const Cancellation* const cancellation_;
  const uint64_t file_bytes_;
  container::BlockBuilder builder_;
  std::shared_ptr<const container::BlockEncoding> plan_;  // null before the first block
  std::unique_ptr<container::ShardFileWriter> file_;
  std::vector<ColumnFile> files_;
  size_t first_number_ = 0;
  bool hashes_ = false;
  ThreadPool threads_;
  OrderedTasks<absl::StatusOr<container::EncodedBlock>, uint64_t> encoding_;  // with the first stored sample
};

}  // namespace shardkit::dataset
