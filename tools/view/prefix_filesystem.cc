#include "view/prefix_filesystem.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/filesystem.h"
#include "shardkit/tar_index.h"

namespace shardctl {
namespace {

// Parts of at most this size are read at once where each request takes long, instead of header by header.
constexpr uint64_t kReadWhole = uint64_t{32} << 20;
constexpr uint64_t kRequest = uint64_t{512} << 10;

class Beginning final : public shardkit::ForwardingFile {
 public:
  Beginning(std::unique_ptr<shardkit::RandomAccessFile> base, uint64_t bytes,
            const shardkit::Cancellation& cancellation)
      : ForwardingFile(std::move(base)),
        size_(std::min(bytes, ForwardingFile::size())),
        in_memory_(size_ <= kReadWhole && hints().worth_reading_again),
        cancellation_(cancellation) {}

  uint64_t size() const override { return size_; }

  // A part is not the file that this name stands for.
  std::string identity() const override { return size_ == ForwardingFile::size() ? ForwardingFile::identity() : ""; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const shardkit::ReadRequest request{offset, buffer};
    return ReadBatch({&request, 1});
  }
  absl::Status ReadBatch(std::span<const shardkit::ReadRequest> requests) const override {
    for (const shardkit::ReadRequest& request : requests) {
      if (request.offset > size_ || request.buffer.size() > size_ - request.offset) {
        return absl::OutOfRangeError(path() + ": a read past the part that is known so far");
      }
    }
    if (absl::Status status = cancellation_.Check("looking for samples"); !status.ok()) return status;
    if (!in_memory_) return base().ReadBatch(requests);
    if (absl::Status status = Load(); !status.ok()) return status;
    for (const shardkit::ReadRequest& request : requests) {
      std::copy_n(bytes_.data() + request.offset, request.buffer.size(), request.buffer.data());
    }
    return absl::OkStatus();
  }
  std::optional<std::string_view> Mapped() const override {
    const auto mapped = base().Mapped();
    return mapped ? std::optional(mapped->substr(0, size_)) : std::nullopt;
  }

 private:
  absl::Status Load() const {
    const std::lock_guard lock(mutex_);
    if (bytes_.size() == size_) return absl::OkStatus();
    std::string bytes(size_, '\0');
    std::vector<shardkit::ReadRequest> requests;
    for (uint64_t offset = 0; offset < size_; offset += kRequest) {
      requests.push_back({offset, std::span(bytes).subspan(offset, std::min(kRequest, size_ - offset))});
    }
    if (absl::Status status = base().ReadBatch(requests); !status.ok()) return status;
    bytes_ = std::move(bytes);
    return absl::OkStatus();
  }

  const uint64_t size_;
  const bool in_memory_;
  const shardkit::Cancellation& cancellation_;
  mutable std::mutex mutex_;
  mutable std::string bytes_;  // all of them, once they are read
};

class BeginningsOnly final : public shardkit::ForwardingReadableFileSystem {
 public:
  BeginningsOnly(shardkit::ReadableFileSystem& base, uint64_t bytes, const shardkit::Cancellation& cancellation)
      : shardkit::ForwardingReadableFileSystem(base), bytes_(bytes), cancellation_(cancellation) {}

  absl::StatusOr<std::unique_ptr<shardkit::RandomAccessFile>> OpenForReading(const std::string& path,
                                                                             shardkit::ReadMode mode,
                                                                             std::optional<uint64_t> size) override {
    if (IsIndex(path)) return absl::NotFoundError(path + ": not looked at");
    auto file = base().OpenForReading(path, mode, size);
    if (!file.ok() || !shardkit::IsTarPath(path)) return file;
    return std::make_unique<Beginning>(*std::move(file), bytes_, cancellation_);
  }

  absl::StatusOr<shardkit::FileInfo> Stat(const std::string& path, bool follow) override {
    if (IsIndex(path)) return absl::NotFoundError(path + ": not looked at");
    auto info = base().Stat(path, follow);
    if (info.ok() && shardkit::IsTarPath(path)) info->size = std::min(info->size, bytes_);
    return info;
  }

  absl::Status ForEachEntry(const std::string& path, const shardkit::TakeEntry& take) override {
    if (bytes_ == UINT64_MAX) return base().ForEachEntry(path, take);
    std::optional<std::string> first;
    const absl::Status status = base().ForEachEntry(path, [&](const shardkit::ListedEntry& entry) -> absl::Status {
      if (IsIndex(entry.name)) return absl::OkStatus();
      if (!shardkit::IsTarPath(entry.name)) return take(entry);
      if (!first || entry.name < *first) first = entry.name;
      return absl::OkStatus();
    });
    if (!status.ok() || !first) return status;
    return take({*first, shardkit::FileType::kRegular, std::nullopt});
  }

 private:
  bool IsIndex(std::string_view path) const {
    if (bytes_ == UINT64_MAX) return false;
    return path.ends_with(shardkit::kTarIndexSuffix);
  }

  const uint64_t bytes_;
  const shardkit::Cancellation& cancellation_;
};

}  // namespace

std::unique_ptr<shardkit::ReadableFileSystem> BeginningOfTars(shardkit::ReadableFileSystem& base, uint64_t bytes,
                                                              const shardkit::Cancellation& cancellation) {
  return std::make_unique<BeginningsOnly>(base, bytes, cancellation);
}

}  // namespace shardctl
