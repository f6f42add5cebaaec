// Reads dataset.idx through a memory map.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/index_layout.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Thread-safe. Each page is checked when it is first used. DataLoss, naming the file, on damage, and when the file is
// cut while it is open.
class IndexReader {
 public:
  static absl::StatusOr<std::unique_ptr<IndexReader>> Open(FileSystem& file_system, const std::string& path);

  const format::IndexHeader& header() const { return header_; }

  // DataLoss when `index` is not below the header's count: it may come from another table.
  absl::StatusOr<format::IndexBlock> Block(uint64_t index) const;
  absl::StatusOr<format::IndexShard> Shard(uint64_t index) const;
  absl::StatusOr<std::string_view> ShardName(const format::IndexShard& shard) const;

  // The block that holds `sample`, which must be below the header's sample_count.
  absl::StatusOr<format::IndexBlock> BlockOfSample(uint64_t sample) const;

  // The record of sample `local` of a block in a blob column: bytes [first, second) of the shard's file. first equals
  // second when the value is absent.
  absl::StatusOr<std::pair<uint64_t, uint64_t>> Record(const format::IndexBlock& block, uint32_t local,
                                                       uint32_t blob_column) const;

  // Entry `position` of the table of ends.
  absl::StatusOr<uint64_t> End(uint64_t position) const;

  // Fills `ends` with the entries from `position` on.
  absl::Status Ends(uint64_t position, std::span<uint64_t> ends) const;

  // Checks every page and the relations among the tables.
  absl::Status CheckAll() const;

 private:
  IndexReader() = default;
  absl::Status Touch(uint64_t offset, uint64_t length) const;

  // The public functions without the check whether the file was truncated.
  absl::StatusOr<format::IndexBlock> LoadBlock(uint64_t index) const;
  absl::StatusOr<format::IndexShard> LoadShard(uint64_t index) const;
  absl::StatusOr<std::string_view> LoadShardName(const format::IndexShard& shard) const;
  absl::StatusOr<format::IndexBlock> FindBlock(uint64_t sample) const;
  absl::StatusOr<std::pair<uint64_t, uint64_t>> FindRecord(const format::IndexBlock& block, uint32_t local,
                                                           uint32_t blob_column) const;
  absl::StatusOr<uint64_t> LoadEnd(uint64_t position) const;
  absl::Status LoadEnds(uint64_t position, std::span<uint64_t> ends) const;
  absl::Status CheckTables() const;
  template <typename T>
  T Checked(T found) const;

  std::string path_;
  std::unique_ptr<RandomAccessFile> file_;
  std::string memory_;  // the file's bytes where it cannot be mapped
  std::string_view bytes_;
  format::IndexHeader header_;
  mutable std::vector<std::atomic<uint8_t>> checked_pages_;
};

}  // namespace shardkit
