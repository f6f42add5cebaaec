// index.json of an MDS dataset, and the JSON header of its shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "foreign/mds/mds_encoding.h"

namespace shardkit::foreign {

// A longer JSON header is refused.
inline constexpr uint64_t kMaxMdsHeaderBytes = uint64_t{16} << 20;

struct MdsFile {
  std::string name;  // path relative to the dataset's directory, and inside it
  uint64_t bytes = 0;
  std::vector<std::pair<std::string, std::string>> hashes;  // name of the algorithm, hexadecimal digits
};

struct MdsShard {
  uint64_t samples = 0;
  MdsFile raw;
  std::optional<MdsFile> zip;  // the same, compressed
  std::string compression;     // "zstd:7", or empty
};

struct MdsIndex {
  std::vector<MdsColumn> columns;  // of all shards; none when there is no shard
  std::vector<MdsShard> shards;
};

// DataLoss, naming the shard, unless the index is well formed and all shards have the same columns. Unimplemented for
// other versions and for shards of another format ("csv", "json", "xsv").
absl::StatusOr<MdsIndex> ParseMdsIndex(std::string_view text);

// The columns that a shard's header lists.
absl::StatusOr<std::vector<MdsColumn>> ParseMdsHeader(std::string_view json);

}  // namespace shardkit::foreign
