// A file system that counts requests and measures how long reads take.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/request_counter.h"
#include "shardkit/forwarding_filesystem.h"

namespace shardkit::loader {

// Passes all calls on to `base`, which must outlive it. Thread-safe if `base` is.
class TimedFileSystem final : public ForwardingFileSystem {
 public:
  struct Figures {
    RequestCounter requests;  // reads, Stat, List, ReadFile, and opening files whose size is not known
    std::atomic<int64_t> read_ticks = 0;
    std::atomic<int64_t> least_ticks = INT64_MAX;  // of a request
  };

  explicit TimedFileSystem(FileSystem& base) : ForwardingFileSystem(base), figures_(std::make_shared<Figures>()) {}

  // Seconds in reads, summed over threads. Reads through memory maps and of cached pages are neither measured nor
  // counted.
  double read_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::duration(figures_->read_ticks.load())).count();
  }
  // Seconds of the quickest request so far: what each of them costs besides its bytes. 0 before the first.
  double least_seconds() const {
    const int64_t ticks = figures_->least_ticks;
    if (ticks == INT64_MAX) return 0;
    return std::chrono::duration<double>(std::chrono::steady_clock::duration(ticks)).count();
  }
  const RequestCounter& requests() const { return figures_->requests; }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override;

 private:
  const std::shared_ptr<Figures> figures_;  // shared with the files
};

}  // namespace shardkit::loader
