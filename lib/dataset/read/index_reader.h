// Reads the offset indexes of a dataset's segments (format-spec/dataset.md, section 9.2), page by page.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/read/paged_table_reader.h"
#include "dataset/write/segment_tables.h"
#include "format/index_layout.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// What the index says about a block. Valid while the IndexReader lives.
struct IndexedBlock {
  format::IndexBlock entry;  // first_sample counts in the dataset; entry.shard in the segment
  size_t shard = 0;          // in the dataset
  size_t segment = 0;
  container::TablePage page;
};

// Thread-safe. Each page is checked when it is read. DataLoss, naming the file, on damage, and when the file is cut
// while it is open. The files stay open, so another index may be published meanwhile.
class IndexReader {
 public:
  // Takes the indexes out of *segments, of a dataset with these columns, by their stored names. DataLoss, too, when one
  // does not fit its segment. `schema` must outlive the reader.
  static absl::StatusOr<std::unique_ptr<IndexReader>> Open(std::vector<absl::StatusOr<SegmentTables>>* opened,
                                                           const Schema& schema, std::span<const Segment> segments);
  // Opens the segments for it.
  static absl::StatusOr<std::unique_ptr<IndexReader>> Open(ReadableFileSystem& file_system,
                                                           const std::string& directory, const Schema& schema,
                                                           std::span<const Segment> segments);

  // Reads the pages for these samples at once, so that BlockOfSample need not wait for each of them.
  absl::Status Prefetch(std::span<const uint64_t> samples) const;

  // The block that holds `sample`, which must be below the dataset's number of samples.
  absl::StatusOr<IndexedBlock> BlockOfSample(uint64_t sample) const;

  // Calls `take` for every block in order. Stops at the first error and returns it.
  absl::Status ForEachBlock(const std::function<absl::Status(const IndexedBlock&)>& take) const;

  // The same for blocks of whole shards, given by their samples and ascending: reads the pages that have them, many at
  // once.
  absl::Status ForEachBlockOf(std::span<const SampleRange> shards,
                              const std::function<absl::Status(const IndexedBlock&)>& take) const;

  const std::string& path(const IndexedBlock& block) const { return parts_[block.segment].path; }

  // The names of the blob columns of the block's shard, in the order of its schema.
  std::vector<std::string> BlobColumns(const IndexedBlock& block) const;

  // The position of a column among the blob columns of the block's shard; empty when it is none of them. `column` is a
  // position in the dataset's schema.
  std::optional<uint32_t> FindColumn(const IndexedBlock& block, size_t column) const;

  // The record of sample `local` of a block in the blob column at `position`: bytes [first, second) of the shard's
  // file. first equals second when the value is absent.
  absl::StatusOr<std::pair<uint64_t, uint64_t>> Record(const IndexedBlock& block, uint32_t local,
                                                       uint32_t position) const;

  // The places of the block's records, as in ShardIndexPart.
  absl::StatusOr<std::vector<uint64_t>> Places(const IndexedBlock& block) const;

  // DataLoss unless these are the shards that the indexes were made of, in this order. Reads nothing.
  absl::Status CheckShards(std::span<const ManifestShard> shards) const;

  // Reads the indexes whole, and checks that each is what a writer would make for shards with these counts and hashes.
  absl::Status CheckAll(std::span<const ManifestShard> shards) const;

 private:
  absl::StatusOr<size_t> SegmentOf(uint64_t sample) const;
  absl::Status ForEachBlockIn(size_t segment, std::span<const SampleRange> shards,
                              const std::function<absl::Status(const IndexedBlock&)>& take) const;
  absl::StatusOr<uint32_t> FindInPage(size_t segment, const container::TablePage& page, uint64_t local) const;
  struct Part {
    std::string path;
    std::unique_ptr<container::PagedTable> table;
    format::IndexRoot root;
    // For each of root.layouts the positions of its columns in the dataset's schema.
    std::vector<std::vector<size_t>> columns;
    size_t first_shard = 0;
    uint64_t first_sample = 0;
  };

  explicit IndexReader(const Schema& schema) : schema_(schema) {}
  absl::StatusOr<Part> OpenPart(std::unique_ptr<container::PagedTable> table, const Segment& segment) const;
  absl::StatusOr<IndexedBlock> Load(size_t segment, const container::TablePage& page, uint32_t i) const;
  // Blocks of a page, from number `begin` on, that begin before sample `end`.
  absl::StatusOr<std::vector<IndexedBlock>> LoadAll(size_t segment, const container::TablePage& page, uint32_t begin,
                                                    uint64_t end) const;
  absl::StatusOr<uint64_t> LoadPlace(const IndexedBlock& block, uint64_t number) const;
  absl::Status CheckPart(size_t segment, std::span<const ManifestShard> all) const;
  template <typename... Parts>
  absl::Status Damage(size_t segment, const Parts&... what) const;
  // A file that was cut is reported in place of any result: everything read from its map may then be wrong.
  template <typename T>
  T Checked(size_t segment, T found) const;

  const Schema& schema_;
  std::vector<Part> parts_;
};

}  // namespace shardkit::dataset
