// Small reads of a file, each of which takes along what lies around it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "io/read_again.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// Reads pieces of the file of one size, keeps the pieces that were used last, and serves reads of up to a sixteenth of
// that size from them. For files far away, of which a request takes long and brings a piece almost as soon as a few
// bytes. Thread-safe; threads that need the same piece wait for one request.
class ReadAheadFile final : public ForwardingFile {
 public:
  ReadAheadFile(std::unique_ptr<RandomAccessFile> base, uint64_t piece_bytes, size_t most_pieces)
      : ForwardingFile(std::move(base)), piece_bytes_(piece_bytes), most_pieces_(most_pieces) {}

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const bool within = offset <= size() && buffer.size() <= size() - offset;
    if (!within || buffer.size() > piece_bytes_ / 16 || BypassCaches::on()) {
      return ForwardingFile::ReadAt(offset, buffer);
    }
    while (!buffer.empty()) {
      const uint64_t number = offset / piece_bytes_, begin = offset % piece_bytes_;
      const auto length = static_cast<size_t>(std::min<uint64_t>(buffer.size(), piece_bytes_ - begin));
      const std::shared_ptr<Piece> piece = Get(number);
      const std::lock_guard lock(piece->mutex);
      if (piece->bytes.empty()) {
        std::string bytes(std::min(piece_bytes_, size() - number * piece_bytes_), '\0');
        SHARDKIT_RETURN_IF_ERROR(ForwardingFile::ReadAt(number * piece_bytes_, bytes));
        piece->bytes = std::move(bytes);
      }
      std::memcpy(buffer.data(), piece->bytes.data() + begin, length);
      buffer = buffer.subspan(length);
      offset += length;
    }
    return absl::OkStatus();
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return RandomAccessFile::ReadBatch(requests);
  }
  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    RandomAccessFile::StartRead(requests, std::move(done));
  }

 private:
  struct Piece {
    explicit Piece(uint64_t place) : number(place) {}
    const uint64_t number;
    std::mutex mutex;
    std::string bytes;  // empty until they are read
  };

  std::shared_ptr<Piece> Get(uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(pieces_, [&](const auto& piece) { return piece->number == number; });
    if (found != pieces_.end()) {
      pieces_.splice(pieces_.begin(), pieces_, found);
    } else {
      pieces_.push_front(std::make_shared<Piece>(number));
      if (pieces_.size() > most_pieces_) pieces_.pop_back();
    }
    return pieces_.front();
  }

  const uint64_t piece_bytes_;
  const size_t most_pieces_;
  mutable std::mutex mutex_;
  mutable std::list<std::shared_ptr<Piece>> pieces_;  // the one used last is the first
};

}  // namespace shardkit::io
