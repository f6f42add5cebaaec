// Where the values in a WebDataset's tar lie, and the shard beside the tar that stores this (format-spec/interop.md).
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::foreign {

inline constexpr uint64_t kTarBlockBytes = 512;

// Limits of a tar. One above them is refused.
inline constexpr uint64_t kMaxTarValues = uint64_t{1} << 26;
inline constexpr uint64_t kMaxTarKeyBytes = 32768;
inline constexpr uint64_t kMaxTarKeysLength = uint64_t{4} << 30;

// Limits of a block of more than one sample.
inline constexpr uint64_t kMaxTarBlockSpan = uint64_t{4} << 20;  // bytes of the tar from its first value to the next's
inline constexpr uint64_t kMaxTarBlockPlaces = uint64_t{1} << 20;  // samples times columns, the key column included
inline constexpr uint64_t kMaxTarBlockKeys = uint64_t{4} << 20;    // bytes

// The identity is made from this many bytes at the start of the tar and this many at its end.
inline constexpr uint64_t kTarIdentityBytes = 65536;

struct TarValue {
  uint64_t offset = 0;  // of the first byte in the tar, or in the decompressed tar
  uint64_t length = 0;
  uint32_t column = 0;

  bool operator==(const TarValue&) const = default;
};

// Consecutive samples of a tar, and their values in the same order.
struct TarSamples {
  std::string keys;                     // one after the other
  std::vector<uint64_t> key_ends{0};    // key i is bytes [key_ends[i], key_ends[i + 1]) of `keys`
  std::vector<uint64_t> value_ends{0};  // sample i has the values [value_ends[i], value_ends[i + 1])
  std::vector<TarValue> values;
  std::vector<uint64_t> checksums;  // XXH3-64 of each value, or empty

  bool operator==(const TarSamples&) const = default;

  uint64_t sample_count() const { return key_ends.size() - 1; }
  std::string_view key(uint64_t sample) const {
    return std::string_view(keys).substr(key_ends[sample], key_ends[sample + 1] - key_ends[sample]);
  }
  uint64_t memory() const;  // approximate number of bytes
};

// Neighbouring samples that are read together: a block of the index.
struct TarBlock {
  uint64_t first_sample = 0;
  uint64_t offset = 0;  // of the first value's first byte in the tar

  bool operator==(const TarBlock&) const = default;
};

// Plain data. All samples of a tar, or none of them where they are left in the index.
struct TarIndex : TarSamples {
  uint64_t tar_length = 0;
  uint64_t identity = 0;             // set only for an index that is stored, else 0
  std::vector<std::string> columns;  // names, without the key column
  // In the order of the tar, and behind them one that tells where the last one ends: what would come next. Empty until
  // they are formed.
  std::vector<TarBlock> blocks;

  bool operator==(const TarIndex&) const = default;

  uint64_t memory() const { return TarSamples::memory() + sizeof(TarBlock) * blocks.capacity(); }
};

// XXH3-64 of the first kTarIdentityBytes of the tar followed by its last kTarIdentityBytes. For a shorter tar, both
// parts are the whole tar.
uint64_t TarIdentity(std::string_view first, std::string_view last);

// The blocks of an index with all samples. A sample reaches from its first value to the first value of the next one.
std::vector<TarBlock> FormTarBlocks(const TarIndex& index);

// Columns of the shard that stores an index. A sample of it is a sample of the tar; its values are arrays with an
// element for each value of that, in their order.
enum TarIndexColumn : size_t { kTarKey, kTarColumn, kTarOffset, kTarLength, kTarXxh3, kTarIndexColumns };

// Names of its metadata.
inline constexpr std::string_view kTarLengthName = "shardkit.tar_length";      // bytes, decimal
inline constexpr std::string_view kTarIdentityName = "shardkit.tar_identity";  // TarIdentity, 16 hexadecimal digits
inline constexpr std::string_view kTarBlocksName = "shardkit.tar_blocks";      // offsets of all of TarIndex::blocks

// The schema and the metadata of that shard. `index` has blocks.
Schema TarIndexSchema(const std::vector<std::string>& columns);
Metadata TarIndexMetadata(const TarIndex& index);

// The index without its samples, from what a shard says of itself. DataLoss when that is no index of a tar.
absl::StatusOr<TarIndex> DecodeTarIndex(const Schema& schema, const Metadata& metadata,
                                        std::span<const BlockInfo> blocks);

// The samples of block `block`, of which `view` has all columns. DataLoss when they cannot be those of a tar.
absl::StatusOr<TarSamples> DecodeTarBlock(const TarIndex& index, size_t block, const BlockView& view);

}  // namespace shardkit::foreign
