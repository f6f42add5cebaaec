// What a dataset says of its shards, shard by shard: from the manifest, or from the lists that it names (format-spec/
// dataset.md, section 9.2).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/read/paged_table_reader.h"
#include "dataset/manifest_text.h"
#include "dataset/write/segment_tables.h"
#include "format/shard_list.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// A shard and its place in the dataset.
struct PlacedShard {
  size_t number = 0;
  uint64_t first_sample = 0;
  ManifestShard shard;
};

// Thread-safe. Reads a page of a list when a shard of it is first asked for, checks it, and keeps the last ones: at
// most 64 of 256 shards each. Errors name the file: DataLoss of a page when it is asked for.
class ShardListReader {
 public:
  // The shards of the manifest, which are taken out of it; where only the segments list them, their lists, which are
  // taken out of *segments. An error of a segment then, and DataLoss when a list does not fit.
  static absl::StatusOr<std::unique_ptr<ShardListReader>> Open(const std::string& directory, Manifest* manifest,
                                                               std::vector<absl::StatusOr<SegmentTables>>* segments);
  // Of a list alone, in a segment of this many shards, samples and blocks.
  static absl::StatusOr<std::unique_ptr<ShardListReader>> Of(std::unique_ptr<container::PagedTable> list,
                                                             const Segment& segment);

  // Of shards that are known.
  explicit ShardListReader(std::vector<ManifestShard> shards);

  uint64_t shard_count() const { return shard_count_; }
  uint64_t sample_count() const { return sample_count_; }

  // `number` is below shard_count().
  absl::StatusOr<PlacedShard> Get(size_t number) const;

  // The number of the shard that holds `sample`, which is below sample_count(), and its first sample.
  struct Place {
    size_t number = 0;
    uint64_t first_sample = 0;
  };
  absl::StatusOr<Place> Locate(uint64_t sample) const;

  // Starts to read what Locate and Get need for these samples, where it is not in memory; FinishReading waits for it.
  using Readings = std::vector<std::unique_ptr<container::PagedTable::Reading>>;  // one for each list
  absl::StatusOr<Readings> StartReading(std::span<const uint64_t> samples) const;
  absl::Status FinishReading(Readings readings) const;

  // Calls `take` for each shard in order, each list read in few requests. Stops at the first error of `take`. Checks
  // all that can be checked without the shards themselves, but not that no two files have one name.
  absl::Status ForEach(const std::function<absl::Status(const ManifestShard&)>& take) const;

  // All shards in order. Checks that, too.
  absl::StatusOr<std::vector<ManifestShard>> ReadAll() const;

 private:
  // Shards that follow one another.
  struct Page {
    size_t first_shard = 0;
    std::vector<ManifestShard> shards;
    std::vector<uint64_t> first_samples;  // in the dataset; behind the last shard, its end

    bool HoldsSample(uint64_t sample) const { return sample >= first_samples.front() && sample < first_samples.back(); }
  };
  struct Part {
    std::string path;
    std::unique_ptr<container::PagedTable> table;
    format::ShardListTotals totals;
    size_t first_shard = 0;
    uint64_t first_sample = 0;
  };

  ShardListReader() = default;
  absl::Status AddPart(std::unique_ptr<container::PagedTable> list, const Segment& segment);
  absl::Status Advise(const absl::Status& status) const;
  absl::StatusOr<Page> Decode(const Part& part, const container::TablePage& bytes) const;
  std::shared_ptr<const Page> FindKept(const std::function<bool(const Page&)>& wanted) const;
  absl::StatusOr<std::shared_ptr<const Page>> Load(const Part& part, uint64_t number) const;
  absl::StatusOr<std::shared_ptr<const Page>> PageOfShard(size_t number) const;
  absl::StatusOr<std::shared_ptr<const Page>> PageOfSample(uint64_t sample) const;
  const Part& PartOfSample(uint64_t sample) const;

  std::string directory_;
  uint64_t shard_count_ = 0;
  uint64_t sample_count_ = 0;
  std::shared_ptr<const Page> all_;  // null where there are lists
  ManifestSummary summary_;          // of a dataset that has lists
  std::vector<Part> parts_;          // the list of each segment
  mutable std::mutex mutex_;
  mutable std::deque<std::shared_ptr<const Page>> kept_;  // the one used last is the first
};

}  // namespace shardkit::dataset
