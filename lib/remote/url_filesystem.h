#pragma once

#include <memory>

#include "remote/object_store.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

// Reads URLs, and passes all other paths on to `local`, which must outlive it. The store is opened at the first use of
// a URL. Thread-safe.
std::unique_ptr<FileSystem> NewUrlFileSystem(FileSystem& local, const ObjectStore::Options& options);

}  // namespace shardkit::remote
