// What is written to MDS files, byte for byte as mosaicml-streaming writes it (format-spec/interop.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreign/mds/mds_encoding.h"
#include "foreign/mds/mds_index.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {

struct MdsSettings {
  std::vector<MdsColumn> columns;      // ascending by name
  std::string compression;             // "zstd", "zstd:7", or empty
  std::vector<std::string> hashes;     // names, ascending
  std::optional<uint64_t> size_limit;  // bytes of a shard, as the caller chose
};

// The encoding that stores the values of the column byte for byte; arrays are stored in another form. InvalidArgument,
// saying why, when MDS has no such encoding.
absl::StatusOr<std::string> MdsEncodingOf(const Column& column);

// The column with an encoding that the caller chose. InvalidArgument unless the encoding is known and not pickled, and
// either is read as the column's type, or has no fixed size and the column is a byte string.
absl::StatusOr<MdsColumn> MakeMdsColumn(const Column& column, std::string_view encoding);

// The JSON between the table of offsets and the samples of a shard.
std::string FormatMdsHeader(const MdsSettings& settings);

// index.json.
std::string FormatMdsIndex(const MdsSettings& settings, std::span<const MdsShard> shards);

// "shard.00042.mds"
std::string MdsShardName(uint64_t number);

}  // namespace shardkit::foreign
