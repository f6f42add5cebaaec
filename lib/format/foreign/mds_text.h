// What a writer of MDS puts into its files, byte for byte as mosaicml-streaming does (format-spec/interop.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/foreign/mds_encoding.h"
#include "format/foreign/mds_index.h"
#include "shardkit/schema.h"

namespace shardkit::format {

struct MdsSettings {
  std::vector<MdsColumn> columns;      // ascending by name
  std::string compression;             // "zstd", "zstd:7", or empty
  std::vector<std::string> hashes;     // names, ascending
  std::optional<uint64_t> size_limit;  // bytes of a shard, as the writer was told
};

// The encoding whose values are those of the column, byte for byte but for arrays, whose form differs.
// InvalidArgument, saying why, when there is none.
absl::StatusOr<std::string> MdsEncodingOf(const Column& column);

// The column under an encoding of the caller's choice. InvalidArgument unless values of that encoding are stored as
// those of the column are: the same type, or a byte string under any encoding of varying length.
absl::StatusOr<MdsColumn> MakeMdsColumn(const Column& column, std::string_view encoding);

// The JSON between the table of offsets and the samples of a shard.
std::string FormatMdsHeader(const MdsSettings& settings);

// index.json.
std::string FormatMdsIndex(const MdsSettings& settings, std::span<const MdsShard> shards);

// "shard.00042.mds"
std::string MdsShardName(uint64_t number);

// Appends a value of an ndarray column, in the form of ours, as MDS stores it: with its shape in front unless the
// column has one. InvalidArgument for what MDS cannot hold: a single element, an array without elements.
absl::Status AppendMdsValue(const Column& column, std::string_view value, std::string* out);

}  // namespace shardkit::format
