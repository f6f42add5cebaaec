// The reader of datasets of every container.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/foreign/foreign_dataset.h"
#include "dataset/read/column_files.h"
#include "dataset/read/index_reader.h"
#include "dataset/read/removed_samples.h"
#include "dataset/read/shard_cache.h"
#include "dataset/read/shard_list_reader.h"
#include "dataset/write/segment_tables.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {

// Stored samples are those of the shards, in their order. The samples that readers see are the others than the removed
// ones, and count by themselves.
class AnyDatasetReader final : public DatasetReader {
 public:
  // `with_removed`: as if no sample had been removed.
  absl::Status Open(ReadableFileSystem& file_system, const std::string& path, const DatasetOptions& options,
                    bool with_removed);

  const std::string& path() const override { return path_; }
  std::string_view container() const override { return foreign_ ? foreign_->container() : "shard"; }
  const ManifestSummary& summary() const override { return summary_; }
  const std::vector<Column>& columns() const override { return columns_; }
  std::string index_problem() const override { return index_problem_; }
  std::string fallback_reason() const override { return shards_->fallback_reason(); }
  std::vector<std::string> notes() const override { return foreign_ ? foreign_->notes() : std::vector<std::string>(); }
  std::span<const LostSample> lost_samples() const override {
    return foreign_ ? foreign_->lost_samples() : std::span<const LostSample>();
  }

  absl::StatusOr<Location> Locate(uint64_t sample) const override;
  absl::StatusOr<ManifestShard> Shard(size_t shard) const override;
  absl::Status ForEachShard(const std::function<absl::Status(const ManifestShard&)>& take) const override;
  absl::StatusOr<Manifest> ReadManifest() const override;
  absl::StatusOr<std::shared_ptr<const ShardReader>> OpenShard(size_t shard) const override;
  absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const override;

  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, size_t column,
                                                            BlockBuffer* buffer) const override;
  absl::Status ReadValues(std::span<const uint64_t> samples, size_t column, BlockBuffer* buffer,
                          std::span<std::string_view> values) const override;
  absl::StatusOr<bool> CopyValue(uint64_t sample, size_t column, const ByteSink& sink) const override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(uint64_t sample, size_t column) const override;
  absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const override;

  absl::Status ForEachBlock(const std::function<absl::Status(const DatasetBlock&)>& take) const override;
  absl::Status ForEachBlockOf(std::span<const SampleRange> shards,
                              const std::function<absl::Status(const DatasetBlock&)>& take) const override;
  absl::Status ReadBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view) const override {
    return Read(shard, block, buffer, view, nullptr);
  }
  absl::Status SalvageBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                            BlockDamage* damage) const override {
    return Read(shard, block, buffer, view, damage);
  }
  absl::StatusOr<std::unique_ptr<BlockScanner>> Scan(const ScanOptions& options) const override;

 private:
  struct RecordPlace {
    // Elsewhere: the shard has no blob column of that name, and says what it has.
    enum Kind : uint8_t { kAbsent, kRecord, kElsewhere } kind = kAbsent;
    size_t shard = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  using TakeBlock = std::function<absl::Status(const DatasetBlock&)>;

  void OpenIndex(std::vector<absl::StatusOr<SegmentTables>>* segments);

  absl::Status CheckShard(size_t shard) const;
  absl::Status CheckColumn(size_t column) const;
  absl::Status CheckSample(uint64_t sample) const;
  uint64_t stored_samples() const { return list_->sample_count(); }
  // REQUIRES: it is a stored sample.
  absl::StatusOr<Location> LocateStored(uint64_t stored) const;

  // Blocks of stored samples.
  absl::Status ForEachStoredBlock(const TakeBlock& take) const;
  absl::Status TakeBlocks(size_t shard, const TakeBlock& take) const;
  // The block without what was removed.
  absl::Status TakeSeen(const DatasetBlock& stored, const TakeBlock& take) const;

  absl::Status Read(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view, BlockDamage* damage) const;
  // Makes of a block of a shard, whose first stored sample is *first_sample, what readers see of it.
  absl::Status Complete(uint64_t* first_sample, BlockBuffer* buffer, BlockView* view, BlockDamage* damage) const;
  void LeaveOutRemoved(uint64_t first, std::span<const uint64_t> removed, BlockBuffer* buffer, BlockView* view,
                       BlockDamage* damage) const;

  absl::StatusOr<std::optional<std::string_view>> FindValue(uint64_t sample, size_t column, BlockBuffer* buffer) const;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> FindValueFile(uint64_t sample, size_t column) const;
  absl::StatusOr<RecordPlace> FindRecord(uint64_t stored, size_t column) const;
  // As ReadValues, of stored samples that the shards have the values of.
  absl::Status ReadRecords(std::span<const uint64_t> stored, size_t column, BlockBuffer* buffer,
                           std::span<std::string_view> values) const;
  absl::Status CopyFromPages(const CachedShard& open, std::span<const uint64_t> stored, std::span<const size_t> order,
                             size_t column, BlockBuffer* buffer, std::span<std::string_view> values) const;
  absl::Status DescribeSample(const absl::Status& status, uint64_t sample, size_t column) const;
  ErrorPlace PlaceOfValue(uint64_t sample, size_t column) const;

  absl::StatusOr<bool> HasKey(uint64_t stored, std::string_view key, BlockBuffer* buffer) const;
  absl::StatusOr<std::optional<uint64_t>> FindStoredKey(std::string_view key, BlockBuffer* buffer) const;
  absl::StatusOr<std::optional<uint64_t>> FindKeyInShards(size_t begin, size_t end, std::string_view key,
                                                          BlockBuffer* buffer) const;

  std::string path_;
  std::unique_ptr<ForeignDataset> foreign_;  // of another container
  ManifestSummary summary_;                  // its samples are those that readers see
  Schema stored_schema_;                     // with the stored names, in the order of summary_.schema
  std::unique_ptr<ShardListReader> list_;
  RemovedList removed_;
  std::vector<Column> columns_;
  std::vector<size_t> schema_positions_;  // for each column, its position in summary_.schema
  std::unique_ptr<ColumnFiles> files_;
  bool as_stored_ = false;  // blocks of the shards are what readers see
  std::unique_ptr<IndexReader> index_;
  std::string index_problem_;
  std::vector<std::shared_ptr<const container::KeyTable>> keys_;  // of the segments; null where one has none
  std::unique_ptr<ShardCache> shards_;
  const std::shared_ptr<BufferPool> reserve_ = std::make_shared<BufferPool>();
};

// Like DatasetReader::Open, as if no sample had been removed: ordinals count the stored samples.
absl::StatusOr<std::unique_ptr<DatasetReader>> OpenWithRemoved(ReadableFileSystem& file_system, const std::string& path,
                                                               const DatasetOptions& options = {});

}  // namespace shardkit::dataset
