// The JSON that lists the tars of a dataset for wids (format-spec/interop.md). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardkit::format {

struct WidsShard {
  std::string url;  // as it is written
  uint64_t samples = 0;
  std::optional<uint64_t> bytes;  // of the tar
  std::string md5;                // 32 lower-case hexadecimal digits, or empty
};

struct WidsIndex {
  std::string name;  // of the dataset, or empty
  std::string base;  // the folder for relative urls; empty: the index's own folder
  std::vector<WidsShard> shards;
};

// Empty when the text is not marked as a wids index. DataLoss, naming the shard, when it is marked but incomplete or
// malformed. Unimplemented for another version, and for an index that refers to other indexes.
absl::StatusOr<std::optional<WidsIndex>> ParseWidsIndex(std::string_view text);

// The text that Python's json.dump(index, file, indent=2) writes. All strings of `index` must be UTF-8.
std::string FormatWidsIndex(const WidsIndex& index);

// The path that a url names: the url itself, or the part after "file:". Unimplemented for a url that is not a local
// file ("https:…", "pipe:…"); DataLoss when the path is not valid.
absl::StatusOr<std::string> LocalPathOfUrl(std::string_view url);

}  // namespace shardkit::format
