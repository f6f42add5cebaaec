// Writing without waiting for the device.
#pragma once

#include <memory>

#include "shardkit/filesystem.h"

namespace shardkit::io {

// A file system whose Sync, SyncDirectory and StartWriteback do nothing: the system decides when bytes reach the
// device. Local files go through the page cache, since only those who wait for the device gain from bypassing it.
// Otherwise as `base`, which must outlive it.
std::unique_ptr<FileSystem> WithoutSync(FileSystem& base);

}  // namespace shardkit::io
