#include "dataset/repeated_keys.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

absl::Status RepeatedKeys::Add(const format::KeyEntry& entry) {
  if (same_.empty() || entry.hash != hash_) {
    hash_ = entry.hash;
    same_.assign(1, entry.ordinal);
    return absl::OkStatus();
  }
  if (found_) {
    // Two keys of one hash are too rare to read all for.
    ++found_->count;
    return absl::OkStatus();
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string key, KeyOf(entry.ordinal));
  for (const uint64_t before : same_) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::string other, KeyOf(before));
    if (key != other) continue;
    found_ = {key, before, entry.ordinal, 1};
    return absl::OkStatus();
  }
  same_.push_back(entry.ordinal);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RepeatedKeys::KeyOf(uint64_t ordinal) const {
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

}  // namespace shardkit
