// The datasets of a loader, opened with the columns it needs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/request_counter.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// A file system that counts requests and measures how long reads take.
//
// Passes all calls on to `base`, which must outlive it. Thread-safe if `base` is.
class TimedFileSystem final : public ForwardingReadableFileSystem {
 public:
  struct Figures {
    io::RequestCounter requests;              // reads, Stat, List, ReadFile, and opening files whose size is not known
    std::atomic<uint64_t> bridged_bytes = 0;  // ReadRequest::bridged_bytes
    std::atomic<int64_t> read_ticks = 0;
    std::atomic<int64_t> least_ticks = INT64_MAX;  // of a request

    std::mutex mutex;  // guards what follows
    std::set<const RandomAccessFile*> open;
    bool cancelled = false;
  };

  explicit TimedFileSystem(ReadableFileSystem& base) : ForwardingReads(base), figures_(std::make_shared<Figures>()) {}

  // Seconds in reads, summed over threads. Reads through memory maps and of cached pages are neither measured nor
  // counted.
  double read_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::duration(figures_->read_ticks.load())).count();
  }
  // Seconds of the quickest request so far: what each of them costs besides its bytes. 0 before the first.
  double least_seconds() const {
    const int64_t ticks = figures_->least_ticks;
    if (ticks == INT64_MAX) return 0;
    return std::chrono::duration<double>(std::chrono::steady_clock::duration(ticks)).count();
  }
  const io::RequestCounter& requests() const { return figures_->requests; }
  uint64_t bridged_bytes() const { return figures_->bridged_bytes; }

  // RandomAccessFile::CancelReads of all files that were opened through it, and of all that will be.
  void CancelReads();

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override;

 private:
  const std::shared_ptr<Figures> figures_;  // shared with the files
};

// The blocks of a dataset, which the plan numbers from 0, as its shards divide them. Takes memory for each shard, none
// for each block; none at all where the plan has the shards.
class BlockPlaces {
 public:
  // The next block of the dataset.
  void Add(const DatasetBlock& block);

  // Block `number` of `shape`, the dataset as the plan sees it, which is `block`.
  DatasetBlock At(const PlanDataset& shape, uint32_t number, const PlanBlock& block) const;

 private:
  struct Shard {
    uint32_t number = 0;
    uint32_t first_block = 0;  // the plan's number
    bool forward_only = false;
  };
  std::vector<Shard> shards_;  // those that have blocks
  uint32_t blocks_ = 0;
};

class TokenRows;

// The stored column that a column of the batch is made of.
inline const std::string& SourceOf(const LoaderColumn& column) {
  return column.source.empty() ? column.name : column.source;
}

// A dataset as the plan sees it, and what is told of its balance.
struct Shape {
  PlanDataset dataset;
  std::shared_ptr<const TokenRows> rows;  // where it is of rows of tokens
  std::string balance_note;
};

struct OpenDatasets {
  std::unique_ptr<TimedFileSystem> file_system;  // the readers read through it
  std::vector<std::shared_ptr<const DatasetReader>> readers;
  std::vector<BlockPlaces> places;  // of the blocks of each
  std::vector<PlanDataset> shapes;
  std::vector<std::shared_ptr<const TokenRows>> rows;  // of each; null where samples are the dataset's
  std::vector<std::string> balance_notes;              // of those datasets that are balanced
  std::vector<Column> columns;                         // read from all of them, in this order
  std::vector<std::vector<size_t>> missing;            // of each dataset: the columns that it lacks, ascending
  std::optional<size_t> key_column;                    // index in `columns`
  bool numbered = false;                               // no dataset has keys, and the samples' numbers are them

  std::string fallback_reason() const;
};

// The plan's view of a dataset: where it is the only one and has more than a section of blocks, its shards. Then the
// plan reads through `reader`. Adds the blocks, if there are some, to `places`, unless that is null.
// Chooses the samples, and packs those of the column `tokens` unless that is null; both may read columns through
// `file_system`.
absl::StatusOr<Shape> ReadShape(ReadableFileSystem& file_system, std::shared_ptr<const DatasetReader> reader,
                                const LoaderDataset& dataset, bool alone, const PlanOptions& options,
                                const ReadOptions& read, BlockPlaces* places, const LoaderColumn* tokens = nullptr,
                                BadSamples bad_samples = BadSamples::kFail);

// To scan a dataset with: more of a URL, where each read takes long.
int ScanThreads(const std::string& path);

// Reads the columns `wanted`; all but the key when it is empty. `tokens` is of LoaderOptions::columns, or null.
// OutOfRange for a column that is missing, InvalidArgument for one that differs between datasets.
absl::StatusOr<OpenDatasets> OpenAll(ReadableFileSystem& file_system, std::span<const LoaderDataset> datasets,
                                     std::span<const std::string> wanted, const LoaderOptions& options,
                                     const LoaderColumn* tokens);

}  // namespace shardkit::loader
