// Shards of MDS while they are made (format-spec/interop.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/foreign/mds_text.h"
#include "shardkit/sample.h"

namespace shardkit {

// Samples of one shard, one after another.
struct MdsSamples {
  std::string bytes;
  std::vector<uint64_t> ends;  // of each, within `bytes`
};

// Appends a sample. Value i is of columns[i], in the form of ours, and is stored under encodings[i]. InvalidArgument,
// naming the column, for a value that MDS cannot hold or that is absent; nothing is appended then. Values that are
// files are read.
absl::Status AppendMdsSample(std::span<const Column> columns, std::span<const format::MdsColumn> encodings,
                             std::span<const std::optional<Value>> values, std::string* out);

// The largest shard: its offsets have 32 bits.
inline constexpr uint64_t kMaxMdsShardBytes = UINT32_MAX;

// Bytes of a shard of `samples` samples that take `sample_bytes`; `header` is FormatMdsHeader's.
uint64_t MdsShardLength(uint64_t header_bytes, uint64_t samples, uint64_t sample_bytes);

// A whole shard in memory, ready to be written.
struct EncodedMdsShard {
  std::string head;  // in front of `body`; empty when compressed
  std::string body;
  format::MdsShard described;  // as the index tells of it

  const std::string& name() const { return described.zip ? described.zip->name : described.raw.name; }
};

// Pure: may run on any thread. `settings` names no other compression than zstd; its hashes are known.
absl::StatusOr<EncodedMdsShard> EncodeMdsShard(const format::MdsSettings& settings, std::string_view header,
                                               MdsSamples samples, uint64_t number);

// The level of "zstd" or "zstd:LEVEL". InvalidArgument for anything else.
absl::StatusOr<int> ParseMdsCompression(std::string_view compression);

}  // namespace shardkit
