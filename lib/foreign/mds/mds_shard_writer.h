// Making shards of MDS (format-spec/interop.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreign/mds/mds_text.h"
#include "shardkit/sample.h"

namespace shardkit::foreign {

// Samples of one shard, one after another.
struct MdsSamples {
  std::string bytes;
  std::vector<uint64_t> ends;  // of each, within `bytes`
};

// Appends a sample. Value i belongs to columns[i], is in our form, and is stored with encodings[i]. Values that are
// files are read. InvalidArgument, naming the column, for a value that is absent or that MDS cannot hold. On an error
// nothing is appended.
absl::Status AppendMdsSample(std::span<const Column> columns, std::span<const MdsColumn> encodings,
                             std::span<const std::optional<Value>> values, std::string* out);

// The largest shard: its offsets have 32 bits.
inline constexpr uint64_t kMaxMdsShardBytes = UINT32_MAX;

// Bytes of a shard with `samples` samples of `sample_bytes` bytes in all. `header_bytes` is the length of
// FormatMdsHeader's result.
uint64_t MdsShardLength(uint64_t header_bytes, uint64_t samples, uint64_t sample_bytes);

// A whole shard in memory, ready to be written.
struct EncodedMdsShard {
  std::string head;  // in front of `body`; empty when compressed
  std::string body;
  MdsShard described;  // as the index describes it

  const std::string& name() const { return described.zip ? described.zip->name : described.raw.name; }
};

// Pure: may run on any thread. The compression in `settings` must be zstd or empty, and its hashes must be ones that
// this build can compute.
absl::StatusOr<EncodedMdsShard> EncodeMdsShard(const MdsSettings& settings, std::string_view header, MdsSamples samples,
                                               uint64_t number);

// The level of "zstd" or "zstd:LEVEL". InvalidArgument for anything else.
absl::StatusOr<int> ParseMdsCompression(std::string_view compression);

}  // namespace shardkit::foreign
