// Reading the columns of a dataset that lie in column files (format-spec/dataset.md, section 9.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/sample.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {

// The column files of a dataset, each opened when it is first needed. Columns are positions in the dataset's schema,
// and samples stored samples. Thread-safe.
class ColumnFiles {
 public:
  // `summary` is that of the dataset in `directory`, of whose columns `columns` are read. It and the file system must
  // outlive this.
  ColumnFiles(ReadableFileSystem& file_system, std::string directory, const ManifestSummary& summary,
              std::vector<size_t> columns, const ReadOptions& options);

  // Whether files have values of the column for some samples.
  bool Has(size_t column) const { return !runs_[column].empty(); }

  // Where a value lies.
  struct Place {
    size_t file = 0;
    size_t column = 0;    // in the schema of the file
    uint64_t sample = 0;  // in the file
  };
  // Empty where no file has the value.
  std::optional<Place> Find(uint64_t sample, size_t column) const;

  // Whether files have values of the column for all of these samples.
  bool HaveAll(size_t column, uint64_t first, uint64_t count) const;

  // The shard that the file is. NotFound when it is missing, DataLoss when it is not the one that the manifest lists.
  absl::StatusOr<std::shared_ptr<const ShardReader>> Open(size_t file) const;

  // Whether the file has a block for each block of the shards within its runs. `blocks` are all of the shards, with
  // stored samples.
  absl::Status CheckRuns(size_t file, std::span<const DatasetBlock> blocks) const;

  // As ShardReader::ReadValue, CopyValue and OpenValue, of stored sample `sample`.
  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, const Place& place,
                                                            BlockBuffer* buffer) const;
  absl::StatusOr<bool> CopyValue(const Place& place, const ByteSink& sink) const;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(const Place& place) const;

  // Puts the values of the files into *view, a block of the dataset with the columns that are read, whose first sample
  // is `first`. *buffer keeps them. With `damage`, what cannot be read is added there.
  absl::Status Complete(uint64_t first, BlockBuffer* buffer, BlockView* view, BlockDamage* damage) const;

  // Adds the statistics of the files to *merged, which are those of the columns that are read.
  absl::Status MergeStatistics(std::vector<ColumnStatistics>* merged) const;

 private:
  struct Run {
    uint64_t sample = 0;
    uint64_t end = 0;
    size_t file = 0;
    size_t column = 0;  // in the schema of the file
    uint64_t begin = 0;
  };
  // The last run that begins at or before the sample; null when there is none.
  const Run* Before(uint64_t sample, size_t column) const;
  // The run that has all of these samples; null when none has any. DataLoss when one has a part of them.
  absl::StatusOr<const Run*> RunOfBlock(uint64_t first, uint64_t end, size_t column) const;
  // Opens the files with values of the sample, those that are not open at once.
  void OpenAll(uint64_t sample) const;
  static absl::Status Describe(const absl::Status& status, size_t file);
  struct Wanted;
  absl::Status ReadBlock(uint64_t first, uint32_t samples, Wanted& wanted, BlockBuffer* buffer, BlockView* view,
                         BlockDamage* damage) const;

  ReadableFileSystem& file_system_;
  const std::string directory_;
  const ManifestSummary& summary_;
  const std::vector<size_t> columns_;
  const ReadOptions options_;
  std::vector<std::vector<Run>> runs_;  // of each column, ascending
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<const ShardReader> reader;  // null until it is open
  };
  mutable std::vector<Slot> slots_;  // of the files
};

}  // namespace shardkit::dataset
