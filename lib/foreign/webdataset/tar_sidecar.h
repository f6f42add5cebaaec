// The index beside a tar, a shard (format-spec/interop.md): what it says of itself when the tar is opened, its blocks
// and keys when they are asked for.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/read/native_shard_reader.h"
#include "foreign/webdataset/tar_index.h"

namespace shardkit::foreign {

// False when the tar has no index of its own. Otherwise fills in *contents, but leaves the samples in the index. Two
// requests for the index, and one for the tar. DataLoss when what is read of the index is damaged, or when it belongs
// to another tar.
absl::StatusOr<bool> LoadTarIndex(ReadableFileSystem& file_system, const RandomAccessFile& file, TarContents* contents);

// Blocks and keys of the index of one tar. Thread-safe. Errors name the index; DataLoss where the block or the keys
// that are asked for are damaged.
class TarBlocks {
 public:
  // Reads nothing. DataLoss when the index has changed since `contents` were loaded from it.
  static absl::StatusOr<std::unique_ptr<TarBlocks>> Open(ReadableFileSystem& file_system, const std::string& tar,
                                                         std::shared_ptr<const TarContents> contents);

  // The samples of a block, their keys without escapes. One read, which also brings what lies behind it and is cheaper
  // read along (ReadHints::bridge_gap_bytes), or none of a block that was used lately.
  absl::StatusOr<std::shared_ptr<const TarSamples>> Block(size_t block) const;

  // The first sample with this key. Two reads, and one for the block of each sample whose key has the same hash; the
  // first of them only once.
  absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key) const;

 private:
  TarBlocks() = default;
  absl::StatusOr<std::shared_ptr<const container::KeyTable>> OpenKeys() const;
  // Adds path and advice to an error of the index.
  absl::Status Describe(const absl::Status& status) const;

  std::string tar_;
  std::shared_ptr<const TarContents> contents_;
  std::shared_ptr<const container::NativeShardReader> shard_;
  mutable std::mutex keys_mutex_;
  mutable std::shared_ptr<const container::KeyTable> keys_;
  mutable std::mutex mutex_;                                                         // of what follows
  mutable std::deque<std::pair<size_t, std::shared_ptr<const TarSamples>>> recent_;  // oldest first
  mutable uint64_t recent_bytes_ = 0;
  mutable std::vector<std::unique_ptr<BlockBuffer>> buffers_;  // not in use
};

// Compares the index, if there is one, with `scanned`, the samples that the tar has. The checksums of values are not
// compared. False where the index has damaged blocks, and is not compared: reading the blocks tells of them. Returns an
// error only when the check could not be done.
absl::StatusOr<bool> CheckTarIndex(ReadableFileSystem& file_system, const RandomAccessFile& tar,
                                   const TarIndex& scanned,
                                   const std::function<void(const absl::Status& problem)>& report);

}  // namespace shardkit::foreign
