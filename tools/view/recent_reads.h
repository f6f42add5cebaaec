// What was read of files that are far away, for a while.
#pragma once

#include <cstdint>
#include <memory>

#include "shardkit/filesystem.h"

namespace shardctl {

// `base`, but of what was read last, up to `bytes` bytes are kept in memory and not read again: a page shows the key of
// a sample, then its thumbnail, then all of it, and one request often has more than one of these. Thread-safe. `base`
// must outlive it, and it must outlive its files.
std::unique_ptr<shardkit::ReadableFileSystem> KeepRecentReads(shardkit::ReadableFileSystem& base, uint64_t bytes);

}  // namespace shardctl
