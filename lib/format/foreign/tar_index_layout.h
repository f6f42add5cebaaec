// Where the values in a WebDataset's tar lie, and the sidecar file that stores this (format-spec/interop.md). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::format {

inline constexpr uint64_t kTarBlockBytes = 512;

// Limits of an index. An index above them is refused.
inline constexpr uint64_t kMaxTarValues = uint64_t{1} << 26;
inline constexpr uint64_t kMaxTarKeyBytes = 32768;
inline constexpr uint64_t kMaxTarKeysLength = uint64_t{4} << 30;

inline constexpr uint64_t kTarIndexHeaderBytes = 128;
inline constexpr uint64_t kTarIndexValueBytes = 32;
inline constexpr uint64_t kTarIndexSampleBytes = 16;

// The identity is made from this many bytes at the start of the tar and this many at its end.
inline constexpr uint64_t kTarIdentityBytes = 65536;

struct TarValue {
  uint64_t offset = 0;  // of the first byte in the tar, or in the decompressed tar
  uint64_t length = 0;
  uint32_t column = 0;

  bool operator==(const TarValue&) const = default;
};

// Plain data. Samples and values are in the order of the tar.
struct TarIndex {
  uint64_t tar_length = 0;
  uint64_t identity = 0;                // set only for a sidecar, else 0
  std::vector<std::string> columns;     // names, without the key column
  std::string keys;                     // one after the other
  std::vector<uint64_t> key_ends{0};    // key i is bytes [key_ends[i], key_ends[i + 1]) of `keys`
  std::vector<uint64_t> value_ends{0};  // sample i has the values [value_ends[i], value_ends[i + 1])
  std::vector<TarValue> values;
  std::vector<uint64_t> checksums;  // XXH3-64 of each value, or empty

  bool operator==(const TarIndex&) const = default;

  uint64_t sample_count() const { return key_ends.size() - 1; }
  std::string_view key(uint64_t sample) const {
    return std::string_view(keys).substr(key_ends[sample], key_ends[sample + 1] - key_ends[sample]);
  }
  uint64_t memory() const;  // approximate number of bytes
};

// XXH3-64 of the first kTarIdentityBytes of the tar followed by its last kTarIdentityBytes. For a shorter tar, both
// parts are the whole tar.
uint64_t TarIdentity(std::string_view first, std::string_view last);

// `index` has checksums.
std::string EncodeTarIndex(const TarIndex& index);

// DataLoss for anything that EncodeTarIndex does not write; Unimplemented for a later version.
absl::StatusOr<TarIndex> DecodeTarIndex(std::string_view bytes);

}  // namespace shardkit::format
