#include "shardkit/latency_filesystem.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
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

  ~Network() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  // Set when reads of a file are to end.
  using Flag = std::shared_ptr<std::atomic<bool>>;

  // Sends requests together and waits for all of them.
  absl::Status Wait(std::span<const ReadRequest> requests, const Flag& cancelled = nullptr) {
    Clock::time_point end = Clock::now();
    {
      std::lock_guard lock(mutex_);
      const Clock::time_point now = Clock::now();  // within the lock, so that it does not decrease
      for (const ReadRequest& request : requests) end = std::max(end, schedule_.Send(now, request.buffer.size()));
    }
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
      SHARDKIT_RETURN_IF_ERROR(Check(cancelled));
      std::this_thread::sleep_until(std::min(end, now + kNotice));
    }
    return absl::OkStatus();
  }

  // Sends requests together and calls `done` on a thread of the network's when the last of them has ended.
  void Start(std::span<const ReadRequest> requests, const Flag& cancelled, std::function<void(absl::Status)> done) {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    Clock::time_point end = now;
    for (const ReadRequest& request : requests) end = std::max(end, schedule_.Send(now, request.buffer.size()));
    started_.emplace(end, Started{cancelled, std::move(done)});
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
    changed_.notify_one();
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
  struct Started {
    Flag cancelled;
    std::function<void(absl::Status)> done;
  };

  absl::Status Check(const Flag& cancelled) const {
    constexpr std::string_view kWhat = "waiting for a request";
    if (cancelled && cancelled->load()) return Cancelled(kWhat, ": the file's reads were cancelled");
    return options_.cancellation ? options_.cancellation->Check(kWhat) : absl::OkStatus();
  }

  // Ends started requests in their time, or when they are cancelled.
  void Run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ || !started_.empty()) {
      const Clock::time_point now = Clock::now();
      const auto ended = std::ranges::find_if(
          started_, [&](const auto& request) { return request.first <= now || !Check(request.second.cancelled).ok(); });
      if (ended != started_.end()) {
        const Started request = std::move(ended->second);
        started_.erase(ended);
        lock.unlock();
        request.done(Check(request.cancelled));
        lock.lock();
      } else if (!started_.empty()) {
        changed_.wait_until(lock, std::min(started_.begin()->first, now + kNotice));
      } else {
        changed_.wait(lock);
      }
    }
  }

  const LatencyOptions options_;
  std::mutex mutex_;  // guards all below
  io::LatencySchedule schedule_;
  std::multimap<Clock::time_point, Started> started_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;  // runs from the first Start on
};

class LatencyFile final : public ForwardingFile {
 public:
  LatencyFile(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<Network> network)
      : ForwardingFile(std::move(base)), network_(std::move(network)) {}

  ReadHints hints() const override { return network_->hints(); }
  std::optional<std::string_view> Mapped() const override { return std::nullopt; }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const ReadRequest request{offset, buffer};
    SHARDKIT_RETURN_IF_ERROR(network_->Wait({&request, 1}, cancelled_));
    return ForwardingFile::ReadAt(offset, buffer);
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    SHARDKIT_RETURN_IF_ERROR(network_->Wait(requests, cancelled_));
    return ForwardingFile::ReadBatch(requests);
  }
  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    network_->Start(
        requests, cancelled_,
        [this, copy = std::vector(requests.begin(), requests.end()), done = std::move(done)](absl::Status status) {
          done(status.ok() ? ForwardingFile::ReadBatch(copy) : std::move(status));
        });
  }
  void CancelReads() const override { cancelled_->store(true); }
  void WillNeed(uint64_t /*offset*/, uint64_t /*length*/) const override {}

 private:
  const std::shared_ptr<Network> network_;
  const Network::Flag cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

class LatencyFileSystem final : public ForwardingReadableFileSystem {
 public:
  LatencyFileSystem(ReadableFileSystem& base, const LatencyOptions& options)
      : ForwardingReads(base), network_(std::make_shared<Network>(options)) {}

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
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    SHARDKIT_RETURN_IF_ERROR(network_->Wait());
    return base().ForEachEntry(path, take);
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

std::unique_ptr<ReadableFileSystem> NewLatencyFileSystem(ReadableFileSystem& base, const LatencyOptions& options) {
  return std::make_unique<LatencyFileSystem>(base, options);
}

}  // namespace shardkit
