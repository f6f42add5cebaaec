#include "format/chunk_checker.h"

#include <algorithm>

#include "base/checked.h"

namespace shardkit::format {

ChunkChecker::ChunkChecker(const Schema& schema, const BlockHeader& header) {
  for (size_t i = 0; i < header.columns.size(); ++i) {
    const ColumnEntry& entry = header.columns[i];
    chunks_.push_back({i, RoundUp(entry.stored_length, kChunkAlignment), entry.checksum});
  }
  for (const size_t i : schema.values_columns()) {
    const ColumnEntry& entry = header.columns[i];
    chunks_.push_back({i, RoundUp(entry.values_length, kChunkAlignment), entry.values_checksum});
  }
  EndChunks();
}

void ChunkChecker::Update(std::string_view bytes) {
  while (!bytes.empty() && next_ < chunks_.size()) {
    const std::string_view piece = bytes.substr(0, chunks_[next_].length - done_);
    hash_.Update(piece);
    done_ += piece.size();
    bytes.remove_prefix(piece.size());
    EndChunks();
  }
}

// A loop, because chunks may be empty.
void ChunkChecker::EndChunks() {
  for (; next_ < chunks_.size() && done_ == chunks_[next_].length; ++next_, done_ = 0) {
    const Chunk& chunk = chunks_[next_];
    if (hash_.Digest() != chunk.checksum) {
      const auto place = std::ranges::lower_bound(damaged_, chunk.column);
      if (place == damaged_.end() || *place != chunk.column) damaged_.insert(place, chunk.column);
    }
    hash_.Reset();
  }
}

}  // namespace shardkit::format
