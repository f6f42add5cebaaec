// The samples of datasets in random order, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/thread_pool.h"
#include "convert/record_sorter.h"
#include "convert/sources/dataset_source.h"
#include "shardkit/job.h"
#include "shardkit/source.h"

namespace shardkit::convert {

struct ShuffleOptions {
  uint64_t seed = 0;
  uint64_t memory = 0;                         // bytes
  std::string directory;                       // of the temporary files, which have the names of temporary shards
  const Cancellation* cancellation = nullptr;  // may be null
  std::function<void(uint64_t done, uint64_t total)> progress;  // of spreading; may be empty
};

// The order is that of the hashes of the samples' numbers: all samples are loaded once and sorted.
class ShuffledSource final : public Source {
 public:
  // `source`, of which nothing was listed yet, the file system, and the threads, which load, must outlive this one.
  // Samples of `source` do not fail: those that cannot be loaded are an error.
  ShuffledSource(FileSystem& file_system, DatasetSource& source, ThreadPool& threads, ShuffleOptions options);
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
  class SortedUnit;

  uint64_t HashOf(uint64_t ordinal) const;
  absl::Status Spread();
  absl::Status Take(const SampleBatch& batch, uint64_t first);
  absl::Status SkipStored();

  DatasetSource& source_;
  ThreadPool& threads_;
  const ShuffleOptions options_;
  RecordSorter sorter_;
  uint64_t skipped_ = 0;
  uint64_t least_hash_ = 0;  // of the samples that are sorted
  bool spread_ = false;
  std::vector<const Column*> columns_;                   // of all fields
  absl::flat_hash_map<const Column*, uint32_t> places_;  // in columns_
};

}  // namespace shardkit::convert
