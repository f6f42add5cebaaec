// Writing past the page cache.
#pragma once

#include <memory>
#include <string>

#include "io/posix_file.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Takes over a descriptor of a new, empty file opened for writing with O_DIRECT. Bytes are gathered and written in
// aligned pieces of some MiB; WriteAt, Sync, Close, and a file system that refuses direct writes after all, end this:
// from then on the file is written like any other.
std::unique_ptr<WritableFile> NewDirectWritableFile(std::string path, FileDescriptor descriptor);

}  // namespace shardkit
