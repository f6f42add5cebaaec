// The bound on what few bytes may decompress to.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "base/errors.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

// ResourceExhausted when decompressing `stored` bytes to `raw` passes the limits of `options`.
inline absl::Status CheckDecompression(const ReadOptions& options, uint64_t stored, uint64_t raw) {
  if (raw > options.max_block_memory) {
    return ResourceExhausted("decompresses to ", raw, " bytes, over the limit of ", options.max_block_memory);
  }
  if (raw - std::min(raw, stored) > options.max_decompression) {
    return ResourceExhausted(stored, " compressed bytes decompress to ", raw, ", more than the limit of ",
                             options.max_decompression,
                             " beyond them; raise it where the data is trusted (--max-decompression)");
  }
  return absl::OkStatus();
}

}  // namespace shardkit
