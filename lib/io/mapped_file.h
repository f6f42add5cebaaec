// Files read through a memory map.
//
// A file that is cut while it is mapped shows zeros where its bytes were (io/map_watch.h); CheckMapped and ReadAt
// report it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Falls back to positioned reads, saying so in fallback_reason(), on file systems that cannot map.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenMappedFile(const std::string& path);

}  // namespace shardkit
