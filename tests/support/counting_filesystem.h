// A file system that counts what is read through it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/request_counter.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// One request for bytes of a file.
struct ReadRecord {
  uint64_t offset = 0;
  uint64_t length = 0;
};

namespace test {

// Passes all calls on to another file system, which must outlive it and is used for reading only. Thread-safe.
class CountingFileSystem final : public ForwardingReadableFileSystem {
 public:
  explicit CountingFileSystem(ReadableFileSystem* base) : ForwardingReads(*base), log_(std::make_shared<Log>()) {}

  // All requests for bytes since the last Reset, in their order.
  std::vector<ReadRecord> reads() const {
    std::lock_guard lock(log_->mutex);
    return log_->reads;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const ReadRecord& read : reads()) sum += read.length;
    return sum;
  }

  // What a remote file system would have sent since the last Reset: reads, Stat, List, and opening files of unknown
  // size; and how many of these waited for each other.
  uint64_t requests() const { return log_->counter->requests(); }
  uint64_t round_trips() const { return log_->counter->round_trips(); }

  // REQUIRES: no request is under way.
  void Reset() {
    std::lock_guard lock(log_->mutex);
    log_->reads.clear();
    log_->counter.emplace();
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path,
                                                                   ReadMode mode = ReadMode::kBuffered,
                                                                   std::optional<uint64_t> size = {}) override {
    if (!size) Count();
    auto file = base().OpenForReading(path, mode, size);
    if (!file.ok()) return file.status();
    return std::make_unique<File>(*std::move(file), log_);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    Count();
    return base().Stat(path, follow);
  }
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    Count();
    return base().ForEachEntry(path, take);
  }
  // The size of a file comes with its bytes.
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override {
    absl::StatusOr<std::string> content = base().ReadFile(path, limit);
    const ReadRequest request{0, content.ok() ? std::span<char>(*content) : std::span<char>()};
    log_->Read({&request, 1}, [] { return absl::OkStatus(); }).IgnoreError();
    return content;
  }

 private:
  struct Log {
    template <typename Send>
    absl::Status Read(std::span<const ReadRequest> requests, const Send& send) {
      Add(requests);
      const io::RequestCounter::Scope scope(*counter, requests.size(), 0);
      return send();
    }

    void Add(std::span<const ReadRequest> requests) {
      std::lock_guard lock(mutex);
      for (const ReadRequest& request : requests) reads.push_back({request.offset, request.buffer.size()});
    }

    std::mutex mutex;
    std::vector<ReadRecord> reads;
    std::optional<io::RequestCounter> counter{std::in_place};
  };

  // Without a memory map, so that every byte is asked for.
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<Log> log)
        : ForwardingFile(std::move(base)), log_(std::move(log)) {}
    std::optional<std::string_view> Mapped() const override { return std::nullopt; }
    absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
      const ReadRequest request{offset, buffer};
      return log_->Read({&request, 1}, [&] { return ForwardingFile::ReadAt(offset, buffer); });
    }
    absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
      return log_->Read(requests, [&] { return ForwardingFile::ReadBatch(requests); });
    }
    void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
      log_->Add(requests);
      auto scope = std::make_shared<io::RequestCounter::Scope>(*log_->counter, requests.size(), 0);
      base().StartRead(requests, [scope = std::move(scope), done = std::move(done)](absl::Status status) mutable {
        scope.reset();
        done(std::move(status));
      });
    }

   private:
    const std::shared_ptr<Log> log_;
  };

  void Count() { const io::RequestCounter::Scope scope(*log_->counter, 1, 0); }

  const std::shared_ptr<Log> log_;
};

}  // namespace test
}  // namespace shardkit
