#include "shardkit/latency_filesystem.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "io/latency_schedule.h"
#include "shardkit/forwarding_filesystem.h"

namespace shardkit {
namespace {

using Clock = std::chrono::steady_clock;

// A wait sees a cancellation at the latest after this.
constexpr std::chrono::milliseconds kNotice{10};

// Shared by the file system and its files.
class Network {
 public:
  explicit Network(const LatencyOptions& options) : options_(options), schedule_(options) {}

  // Sends requests together and waits for all of them.
  absl::Status Wait(std::span<const ReadRequest> requests) {
    Clock::time_point end = Clock::now();
    {
      std::lock_guard lock(mutex_);
      const Clock::time_point now = Clock::now();  // within the lock, so that it does not decrease
      for (const ReadRequest& request : requests) end = std::max(end, schedule_.Send(now, request.buffer.size()));
    }
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
      if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("waiting for a request"));
      std::this_thread::sleep_until(std::min(end, now + kNotice));
    }
    return absl::OkStatus();
  }

  // For a request whose answer is short.
  absl::Status Wait() {
    const ReadRequest empty;
    return Wait({&empty, 1});
  }

  ReadHints hints() const {
    ReadHints hints{.preferred_bytes = uint64_t{64} << 20,
                    .bridge_gap_bytes = uint64_t{1} << 20,
                    .requests_in_flight = options_.requests_at_once};
    if (options_.bytes_per_second > 0) {  // the gap whose bytes take as long as another request
      const double seconds = std::chrono::duration<double>(options_.latency).count();
      const double gap = seconds * static_cast<double>(options_.bytes_per_second);
      hints.bridge_gap_bytes = static_cast<uint64_t>(std::min(gap, 1e9));
    }
    return hints;
  }

 private:
  const LatencyOptions options_;
  std::mutex mutex_;
  LatencySchedule schedule_;  // guarded by mutex_
};

class LatencyFile final : public ForwardingFile {
 public:
  LatencyFile(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<Network> network)
      : ForwardingFile(std::move(base)), network_(std::move(network)) {}

  ReadHints hints() const override { return network_->hints(); }
  std::optional<std::string_view> Mapped() const override { return std::nullopt; }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const ReadRequest request{offset, buffer};
    SHARDKIT_RETURN_IF_ERROR(network_->Wait({&request, 1}));
    return ForwardingFile::ReadAt(offset, buffer);
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests, int depth) const override {
    SHARDKIT_RETURN_IF_ERROR(network_->Wait(requests));
    return ForwardingFile::ReadBatch(requests, depth);
  }
  void WillNeed(uint64_t /*offset*/, uint64_t /*length*/) const override {}

 private:
  const std::shared_ptr<Network> network_;
};

class LatencyFileSystem final : public ForwardingFileSystem {
 public:
  LatencyFileSystem(FileSystem& base, const LatencyOptions& options)
      : ForwardingFileSystem(base), network_(std::make_shared<Network>(options)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    if (!size) SHARDKIT_RETURN_IF_ERROR(network_->Wait());
    const ReadMode without_map = mode == ReadMode::kMapped ? ReadMode::kBuffered : mode;
    SHARDKIT_ASSIGN_OR_RETURN(auto file, base().OpenForReading(path, without_map, size));
    return std::make_unique<LatencyFile>(std::move(file), network_);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    SHARDKIT_RETURN_IF_ERROR(network_->Wait());
    return base().Stat(path, follow);
  }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(network_->Wait());
    return base().List(path);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override {
    absl::StatusOr<std::string> content = base().ReadFile(path, limit);
    ReadRequest request;
    if (content.ok()) request.buffer = *content;
    SHARDKIT_RETURN_IF_ERROR(network_->Wait({&request, 1}));
    return content;
  }

 private:
  const std::shared_ptr<Network> network_;
};

}  // namespace

std::unique_ptr<FileSystem> NewLatencyFileSystem(FileSystem& base, const LatencyOptions& options) {
  return std::make_unique<LatencyFileSystem>(base, options);
}

}  // namespace shardkit
