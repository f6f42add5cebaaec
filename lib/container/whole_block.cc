#include "container/whole_block.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/status_macros.h"
#include "container/read/shard_index_part.h"
#include "container/write/block_encoding.h"

namespace shardkit::container {
namespace {

// Whether the statistics of a column need its chunks decoded. Otherwise all its values are there, have one length, and
// no range.
bool NeedsDecoding(const Column& column) {
  return column.nullable || !column.fixed_size() || RangeKindOf(column.type) != RangeKind::kNone;
}

ColumnStatistics StatisticsOf(const Column& column, const ColumnView& values, uint32_t sample_count) {
  ColumnStatistics statistics;
  for (uint32_t i = 0; i < sample_count; ++i) {
    if (!NeedsDecoding(column)) {
      statistics.Add(column, nullptr, *column.fixed_size());
    } else if (const auto value = values.value(i)) {
      statistics.Add(column, value->data(), value->size());
    }
  }
  return statistics;
}

}  // namespace

bool BlocksCanBeCopied(const NativeShardReader& shard, const Schema& schema) {
  const auto known = [](const Column& column) { return IsKnownCodec(column.codec) && IsKnownType(column.type); };
  return shard.header().incompatible_flags == 0 && shard.header().dictionaries.empty() &&
         std::ranges::all_of(schema.columns(), known) && EqualButStorages(shard.schema(), schema);
}

std::shared_ptr<WholeBlocks::Memory> WholeBlocks::Take() const {
  std::unique_ptr<Memory> memory;
  {
    std::lock_guard lock(pool_->mutex);
    if (!pool_->free.empty()) {
      memory = std::move(pool_->free.back());
      pool_->free.pop_back();
    }
  }
  if (!memory) memory = std::make_unique<Memory>();
  return {memory.release(), [pool = pool_](Memory* used) {
            used->shard.reset();
            std::lock_guard lock(pool->mutex);
            pool->free.emplace_back(used);
          }};
}

absl::StatusOr<StoredBlock> WholeBlocks::Read(std::shared_ptr<const NativeShardReader> shard, size_t index) {
  const auto memory = Take();
  memory->shard = std::move(shard);
  const NativeShardReader& from = *memory->shard;
  const Schema& schema = from.schema();
  std::vector<size_t> decoded;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (NeedsDecoding(schema[i])) decoded.push_back(i);
  }
  BlockView view;
  std::string_view bytes;
  SHARDKIT_RETURN_IF_ERROR(from.ReadStoredBlock(index, decoded, &memory->buffer, &view, &bytes));
  StoredBlock block;
  block.header = memory->buffer.state().header;
  block.source = &from.file();
  block.offset = from.blocks()[index].offset;
  block.chunks = bytes.substr(format::BlockHeaderLength(schema.size()));
  block.schema = &schema;
  block.alignment = from.alignment();
  for (size_t i = 0; i < schema.size(); ++i) {
    const format::ColumnEntry& entry = block.header.columns[i];
    block.statistics.push_back(StatisticsOf(schema[i], view.column(i), view.sample_count()));
    block.statistics.back().stored_bytes = entry.stored_length + entry.values_length;
  }
  if (const auto key = schema.key_column()) {
    for (uint32_t i = 0; i < view.sample_count(); ++i) block.key_hashes.push_back(Hash64(view.column(*key).bytes(i)));
  }
  AppendPlaces(from, index, memory->buffer, &block.places);
  for (uint64_t& place : block.places) place -= block.offset;
  SHARDKIT_RETURN_IF_ERROR(from.file().CheckMapped());
  block.memory = memory;
  return block;
}

}  // namespace shardkit::container
