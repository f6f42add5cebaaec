#include "foreign/foreign_shard_reader.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/read/value_file.h"

namespace shardkit::foreign {

absl::Status ForeignShardReader::CheckPlace(uint64_t ordinal, size_t column) const {
  if (ordinal >= sample_count_)
    return OutOfRange(path_, ": has ", sample_count_, " samples; there is no sample ", ordinal);
  if (column >= schema_.size()) return InvalidArgument(path_, ": there is no column ", column);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ColumnStatistics>> ForeignShardReader::ReadStatistics() const {
  std::vector<ColumnStatistics> statistics(schema_.size());
  BlockBuffer buffer;
  BlockView view;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    SHARDKIT_RETURN_IF_ERROR(ReadBlock(block, {}, &buffer, &view));
    for (size_t column = 0; column < schema_.size(); ++column) {
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        const auto value = view.column(column).value(i);
        if (value) statistics[column].Add(schema_[column], value->data(), value->size());
      }
    }
  }
  for (ColumnStatistics& column : statistics) column.stored_bytes = column.value_bytes;
  return statistics;
}

absl::StatusOr<std::optional<std::string_view>> ForeignShardReader::ReadValue(uint64_t ordinal, size_t column,
                                                                              BlockBuffer* buffer) const {
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  const size_t block = BlockOfSample(ordinal);
  BlockBuffer::State& state = buffer->state();
  if (state.owner != identity_ || state.block != block) {
    state.owner = 0;
    SHARDKIT_RETURN_IF_ERROR(ReadBlock(block, {}, buffer, &state.view));
    state.owner = identity_;
    state.block = block;
  }
  return state.view.column(column).value(static_cast<uint32_t>(ordinal - blocks_[block].first_sample));
}

absl::StatusOr<bool> ForeignShardReader::CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto value, OpenValue(ordinal, column));
  if (value == nullptr) return false;
  Buffer piece;
  for (uint64_t done = 0; done < value->size(); done += piece.size()) {
    piece.resize_discard(std::min(kCopyPiece, value->size() - done));
    SHARDKIT_RETURN_IF_ERROR(value->ReadAt(done, {piece.data(), piece.size()}));
    SHARDKIT_RETURN_IF_ERROR(sink(piece.view()));
  }
  return true;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> ForeignShardReader::OpenValue(uint64_t ordinal, size_t column) const {
  BlockBuffer buffer;
  SHARDKIT_ASSIGN_OR_RETURN(const auto value, ReadValue(ordinal, column, &buffer));
  if (!value) return nullptr;
  auto copy = std::make_unique<container::ValueFile>(path_, std::string(*value));
  SHARDKIT_RETURN_IF_ERROR(buffer.CheckMapped());
  return copy;
}

absl::StatusOr<std::optional<uint64_t>> ForeignShardReader::FindKey(std::string_view key, BlockBuffer* buffer) const {
  const std::optional<size_t> column = schema_.key_column();
  if (!column) return FailedPrecondition(path_, ": has no key column");
  buffer->state().owner = 0;
  BlockView view;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    SHARDKIT_RETURN_IF_ERROR(ReadBlock(block, std::span(&*column, 1), buffer, &view));
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      if (view.column(*column).value(i) == key) return std::optional<uint64_t>(blocks_[block].first_sample + i);
    }
    SHARDKIT_RETURN_IF_ERROR(buffer->CheckMapped());
  }
  return std::optional<uint64_t>();
}

}  // namespace shardkit::foreign
