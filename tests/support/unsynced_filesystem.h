// A file system in memory that records which data has reached stable storage, and can give the state after a power cut.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardkit {

// Promises no more than POSIX does. The bytes of a file are safe after its Sync(). An entry of a directory (a creation,
// link, rename or removal) is safe after SyncDirectory() of that directory. A file whose entry is lost is lost with all
// its synced bytes. A rename within one directory is atomic. A rename between two directories is two changes, and each
// needs its own SyncDirectory().
//
// Thread-safe. Files may outlive it.
class UnsyncedFileSystem final : public FileSystem {
 public:
  UnsyncedFileSystem();

  // The state after a power cut at this moment. Everything in the returned file system is durable; this file system is
  // not affected. Without a seed, all unsynced data is lost. With a seed, a part of it survives that depends only on
  // the seed: of each directory, the changes up to a point, or any of them; of each file, the writes up to a point, or
  // any of them. A later write may survive without an earlier one, with zeros in place of the earlier one. A write may
  // survive only in part: up to some byte, or any of its sectors of 512 bytes.
  std::unique_ptr<UnsyncedFileSystem> Crash(std::optional<uint64_t> seed = std::nullopt) const;

  // Makes everything durable, for the preparation of a test.
  void SyncEverything();

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path,
                                                                   ReadMode mode = ReadMode::kBuffered,
                                                                   std::optional<uint64_t> size = {}) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow = true) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

 private:
  class Disk;
  class Writer;
  struct Survivors;

  // Opens or creates a file, and records its entry when it is new. REQUIRES: the disk is locked.
  template <typename Open>
  auto OpenOrCreate(const std::string& path, Open open);
  static void Rebuild(Survivors& survivors, uint64_t directory, const std::string& path, UnsyncedFileSystem& out);

  const std::unique_ptr<FileSystem> base_;  // the state as running programs see it
  const std::shared_ptr<Disk> disk_;        // the state as the device has it
};

}  // namespace shardkit
