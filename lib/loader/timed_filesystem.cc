#include "loader/timed_filesystem.h"

#include <functional>
#include <optional>
#include <utility>

#include "base/status_macros.h"

namespace shardkit::loader {
namespace {

using Clock = std::chrono::steady_clock;

class Measurement {
 public:
  Measurement(TimedFileSystem::Figures& figures, uint64_t requests, uint64_t bytes)
      : figures_(figures), scope_(figures.requests, requests, bytes) {
    io::sent_for_read.reset();  // of a read that nobody counted
  }

  ~Measurement() {
    if (const auto sent = std::exchange(io::sent_for_read, std::nullopt)) scope_.Correct(*sent);
    const int64_t ticks = (Clock::now() - begin_).count();
    figures_.read_ticks += ticks;
    for (int64_t least = figures_.least_ticks;
         ticks < least && !figures_.least_ticks.compare_exchange_weak(least, ticks);) {
    }
  }

 private:
  TimedFileSystem::Figures& figures_;
  io::RequestCounter::Scope scope_;
  const Clock::time_point begin_ = Clock::now();
};

class TimedFile final : public ForwardingFile {
 public:
  TimedFile(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<TimedFileSystem::Figures> figures)
      : ForwardingFile(std::move(base)), figures_(std::move(figures)) {
    const std::lock_guard lock(figures_->mutex);
    figures_->open.insert(this);
    if (figures_->cancelled) CancelReads();
  }
  ~TimedFile() override {
    const std::lock_guard lock(figures_->mutex);
    figures_->open.erase(this);
  }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    return Measure(1, buffer.size(), [&] { return ForwardingFile::ReadAt(offset, buffer); });
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return Measure(requests.size(), BytesOf(requests), [&] { return ForwardingFile::ReadBatch(requests); });
  }
  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    const auto measurement =
        std::make_shared<std::optional<Measurement>>(std::in_place, *figures_, requests.size(), BytesOf(requests));
    base().StartRead(requests, [measurement, done = std::move(done)](absl::Status status) mutable {
      measurement->reset();
      done(std::move(status));
    });
  }
  // Costs little more than the copy, and is neither measured nor counted.
  bool ReadCached(uint64_t offset, std::span<const std::span<char>> buffers) const override {
    return base().ReadCached(offset, buffers);
  }

 private:
  uint64_t BytesOf(std::span<const ReadRequest> requests) const {
    uint64_t bytes = 0;
    for (const ReadRequest& request : requests) {
      bytes += request.buffer.size();
      figures_->bridged_bytes += request.bridged_bytes;
    }
    return bytes;
  }

  template <typename Read>
  absl::Status Measure(uint64_t requests, uint64_t bytes, const Read& read) const {
    const Measurement measurement(*figures_, requests, bytes);
    return read();
  }

  const std::shared_ptr<TimedFileSystem::Figures> figures_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> TimedFileSystem::OpenForReading(const std::string& path,
                                                                                  ReadMode mode,
                                                                                  std::optional<uint64_t> size) {
  std::optional<io::RequestCounter::Scope> scope;
  if (!size) scope.emplace(figures_->requests, 1, 0);
  SHARDKIT_ASSIGN_OR_RETURN(auto file, base().OpenForReading(path, mode, size));
  return std::make_unique<TimedFile>(std::move(file), figures_);
}

void TimedFileSystem::CancelReads() {
  const std::lock_guard lock(figures_->mutex);
  figures_->cancelled = true;
  for (const RandomAccessFile* file : figures_->open) file->CancelReads();
}

absl::StatusOr<FileInfo> TimedFileSystem::Stat(const std::string& path, bool follow) {
  const io::RequestCounter::Scope scope(figures_->requests, 1, 0);
  return base().Stat(path, follow);
}

absl::Status TimedFileSystem::ForEachEntry(const std::string& path, const TakeEntry& take) {
  const io::RequestCounter::Scope scope(figures_->requests, 1, 0);
  return base().ForEachEntry(path, take);
}

absl::StatusOr<std::string> TimedFileSystem::ReadFile(const std::string& path, uint64_t limit) {
  const io::RequestCounter::Scope scope(figures_->requests, 1, 0);
  absl::StatusOr<std::string> content = base().ReadFile(path, limit);
  if (content.ok()) figures_->requests.AddBytes(content->size());
  return content;
}

}  // namespace shardkit::loader
