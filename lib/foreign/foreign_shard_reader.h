// What readers of other containers' shards have in common.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "container/block_buffer.h"
#include "shardkit/shard.h"

namespace shardkit::foreign {

// Stored bytes of a block. Other containers have no blocks, so runs of consecutive samples serve as blocks.
inline constexpr uint64_t kForeignBlockBytes = uint64_t{4} << 20;

// Implements what needs only blocks. The reader of a container implements Read, and overrides ReadValue when it can
// read one value without its block, and OpenValue when it can read a part of one.
class ForeignShardReader : public ShardReader {
 public:
  const std::string& path() const override { return path_; }
  const Schema& schema() const override { return schema_; }
  uint64_t sample_count() const override { return sample_count_; }
  uint64_t file_length() const override { return file_length_; }
  const ContentHash& content_hash() const override { return no_hash_; }
  std::span<const BlockInfo> blocks() const override { return blocks_; }
  uint32_t alignment() const override { return 1; }
  std::vector<size_t> dictionary_columns() const override { return {}; }
  absl::StatusOr<Metadata> ReadMetadata() const override { return Metadata(); }

  // Reads the whole shard.
  absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const override;

  absl::Status ReadBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                         BlockView* view) const final {
    return Read(index, columns, buffer, view, nullptr);
  }
  absl::Status SalvageBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                            BlockDamage* damage) const final {
    *damage = {};
    return Read(index, columns, buffer, view, damage);
  }

  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                            BlockBuffer* buffer) const override;

  // By OpenValue, without checksums.
  absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const override;

  // By ReadValue.
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(uint64_t ordinal, size_t column) const override;

  // Reads the key column, block by block.
  absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const override;

  std::string fallback_reason() const override { return fallback_reason_; }

 protected:
  // Implements ReadBlock, and with `damage` SalvageBlock.
  virtual absl::Status Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                            BlockDamage* damage) const = 0;

  absl::Status CheckPlace(uint64_t ordinal, size_t column) const;

  std::string path_;
  Schema schema_;
  uint64_t sample_count_ = 0;
  uint64_t file_length_ = 0;
  std::vector<BlockInfo> blocks_;
  std::string fallback_reason_;
  const uint64_t identity_ = container::NewReaderIdentity();

 private:
  const ContentHash no_hash_{};
};

}  // namespace shardkit::foreign
