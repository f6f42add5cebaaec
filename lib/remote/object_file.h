// Reads an object as a file.
#pragma once

#include <memory>
#include <string>

#include "remote/object_store.h"
#include "shardkit/filesystem.h"

namespace shardkit::remote {

// `path` is what path() says. `store` must outlive the file. `version`: its size is believed, and without an ETag the
// first answer decides which version of the object is read.
std::unique_ptr<RandomAccessFile> NewObjectFile(ObjectStore& store, std::string path, ObjectUrl url,
                                                ObjectVersion version);

}  // namespace shardkit::remote
