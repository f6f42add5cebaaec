// Files read through a memory map.
//
// If a file is cut while it is mapped, the lost bytes read as zeros (MapWatch in mapped_file.cc); CheckMapped and
// ReadAt report it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// Falls back to positioned reads, reported by fallback_reason(), on file systems that cannot map.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenMappedFile(const std::string& path);

}  // namespace shardkit::io
