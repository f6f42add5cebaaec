// Limits on the memory of one block, and on how much compressed bytes may grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "shardkit/shard.h"

namespace shardkit::container {

// ResourceExhausted when `bytes` of one block pass the limit of `options`. `what` is for the message.
inline absl::Status CheckBlockMemory(const ReadOptions& options, uint64_t bytes, std::string_view what) {
  if (bytes <= options.max_block_memory) return absl::OkStatus();
  return ResourceExhausted(what, " ", bytes, " bytes, over the limit of ", options.max_block_memory,
                           " (max_block_memory; in a loader memory_bytes, if that is less); raise it, or copy single "
                           "values instead");
}

// ResourceExhausted when `stored` bytes grow to `raw` by more than `options` allow, whether these are kept or passed
// on.
inline absl::Status CheckGrowth(const ReadOptions& options, uint64_t stored, uint64_t raw) {
  if (raw - std::min(raw, stored) > options.max_decompression) {
    return ResourceExhausted(stored, " compressed bytes decompress to ", raw, ", more than the limit of ",
                             options.max_decompression,
                             " beyond them; raise it where the data is trusted (--max-decompression)");
  }
  return absl::OkStatus();
}

// The same, for a buffer that keeps them all.
inline absl::Status CheckDecompression(const ReadOptions& options, uint64_t stored, uint64_t raw) {
  SHARDKIT_RETURN_IF_ERROR(CheckBlockMemory(options, raw, "decompresses to"));
  return CheckGrowth(options, stored, raw);
}

}  // namespace shardkit::container
