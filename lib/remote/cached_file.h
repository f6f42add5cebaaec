// Reads an object through the cache on local disk.
#pragma once

#include <memory>
#include <string>

#include "remote/disk_cache.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

// `object` reads an object, and knows its identity once it has read something of it; without a strong ETag nothing is
// cached. `url` is what users may see. A piece that another thread or process fetches is waited for; when that one ends
// without it, it is fetched here.
std::unique_ptr<RandomAccessFile> NewCachedFile(std::unique_ptr<RandomAccessFile> object, std::string url,
                                                std::shared_ptr<DiskCache> cache);

}  // namespace shardkit::remote
