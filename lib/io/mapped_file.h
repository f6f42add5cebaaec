// Files read through a memory map.
//
// A file that another process shortens while it is mapped makes every access to the lost pages, in ReadAt
// and in views alike, raise SIGBUS. Shards are never modified once they have their final name, so this
// happens only when somebody truncates a shard in place; catching it would need a process-wide signal
// handler, which a library must not install. Use kBuffered for files that may change.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Falls back to positioned reads, saying so in fallback_reason(), on file systems that cannot map.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenMappedFile(const std::string& path);

}  // namespace shardkit
