// A file system that fails at a chosen call, to test every place where I/O can fail:
//
//   for (uint64_t n = 1;; ++n) {
//     FaultFileSystem faults(base);
//     faults.FailCall(n, {.status = absl::ResourceExhaustedError("no space")});
//     absl::Status status = Operation(faults);
//     if (!faults.failed_call()) break;  // the operation makes fewer than n calls
//     ...
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"

namespace shardkit {

struct Fault {
  absl::Status status = absl::InternalError("injected fault");
  bool all_following = false;  // every later call fails too, as on a removed device
  bool short_write = false;    // a failing write leaves the first half of its bytes in the file
};

struct FileSystemCall {
  uint64_t number = 0;    // from 1
  std::string operation;  // "open", "create", "read", "write", "sync", "close", "rename", ...
  std::string path;
};

// Passes all calls to another file system and counts those that can reach the device: also each read, batch, write,
// sync and close of a file, but neither hints nor destructors. Thread-safe. Files may outlive this object, but not
// `base`.
class FaultFileSystem final : public FileSystem {
 public:
  explicit FaultFileSystem(FileSystem* base);

  // Makes the call with this number, counted from 1, fail. The error has the fault's code and the message "PATH: cannot
  // OPERATION: MESSAGE". A failing close still closes the file, as the system does. A short write writes half of its
  // bytes. No other failing call has any effect.
  void FailCall(uint64_t number, Fault fault);

  // Calls so far, failed ones included.
  uint64_t call_count() const;
  std::vector<FileSystemCall> calls() const;

  // The first call that a fault hit, if any.
  std::optional<FileSystemCall> failed_call() const;

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
  class Calls;
  class Reader;
  class Writer;

  FileSystem* const base_;
  const std::shared_ptr<Calls> calls_;
};

}  // namespace shardkit
