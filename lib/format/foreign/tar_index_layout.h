// Where the values in a WebDataset's tar lie, and the file beside the tar that stores this in checked pages
// (format-spec/interop.md). Pure.
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

// Limits of a page that tells of more than one sample.
inline constexpr uint64_t kMaxTarPageSpan = uint64_t{4} << 20;    // bytes of the tar from its first value to the next's
inline constexpr uint64_t kMaxTarPagePlaces = uint64_t{1} << 20;  // samples times columns, the key column included
inline constexpr uint64_t kMaxTarPageKeys = uint64_t{4} << 20;    // bytes

inline constexpr uint64_t kTarIndexHeaderBytes = 128;
inline constexpr uint64_t kTarPageEntryBytes = 40;  // of the directory
inline constexpr uint64_t kTarPageValueBytes = 32;
inline constexpr uint64_t kTarPageSampleBytes = 8;

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

// Neighbouring samples that are read together, and the page of an index that tells of them.
struct TarBlock {
  uint64_t page_offset = 0;  // in the index; 0 where there is none
  uint64_t first_sample = 0;
  uint64_t first_value = 0;
  uint64_t offset = 0;         // of the first value's first byte in the tar
  uint64_t page_checksum = 0;  // XXH3-64

  bool operator==(const TarBlock&) const = default;
};

// Plain data. All samples of a tar, or none of them where they are left in the pages.
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

// The blocks of an index with all samples, without what an index says about pages. A sample reaches from its first
// value to the first value of the next one.
std::vector<TarBlock> FormTarBlocks(const TarIndex& index);

// `index` has all samples, and checksums. Forms its blocks anew.
std::string EncodeTarIndex(const TarIndex& index);

// Bytes of header, column names and directory, at most `file_length`. `header` is the first kTarIndexHeaderBytes of the
// file, or all of a shorter one. DataLoss for another file; Unimplemented for a later version.
absl::StatusOr<uint64_t> TarIndexFrontLength(std::string_view header, uint64_t file_length);

// The index without its samples, from the first TarIndexFrontLength bytes of the file or more. The key table
// (format/key_table.h) is what follows blocks.back().page_offset. DataLoss and Unimplemented as above.
absl::StatusOr<TarIndex> DecodeTarIndexFront(std::string_view bytes, uint64_t file_length);

// The samples of block `block`, from its page. DataLoss for anything that EncodeTarIndex does not write there.
absl::StatusOr<TarSamples> DecodeTarPage(const TarIndex& index, size_t block, std::string_view page);

// The whole file, but the key table is not looked at.
absl::StatusOr<TarIndex> DecodeTarIndex(std::string_view bytes);

}  // namespace shardkit::format
