// Reads an object as a file, from its store or through the cache on local disk.
#pragma once

#include <memory>
#include <string>

#include "remote/cache/disk_cache.h"
#include "remote/object_store.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

// `path` is what path() says. `store` must outlive the file. `version`: its size is believed, and without an ETag the
// first answer decides which version of the object is read.
std::unique_ptr<RandomAccessFile> NewObjectFile(ObjectStore& store, std::string path, ObjectUrl url,
                                                ObjectVersion version);

// `object` reads an object, and knows its identity once it has read something of it; without a strong ETag nothing is
// cached. `url` is what users may see. A piece that another thread or process fetches is waited for; when that one ends
// without it, it is fetched here.
std::unique_ptr<RandomAccessFile> NewCachedFile(std::unique_ptr<RandomAccessFile> object, std::string url,
                                                std::shared_ptr<DiskCache> cache);

}  // namespace shardkit::remote
