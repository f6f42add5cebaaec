// The header at the front of a shard (format-spec/spec.md, sections 1 and 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/constants.h"
#include "shardkit/schema.h"

namespace shardkit::format {

struct Dictionary {
  uint32_t column = 0;
  std::string bytes;
};

struct FileHeader {
  uint16_t minor = kMinorVersion;
  uint32_t alignment = kDefaultAlignment;
  uint32_t incompatible_flags = 0;  // only known ones
  uint32_t compatible_flags = 0;
  Schema schema;
  std::vector<Dictionary> dictionaries;

  uint64_t shard_id = 0;

  // Set by decoding and encoding.
  uint64_t length = 0;
  uint64_t checksum = 0;
};

// Bytes that PeekFileHeaderLength needs. What they say means the same in every major version.
inline constexpr uint64_t kFileHeaderPrefix = 16;

// The header's bytes; sets header.length and header.checksum.
std::string EncodeFileHeader(FileHeader& header);

// The id of a shard with this header, whatever id it has (section 1.1). `first_entries` are the column entries of the
// shard's first block (EncodeColumnEntries), empty in a shard without blocks.
uint64_t ShardId(FileHeader header, std::string_view first_entries);

// Returns the length of the whole header, read from its first kFileHeaderPrefix bytes. DataLoss when this is not a
// shard. Does not check the version: DecodeFileHeader does that after it has checked the checksum. header_length is at
// the same offset in every version.
absl::StatusOr<uint64_t> PeekFileHeaderLength(std::string_view prefix);

// `bytes` is the whole header. DataLoss on damage; Unimplemented for another major version, and for flags of later
// versions. Types and codecs of later versions are no error. Of several defects, the one that comes first in the table
// of spec.md, section 11, decides.
absl::StatusOr<FileHeader> DecodeFileHeader(std::string_view bytes);

}  // namespace shardkit::format
