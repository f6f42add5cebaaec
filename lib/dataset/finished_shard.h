// What a resumed job needs to know of a shard that an earlier run has finished.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "container/shard_index_part.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"

namespace shardkit {

struct FinishedShard {
  Schema schema;
  ShardIndexPart index_part;
};

absl::StatusOr<FinishedShard> ReadFinishedShard(FileSystem& file_system, const std::string& path);

}  // namespace shardkit
