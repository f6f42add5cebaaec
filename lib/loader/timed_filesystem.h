// A file system that counts requests and measures how long reads take.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "io/request_counter.h"
#include "shardkit/filesystem.h"

namespace shardkit::loader {

// Passes all calls on to `base`, which must outlive it. Thread-safe if `base` is.
class TimedFileSystem final : public ForwardingReadableFileSystem {
 public:
  struct Figures {
    io::RequestCounter requests;              // reads, Stat, List, ReadFile, and opening files whose size is not known
    std::atomic<uint64_t> bridged_bytes = 0;  // ReadRequest::bridged_bytes
    std::atomic<int64_t> read_ticks = 0;
    std::atomic<int64_t> least_ticks = INT64_MAX;  // of a request

    std::mutex mutex;  // guards what follows
    std::set<const RandomAccessFile*> open;
    bool cancelled = false;
  };

  explicit TimedFileSystem(ReadableFileSystem& base) : ForwardingReads(base), figures_(std::make_shared<Figures>()) {}

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
  const io::RequestCounter& requests() const { return figures_->requests; }
  uint64_t bridged_bytes() const { return figures_->bridged_bytes; }

  // RandomAccessFile::CancelReads of all files that were opened through it, and of all that will be.
  void CancelReads();

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override;

 private:
  const std::shared_ptr<Figures> figures_;  // shared with the files
};

}  // namespace shardkit::loader
