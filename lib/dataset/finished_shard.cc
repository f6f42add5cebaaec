#include "dataset/finished_shard.h"

#include "base/status_macros.h"
#include "container/native_shard_reader.h"

namespace shardkit {

absl::StatusOr<FinishedShard> ReadFinishedShard(FileSystem& file_system, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto shard, NativeShardReader::Open(file_system, path, {}));
  FinishedShard finished;
  finished.schema = shard->schema();
  SHARDKIT_ASSIGN_OR_RETURN(finished.index_part, ReadShardIndexPart(*shard));
  return finished;
}

}  // namespace shardkit
