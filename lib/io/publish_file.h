// Writes files that appear completely or not at all.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// Writes PATH.tmp, flushes it, makes earlier changes of its directory durable, renames it, and makes the rename
// durable. Replaces an existing file, unless it must be new: then AlreadyExists. On failure removes the temporary file.
absl::Status PublishFile(FileSystem& file_system, const std::string& path, std::string_view bytes,
                         bool must_be_new = false);

// The same, replacing, for a file that is too large for the page cache, given in pieces.
absl::Status PublishFile(FileSystem& file_system, const std::string& path, std::span<const std::string_view> pieces);

// The same, replacing, where other processes may publish a file of the same bytes there at the same time.
absl::Status PublishShared(FileSystem& file_system, const std::string& path, std::string_view bytes);

// "PATH~0123456789abcdef.tmp" with random digits: a temporary file that nobody else has.
std::string UniqueTemporary(const std::string& path);

// The path that a temporary file is to be published at: "PATH.tmp" or "PATH~0123456789abcdef.tmp". Empty for another.
std::string_view TargetOfTemporary(std::string_view path);

// The directory of a path: "." without a slash, "/" for the root's entries.
std::string ParentDirectory(const std::string& path);

// The part after a path's last slash.
std::string_view BaseName(std::string_view path);

}  // namespace shardkit::io
