#include "loader/timed_filesystem.h"

#include <utility>

#include "base/status_macros.h"

namespace shardkit::loader {
namespace {

class TimedFile : public RandomAccessFile {
 public:
  TimedFile(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<std::atomic<int64_t>> ticks)
      : base_(std::move(base)), ticks_(std::move(ticks)) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }
  uint64_t alignment() const override { return base_->alignment(); }
  std::optional<std::string_view> Mapped() const override { return base_->Mapped(); }
  absl::Status CheckMapped() const override { return base_->CheckMapped(); }
  void WillNeed(uint64_t offset, uint64_t length) const override { base_->WillNeed(offset, length); }
  void WontNeed(uint64_t offset, uint64_t length) const override { base_->WontNeed(offset, length); }
  std::string fallback_reason() const override { return base_->fallback_reason(); }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const auto begin = std::chrono::steady_clock::now();
    absl::Status status = base_->ReadAt(offset, buffer);
    *ticks_ += (std::chrono::steady_clock::now() - begin).count();
    return status;
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests, int depth) const override {
    const auto begin = std::chrono::steady_clock::now();
    absl::Status status = base_->ReadBatch(requests, depth);
    *ticks_ += (std::chrono::steady_clock::now() - begin).count();
    return status;
  }

 private:
  const std::unique_ptr<RandomAccessFile> base_;
  const std::shared_ptr<std::atomic<int64_t>> ticks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> TimedFileSystem::OpenForReading(const std::string& path,
                                                                                  ReadMode mode) {
  SHARDKIT_ASSIGN_OR_RETURN(auto file, base_.OpenForReading(path, mode));
  return std::make_unique<TimedFile>(std::move(file), read_ticks_);
}

}  // namespace shardkit::loader
