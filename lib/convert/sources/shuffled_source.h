// The samples of datasets in random order, in bounded memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "convert/sources/dataset_source.h"
#include "shardkit/cancellation.h"
#include "shardkit/source.h"

namespace shardkit::convert {

struct ShuffleOptions {
  uint64_t seed = 0;
  uint64_t memory = 0;    // bytes
  std::string directory;  // of the temporary files, which have the names of temporary shards
  int threads = 1;
  const Cancellation* cancellation = nullptr;                   // may be null
  std::function<void(uint64_t done, uint64_t total)> progress;  // of spreading; may be empty
};

// The order is that of the hashes of the samples' numbers. Each bucket holds the samples of a range of hashes: all are
// loaded once and spread over the buckets, which stay in memory or go to a file each. Then one bucket after the other
// is read and sorted, in several parts if it is too large.
class ShuffledSource final : public Source {
 public:
  // `source`, of which nothing was listed yet, and the file system must outlive this one. Samples of `source` do not
  // fail: those that cannot be loaded are an error.
  ShuffledSource(FileSystem& file_system, DatasetSource& source, ShuffleOptions options);
  // Removes the temporary files.
  ~ShuffledSource() override;

  std::string_view name() const override { return source_.name(); }
  absl::StatusOr<std::vector<Column>> InitialColumns() override { return source_.InitialColumns(); }
  bool keys_ascend() const override { return false; }
  bool keys_are_unique() const override { return false; }
  bool has_own_units() const override { return true; }
  std::map<std::string, std::string> metadata() const override { return source_.metadata(); }
  absl::StatusOr<uint64_t> Count() override { return source_.Count(); }
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<uint64_t> Skip(uint64_t count) override;

 private:
  struct Row {
    uint64_t hash = 0;
    uint64_t ordinal = 0;
    std::string_view bytes;
  };
  // Samples of a range of hashes, in their order.
  struct Run {
    ByteArena memory;
    std::vector<Row> rows;
  };
  struct Bucket {
    uint64_t end = 0;    // samples of this bucket and those before it
    uint64_t bytes = 0;  // of its rows
    std::string rows;    // those that are in no file
    std::string path;    // of the file with the others; empty: there is none
  };
  class RunUnit;

  uint64_t HashOf(uint64_t ordinal) const;
  absl::Status Prepare();
  absl::Status Spread();
  absl::Status Take(const SampleBatch& batch, uint64_t first);
  absl::Status Flush();
  absl::Status ReadRun();
  absl::Status TakeRows(std::string_view rows, uint64_t part, uint64_t parts, Run* run) const;

  FileSystem& file_system_;
  DatasetSource& source_;
  const ShuffleOptions options_;
  uint64_t total_ = 0;
  uint64_t position_ = 0;  // of the sample that is listed next
  bool spread_ = false;
  std::vector<Bucket> buckets_;
  uint64_t buffered_ = 0;                                // bytes in Bucket::rows
  std::vector<const Column*> columns_;                   // of all fields
  absl::flat_hash_map<const Column*, uint32_t> places_;  // in columns_
  size_t bucket_ = 0;                                    // that the next run is of
  uint64_t part_ = 0;                                    // of that bucket
  std::shared_ptr<const Run> run_;
  size_t row_ = 0;  // of run_, to list next
};

}  // namespace shardkit::convert
