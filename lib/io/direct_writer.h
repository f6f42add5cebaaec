// Writing that bypasses the page cache.
#pragma once

#include <memory>
#include <string>

#include "io/posix_file.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// Takes ownership of the descriptor of a new, empty file opened for writing with O_DIRECT. Gathers bytes and writes
// them in aligned pieces of some MiB. After Sync or Close, or when the file system refuses a direct write, the
// file is written like any other.
std::unique_ptr<WritableFile> NewDirectWritableFile(std::string path, FileDescriptor descriptor);

}  // namespace shardkit::io
