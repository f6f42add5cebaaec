#include "dataset/check/repair_scan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "format/block_header.h"
#include "format/chunk.h"

namespace shardkit::dataset {
namespace {

constexpr uint64_t kWindow = uint64_t{1} << 20;

// Overlapping headers and damaged blocks, which do not occur by accident, could cost time quadratic in the file's
// length. This limits the bytes hashed in vain to so many times the file's length, plus kFailedFree for small files.
constexpr uint64_t kFailedShare = 16;
constexpr uint64_t kFailedFree = uint64_t{16} << 20;

class Scan {
 public:
  Scan(const RandomAccessFile& file, const HeaderFinding& header, const std::vector<uint64_t>& more_places,
       const Cancellation* cancellation, const std::function<void(uint64_t)>& progress)
      : file_(file),
        header_(header),
        more_places_(more_places),
        cancellation_(cancellation),
        progress_(progress),
        header_length_(format::BlockHeaderLength(header.header.schema.size())) {}

  absl::StatusOr<ScanResult> Run() {
    const uint64_t size = file_.size();
    // A block may lie at the very front, when the header before it was removed.
    uint64_t place = header_.base % format::kMinAlignment;
    for (; place < size; place = NextPlace(place)) {
      while (next_more_ < more_places_.size() && more_places_[next_more_] < place) ++next_more_;
      SHARDKIT_ASSIGN_OR_RETURN(const std::string_view magic, Peek(place));
      if (magic != format::kBlockMagic) continue;
      SHARDKIT_ASSIGN_OR_RETURN(const uint64_t end, TakeBlock(place));
      if (end > place) place = end - 1;  // NextPlace continues at `end`
    }
    return std::move(result_);
  }

 private:
  uint64_t NextPlace(uint64_t place) {
    const uint64_t phase = header_.base % format::kMinAlignment;
    const uint64_t regular = phase + RoundUp(place + 1 - std::min(place, phase), format::kMinAlignment);
    while (next_more_ < more_places_.size() && more_places_[next_more_] <= place) ++next_more_;
    return next_more_ < more_places_.size() ? std::min(regular, more_places_[next_more_]) : regular;
  }

  // Eight bytes at `place`, fewer at the end of the file.
  absl::StatusOr<std::string_view> Peek(uint64_t place) {
    const uint64_t wanted = std::min<uint64_t>(8, file_.size() - place);
    if (place < window_begin_ || place + wanted > window_begin_ + window_.size()) {
      if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("looking for blocks"));
      if (progress_) progress_(place);
      window_begin_ = place;
      window_.resize_discard(std::min(kWindow, file_.size() - place));
      SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(place, {window_.data(), window_.size()}));
    }
    return window_.view().substr(place - window_begin_, wanted);
  }

  // Returns where to continue: after the block when it is whole, else at `place`.
  absl::StatusOr<uint64_t> TakeBlock(uint64_t place) {
    if (!RangeWithin(place, header_length_, file_.size()) || !MayTry(header_length_)) return place;
    bytes_.resize(header_length_);
    SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(place, {bytes_.data(), bytes_.size()}));
    if (!format::DecodeBlockHeader(header_.header.schema, bytes_, &block_).ok() ||
        block_.shard_id != header_.header.shard_id) {
      failed_bytes_ += header_length_;
      return place;
    }
    FoundBlock found;
    found.info = {place,          block_.block_length, block_.front_length, block_.first_sample, block_.sample_count,
                  block_.checksum};
    found.cut_short = !RangeWithin(place, block_.block_length, file_.size());
    if (!found.cut_short) SHARDKIT_RETURN_IF_ERROR(CheckChunks(&found));
    const uint64_t length = std::min(block_.block_length, file_.size() - place);
    if (!found.whole) claimed_ = std::max(claimed_, place + length);
    result_.blocks.push_back(std::move(found));
    return result_.blocks.back().whole ? place + length : place;
  }

  absl::Status CheckChunks(FoundBlock* found) {
    const uint64_t length = found->info.length;
    if (found->info.offset < claimed_ && !MayTry(length)) return absl::OkStatus();
    format::ChunkChecker checker(header_.header.schema, block_);
    for (uint64_t done = header_length_; done < length; done += piece_.size()) {
      if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("checking blocks"));
      piece_.resize_discard(std::min(kCopyPiece, length - done));
      SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(found->info.offset + done, {piece_.data(), piece_.size()}));
      checker.Update(piece_.view());
    }
    found->damaged_columns = checker.damaged_columns();
    found->whole = found->damaged_columns.empty();
    if (!found->whole) failed_bytes_ += length;
    return absl::OkStatus();
  }

  bool MayTry(uint64_t length) {
    if (failed_bytes_ + length <= kFailedShare * file_.size() + kFailedFree) return true;
    result_.gave_up = true;
    return false;
  }

  const RandomAccessFile& file_;
  const HeaderFinding& header_;
  const std::vector<uint64_t>& more_places_;
  const Cancellation* const cancellation_;
  const std::function<void(uint64_t)>& progress_;
  const uint64_t header_length_;
  size_t next_more_ = 0;
  uint64_t claimed_ = 0;  // where the damaged blocks so far would end
  uint64_t failed_bytes_ = 0;
  ScanResult result_;
  format::BlockHeader block_;
  std::string bytes_;
  Buffer window_;
  Buffer piece_;
  uint64_t window_begin_ = 0;
};

}  // namespace

absl::StatusOr<ScanResult> ScanForBlocks(const RandomAccessFile& file, const HeaderFinding& header,
                                         const std::vector<uint64_t>& more_places, const Cancellation* cancellation,
                                         const std::function<void(uint64_t)>& progress) {
  return Scan(file, header, more_places, cancellation, progress).Run();
}

}  // namespace shardkit::dataset
