// A file of which a part is on its way since it was opened.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "io/started_read.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// Thread-safe.
class TailPrefetchFile final : public ForwardingFile {
 public:
  // Starts to read the last `length` bytes of `base`, or all of it when it is shorter. Reads within them wait for that.
  TailPrefetchFile(std::unique_ptr<RandomAccessFile> base, uint64_t length)
      : ForwardingFile(std::move(base)), bytes_(std::min(length, size()), '\0'), offset_(size() - bytes_.size()) {
    const ReadRequest request{offset_, bytes_};
    read_.emplace(this->base(), std::span(&request, 1));
  }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!Within({offset, buffer})) return ForwardingFile::ReadAt(offset, buffer);
    SHARDKIT_RETURN_IF_ERROR(read_->Wait());
    std::string again;
    if (!FirstAt(offset)) {
      again.resize(bytes_.size());
      SHARDKIT_RETURN_IF_ERROR(ForwardingFile::ReadAt(offset_, again));
    }
    const std::string& bytes = again.empty() ? bytes_ : again;
    std::memcpy(buffer.data(), bytes.data() + (offset - offset_), buffer.size());
    return absl::OkStatus();
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return Within(requests) ? RandomAccessFile::ReadBatch(requests) : ForwardingFile::ReadBatch(requests);
  }

  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    Within(requests) ? RandomAccessFile::StartRead(requests, std::move(done))
                     : base().StartRead(requests, std::move(done));
  }

 private:
  bool Within(const ReadRequest& request) const {
    return request.offset >= offset_ && request.offset <= size() && request.buffer.size() <= size() - request.offset;
  }
  bool Within(std::span<const ReadRequest> requests) const {
    return std::ranges::all_of(requests, [this](const ReadRequest& request) { return Within(request); });
  }

  // What is read a second time may have arrived damaged, and is fetched again as it was fetched.
  bool FirstAt(uint64_t offset) const {
    const std::lock_guard lock(mutex_);
    return served_.insert(offset).second;
  }

  mutable std::mutex mutex_;
  mutable std::set<uint64_t> served_;  // offsets
  std::string bytes_;
  const uint64_t offset_;
  std::optional<StartedRead> read_;  // last: it writes to the bytes until it ends
};

// Opens a file of known length whose last `length` bytes are needed first. They are not read where it is mapped. A file
// of at most `whole` bytes is read whole where that takes about as long as its end alone: up to 128 KiB, or up to the
// gap that is worth bridging (ReadHints).
inline absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenWithTail(ReadableFileSystem& file_system,
                                                                      const std::string& path, uint64_t size,
                                                                      uint64_t length, uint64_t whole = 0) {
  auto file = file_system.OpenForReading(path, ReadMode::kMapped, size);
  if (!file.ok() || (*file)->Mapped()) return file;
  const uint64_t cheap = std::max((*file)->hints().bridge_gap_bytes, uint64_t{128} << 10);
  return std::make_unique<TailPrefetchFile>(*std::move(file), size <= std::min(cheap, whole) ? size : length);
}

}  // namespace shardkit::io
