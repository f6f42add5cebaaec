// A file system in memory that remembers what has reached stable storage, and can be asked what a power
// cut would leave behind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardkit {

// Promises no more than POSIX does: the bytes of a file are safe after its Sync(); an entry of a directory
// (a creation, link, rename or removal) is safe after SyncDirectory() of that directory, and a file whose
// entry is lost is lost with all its synced bytes. A rename within one directory happens as a whole or not
// at all; one between two directories is two changes, each of which needs its own SyncDirectory().
//
// Thread-safe. Files may outlive it.
class UnsyncedFileSystem final : public FileSystem {
 public:
  UnsyncedFileSystem();

  // The state after a power cut at this moment, with everything in it durable; this file system goes on
  // unaffected. Without a seed all that was not synced is lost. With one, a part of it that depends only
  // on the seed survives: of each directory the changes up to a point, or any of them; of each file the
  // writes up to a point, or any of them (a later one may survive an earlier one, with zeros in its place),
  // any write perhaps only in part: up to some byte, or any of its sectors of 512 bytes.
  std::unique_ptr<UnsyncedFileSystem> Crash(std::optional<uint64_t> seed = std::nullopt) const;

  // Makes all durable; for setting up a test.
  void SyncEverything();

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path,
                                                                   ReadMode mode = ReadMode::kBuffered) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow = true) override;
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

 private:
  class Disk;
  class Writer;
  struct Survivors;

  // Makes sure that a file exists and notes its entry when it is new. REQUIRES: the disk is locked.
  template <typename Open>
  auto OpenOrCreate(const std::string& path, Open open);
  static void Rebuild(Survivors& survivors, uint64_t directory, const std::string& path, UnsyncedFileSystem& out);

  const std::unique_ptr<FileSystem> base_;  // the state as running programs see it
  const std::shared_ptr<Disk> disk_;        // the state as the device has it
};

}  // namespace shardkit
