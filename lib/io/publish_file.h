// Files that appear whole or not at all.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Writes PATH.tmp, flushes it, makes durable what else has happened in its directory, renames, and makes that durable.
// Replaces the file there is. On failure the temporary file is removed.
absl::Status PublishFile(FileSystem& file_system, const std::string& path, std::string_view bytes);

// The same of a file too large for the page cache to be its place, in pieces.
absl::Status PublishFile(FileSystem& file_system, const std::string& path, std::span<const std::string_view> pieces);

// The directory a path lies in: "." without a slash, "/" for the root's entries.
std::string ParentDirectory(const std::string& path);

// What follows a path's last slash.
std::string_view BaseName(std::string_view path);

}  // namespace shardkit
