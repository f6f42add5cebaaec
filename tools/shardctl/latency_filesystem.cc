#include "latency_filesystem.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "shardkit/filesystem.h"

namespace shardctl {
namespace {

using shardkit::FileInfo;
using shardkit::ForwardingFile;
using shardkit::RandomAccessFile;
using shardkit::ReadableFileSystem;
using shardkit::ReadHints;
using shardkit::ReadMode;
using shardkit::ReadRequest;

using Clock = std::chrono::steady_clock;

// A wait sees a cancellation at the latest after this.
constexpr std::chrono::milliseconds kCancellationNotice{10};

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
      if (absl::Status status = Check(cancelled); !status.ok()) return status;
      std::this_thread::sleep_until(std::min(end, now + kCancellationNotice));
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
    if (cancelled && cancelled->load())
      return absl::CancelledError("waiting for a request: the file's reads were cancelled");
    return options_.cancellation ? options_.cancellation->Check("waiting for a request") : absl::OkStatus();
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
        changed_.wait_until(lock, std::min(started_.begin()->first, now + kCancellationNotice));
      } else {
        changed_.wait(lock);
      }
    }
  }

  const LatencyOptions options_;
  std::mutex mutex_;  // guards all below
  LatencySchedule schedule_;
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
    if (absl::Status status = network_->Wait({&request, 1}, cancelled_); !status.ok()) return status;
    return ForwardingFile::ReadAt(offset, buffer);
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    if (absl::Status status = network_->Wait(requests, cancelled_); !status.ok()) return status;
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

class LatencyFileSystem final : public shardkit::ForwardingReadableFileSystem {
 public:
  LatencyFileSystem(ReadableFileSystem& base, const LatencyOptions& options)
      : ForwardingReads(base), network_(std::make_shared<Network>(options)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    if (absl::Status status = size ? absl::OkStatus() : network_->Wait(); !status.ok()) return status;
    const ReadMode without_map = mode == ReadMode::kMapped ? ReadMode::kBuffered : mode;
    auto file = base().OpenForReading(path, without_map, size);
    if (!file.ok()) return file.status();
    return std::make_unique<LatencyFile>(*std::move(file), network_);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    if (absl::Status status = network_->Wait(); !status.ok()) return status;
    return base().Stat(path, follow);
  }
  absl::Status ForEachEntry(const std::string& path, const shardkit::TakeEntry& take) override {
    if (absl::Status status = network_->Wait(); !status.ok()) return status;
    return base().ForEachEntry(path, take);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override {
    absl::StatusOr<std::string> content = base().ReadFile(path, limit);
    ReadRequest request;
    if (content.ok()) request.buffer = *content;
    if (absl::Status status = network_->Wait({&request, 1}); !status.ok()) return status;
    return content;
  }

 private:
  const std::shared_ptr<Network> network_;
};

}  // namespace

LatencySchedule::LatencySchedule(const LatencyOptions& options) : options_(options), random_(options.seed) {}

LatencySchedule::Time LatencySchedule::Send(Time now, uint64_t bytes) {
  Time begin = now;
  while (!ends_.empty() && ends_.top() <= now) ends_.pop();
  if (ends_.size() >= static_cast<size_t>(std::max(options_.requests_at_once, 1))) {
    begin = ends_.top();
    ends_.pop();
  }
  Time end = begin + options_.latency;
  if (options_.bytes_per_second > 0) {
    const double seconds = static_cast<double>(bytes) / static_cast<double>(options_.bytes_per_second);
    end = std::max(end, link_free_) + std::chrono::nanoseconds(static_cast<int64_t>(1e9 * seconds));
    link_free_ = end;
  }
  // These delay this request alone: the link serves the others meanwhile.
  const uint64_t jitter = random_(), stall = random_();
  if (options_.jitter.count() > 0) {
    end +=
        std::chrono::nanoseconds(static_cast<int64_t>(jitter % (static_cast<uint64_t>(options_.jitter.count()) + 1)));
  }
  if (options_.stall_every > 0 && stall % options_.stall_every == 0) end += options_.stall;
  ends_.push(end);
  return end;
}

std::unique_ptr<ReadableFileSystem> NewLatencyFileSystem(ReadableFileSystem& base, const LatencyOptions& options) {
  return std::make_unique<LatencyFileSystem>(base, options);
}

}  // namespace shardctl
