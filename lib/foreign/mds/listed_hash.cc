#include "foreign/mds/listed_hash.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"

namespace shardkit::foreign {
std::shared_ptr<ListedHash> ListedHash::Choose(std::span<const std::pair<std::string, std::string>> names_and_digits,
                                               std::string_view listed_by) {
  const auto first = [&](auto&& suits) { return std::ranges::find_if(names_and_digits, suits); };
  auto chosen = first([](const auto& hash) { return IsXxHashName(hash.first); });
  if (chosen == names_and_digits.end())
    chosen = first([](const auto& hash) { return NamedHash::Create(hash.first).ok(); });
  if (chosen == names_and_digits.end()) return nullptr;
  return std::make_shared<ListedHash>(chosen->first, chosen->second, listed_by);
}

absl::Status ListedHash::Compare(std::string_view place, std::string_view found) const {
  if (found == digits_) return absl::OkStatus();
  return DataLoss(place, ": ", name_, " is ", found, ", but ", listed_by_, " says ", digits_,
                  ": the file was damaged or replaced; get it again, or read it as it is (--no-verify-hashes)");
}

absl::Status ListedHash::Check(const RandomAccessFile& file) {
  if (right_.load(std::memory_order_relaxed)) return absl::OkStatus();
  std::lock_guard lock(mutex_);
  if (right_.load(std::memory_order_relaxed) || !wrong_.ok()) return wrong_;
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<NamedHash> hash, NamedHash::Create(name_));
  Buffer piece;
  for (uint64_t position = 0; position < file.size(); position += piece.size()) {
    piece.resize_discard(std::min(kCopyPiece, file.size() - position));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(position, {piece.data(), piece.size()}));
    hash->Update(piece.view());
  }
  wrong_ = Compare(file.path(), hash->HexDigest());
  right_.store(wrong_.ok(), std::memory_order_relaxed);
  return wrong_;
}

absl::Status ListedHash::Check(std::string_view place, std::string_view bytes) {
  if (right_.load(std::memory_order_relaxed) && !IsXxHashName(name_)) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(const std::string found, HexDigestOf(name_, bytes));
  SHARDKIT_RETURN_IF_ERROR(Compare(place, found));
  right_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace shardkit::foreign
