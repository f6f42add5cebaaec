// Numbers of format-spec/spec.md that more than one part of the format layer needs.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardkit::format {

inline constexpr std::string_view kHeaderMagic{"\x89SHK\r\n\x1a\n", 8};
inline constexpr std::string_view kBlockMagic{
    "\x89"
    "BLK\r\n\x1a\n",
    8};
inline constexpr std::string_view kTrailerMagic{
    "\x89"
    "END\r\n\x1a\n",
    8};

inline constexpr std::string_view kTableMagic{
    "\x89"
    "TBL\r\n\x1a\n",
    8};
inline constexpr std::string_view kTableTailMagic{
    "\x89"
    "TBE\r\n\x1a\n",
    8};

inline constexpr uint16_t kMajorVersion = 1;
inline constexpr uint16_t kMinorVersion = 0;

// Of the incompatible flags of a shard's header. A reader refuses the others.
inline constexpr uint32_t kKnownIncompatibleFlags = 0;

inline constexpr uint64_t kChunkAlignment = 64;
inline constexpr uint32_t kDefaultAlignment = 4096;
inline constexpr uint32_t kMinAlignment = 64;
inline constexpr uint32_t kMaxAlignment = uint32_t{1} << 20;

inline constexpr uint64_t kMaxHeaderLength = uint64_t{64} << 20;
inline constexpr uint64_t kMaxDictionaryLength = uint64_t{1} << 20;
inline constexpr uint32_t kMaxBlockSamples = uint32_t{1} << 20;
inline constexpr uint64_t kMaxShardSamples = 0xffffffff;
inline constexpr uint64_t kMaxZstdRawLength = uint64_t{1} << 31;
inline constexpr uint64_t kZstdRatioFreeLength = uint64_t{64} << 20;
inline constexpr uint64_t kMaxZstdRatio = 1024;
inline constexpr uint64_t kMaxFooterLength = uint64_t{1} << 40;
inline constexpr uint64_t kMaxMetadataLength = uint64_t{64} << 20;
inline constexpr uint64_t kMaxLength = uint64_t{1} << 62;

inline constexpr uint64_t kValueChecksumBytes = 8;

enum class Encoding : uint8_t { kRaw = 0, kZstd = 1, kZstdDictionary = 2 };

// Whether a zstd chunk may have these lengths (spec.md, "Limits").
constexpr bool ZstdLengthsAllowed(uint64_t stored, uint64_t raw) {
  return raw <= kMaxZstdRawLength && (raw <= kZstdRatioFreeLength || raw / kMaxZstdRatio <= stored);
}

}  // namespace shardkit::format
