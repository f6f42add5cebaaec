#include "dataset/write/duplicate_key_finder.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {
namespace {

constexpr size_t kMostNamed = 3;

// Samples of one input may have the same key any number of times.
constexpr size_t kMostOfAHash = 16;

}  // namespace

uint64_t DuplicateKeyFinder::InputOf(uint64_t ordinal) const {
  if (ends_.empty()) return ordinal;
  return static_cast<uint64_t>(std::ranges::upper_bound(ends_, ordinal) - ends_.begin());
}

absl::Status DuplicateKeyFinder::Add(const format::KeyEntry& entry) {
  if (removed_ != nullptr && removed_->Has(entry.ordinal)) return absl::OkStatus();
  if (same_.empty() || entry.hash != hash_) {
    hash_ = entry.hash;
    same_.assign(1, entry.ordinal);
    return absl::OkStatus();
  }
  // The ordinals of a hash ascend: when the first is of the same input, so are all.
  if (InputOf(same_[0]) == InputOf(entry.ordinal)) {
    if (!found_ && same_.size() < kMostOfAHash) same_.push_back(entry.ordinal);
    return absl::OkStatus();
  }
  if (found_) {
    // Two keys of one hash are too rare to read all for.
    ++found_->count;
    if (ends_.empty() || hash_ == named_hash_ || found_->more.size() + 1 == kMostNamed) return absl::OkStatus();
    named_hash_ = hash_;
    SHARDKIT_ASSIGN_OR_RETURN(found_->more.emplace_back(), KeyOf(entry.ordinal));
    return absl::OkStatus();
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string key, KeyOf(entry.ordinal));
  for (const uint64_t before : same_) {
    if (InputOf(before) == InputOf(entry.ordinal)) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const std::string other, KeyOf(before));
    if (key != other) continue;
    found_ = {key, before, entry.ordinal, 1, {}};
    named_hash_ = hash_;
    return absl::OkStatus();
  }
  if (same_.size() < kMostOfAHash) same_.push_back(entry.ordinal);
  return absl::OkStatus();
}

absl::StatusOr<std::string> DuplicateKeyFinder::KeyOf(uint64_t ordinal) const {
  for (const ManifestShard& shard : shards_) {
    if (ordinal >= shard.samples) {
      ordinal -= shard.samples;
      continue;
    }
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(file_system_, JoinPath(directory_, shard.name)));
    const std::optional<size_t> column = reader->schema().key_column();
    if (!column) return DataLoss(reader->path(), ": has no key column, unlike its key table");
    BlockBuffer buffer;
    SHARDKIT_ASSIGN_OR_RETURN(const auto key, reader->ReadValue(ordinal, *column, &buffer));
    return std::string(key.value_or(std::string_view()));
  }
  return Internal(directory_, ": a key table names a sample that is in no shard");
}

}  // namespace shardkit::dataset
