#include "container/read/shard_index_part.h"

#include "base/errors.h"
#include "base/status_macros.h"
#include "container/read/native_shard_reader.h"

namespace shardkit::container {

std::vector<size_t> IndexedColumns(const Schema& schema) {
  std::vector<size_t> columns = schema.blob_columns();
  std::erase_if(columns, [&](size_t column) { return schema[column].codec != Codec::kNone; });
  return columns;
}

void AppendPlaces(const NativeShardReader& shard, size_t index, BlockBuffer& buffer, std::vector<uint64_t>* places) {
  const BlockView& view = buffer.state().view;
  for (const size_t column : IndexedColumns(shard.schema())) {
    const uint64_t begin = shard.blocks()[index].offset + buffer.state().header.columns[column].values_offset;
    places->push_back(begin);
    for (uint32_t i = 0; i < view.sample_count(); ++i) places->push_back(begin + view.column(column).end(i));
  }
}

absl::StatusOr<ShardIndexPart> ReadShardIndexPart(const NativeShardReader& shard) {
  ShardIndexPart part;
  part.blocks.assign(shard.blocks().begin(), shard.blocks().end());
  part.keys = shard.key_table_place();
  BlockBuffer buffer;
  BlockView view;
  for (size_t index = 0; index < part.blocks.size(); ++index) {
    SHARDKIT_RETURN_IF_ERROR(shard.ReadHeads(index, &buffer, &view));
    AppendPlaces(shard, index, buffer, &part.places);
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
