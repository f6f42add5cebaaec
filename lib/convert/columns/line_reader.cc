#include "convert/columns/line_reader.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::convert {
namespace {

constexpr size_t kLinePieceBytes = size_t{1} << 20;
constexpr size_t kMostBytes = size_t{1} << 30;

}  // namespace

void LineReader::Rewind() {
  begin_ = end_ = 0;
  offset_ = number_ = 0;
}

absl::StatusOr<bool> LineReader::Next(std::string_view* line) {
  size_t searched = begin_;
  while (true) {
    const void* const feed = end_ == searched ? nullptr : std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    if (feed != nullptr || (offset_ == file_->size() && end_ > begin_)) {
      const size_t end = feed != nullptr ? static_cast<size_t>(static_cast<const char*>(feed) - buffer_.data()) : end_;
      *line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = feed != nullptr ? end + 1 : end;
      ++number_;
      return true;
    }
    if (offset_ == file_->size()) return false;
    searched = end_ - begin_;
    if (searched > kMostBytes) return ResourceExhausted(path(), ": line ", number_ + 1, ": has more than 1 GiB");
    if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, searched);
    begin_ = 0;
    end_ = searched;
    const auto more = static_cast<size_t>(std::min<uint64_t>(std::max(kLinePieceBytes, end_), file_->size() - offset_));
    if (buffer_.size() < end_ + more) buffer_.resize(end_ + more);
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(offset_, {buffer_.data() + end_, more}));
    if (offset_ == 0 && std::string_view(buffer_).starts_with("\xEF\xBB\xBF")) begin_ = 3;
    end_ += more;
    offset_ += more;
    searched = std::max(searched, begin_);
  }
}

}  // namespace shardkit::convert
