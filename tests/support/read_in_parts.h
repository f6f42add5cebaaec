// A value that was opened as a file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::test {

// The bytes of the file, the second half first; empty where there is none.
inline absl::StatusOr<std::optional<std::string>> ReadInParts(
    const absl::StatusOr<std::unique_ptr<RandomAccessFile>>& opened) {
  if (!opened.ok()) return opened.status();
  if (*opened == nullptr) return std::nullopt;
  std::string bytes((*opened)->size(), '\0');
  const size_t half = bytes.size() / 2;
  const std::span<char> all(bytes);
  if (absl::Status status = (*opened)->ReadAt(half, all.subspan(half)); !status.ok()) return status;
  if (absl::Status status = (*opened)->ReadAt(0, all.first(half)); !status.ok()) return status;
  return bytes;
}

}  // namespace shardkit::test
