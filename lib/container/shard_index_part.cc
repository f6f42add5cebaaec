#include "container/shard_index_part.h"

#include "base/errors.h"
#include "base/status_macros.h"
#include "container/native_shard_reader.h"

namespace shardkit::container {

void AppendBlockEnds(const NativeShardReader& shard, size_t index, BlockBuffer& buffer, std::vector<uint64_t>* ends) {
  const format::BlockHeader& header = buffer.state().header;
  const BlockView& view = buffer.state().view;
  ends->reserve(ends->size() + shard.schema().blob_columns().size() * view.sample_count());
  for (const size_t column : shard.schema().blob_columns()) {
    const format::ColumnEntry& entry = header.columns[column];
    const uint64_t base =
        shard.blocks()[index].offset + (entry.values_length == 0 ? header.front_length : entry.values_offset);
    if (shard.schema()[column].codec != Codec::kNone) {
      // What the chunk holds is its codec's business. Its end tells where the next column's records begin.
      ends->insert(ends->end(), view.sample_count(), base + entry.values_length);
      continue;
    }
    for (uint32_t i = 0; i < view.sample_count(); ++i) ends->push_back(base + view.column(column).end(i));
  }
}

absl::StatusOr<ShardIndexPart> ReadShardIndexPart(const NativeShardReader& shard) {
  ShardIndexPart part;
  part.incompatible_flags = shard.header().incompatible_flags;
  part.blocks.assign(shard.blocks().begin(), shard.blocks().end());
  part.keys = shard.key_table_place();
  BlockBuffer buffer;
  BlockView view;
  for (size_t index = 0; index < part.blocks.size(); ++index) {
    SHARDKIT_RETURN_IF_ERROR(shard.ReadHeads(index, &buffer, &view));
    AppendBlockEnds(shard, index, buffer, &part.ends);
  }
  return part;
}

absl::StatusOr<ShardIndexPart> ReadShardIndexPart(ReadableFileSystem& file_system, const std::string& path,
                                                  Schema* schema, std::optional<ExpectedShard> expected) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto shard, NativeShardReader::Open(file_system, path, {}));
  if (expected && (shard->content_hash() != expected->content_hash || shard->file_length() != expected->bytes)) {
    return DataLoss(path, ": is not the shard that was written here; run its task again");
  }
  *schema = shard->schema();
  return ReadShardIndexPart(*shard);
}

}  // namespace shardkit::container
