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
  std::string base;  // what relative urls start from, or empty: the index's own folder
  std::vector<WidsShard> shards;
};

// Empty when the text does not say that it is such an index. DataLoss, naming the shard, when it says so and
// is not whole or well formed; Unimplemented for another version, and for one that refers to other indexes.
absl::StatusOr<std::optional<WidsIndex>> ParseWidsIndex(std::string_view text);

// What Python's json.dump(index, file, indent=2) writes. `index` has UTF-8 only.
std::string FormatWidsIndex(const WidsIndex& index);

// The path that a url names: itself, or what follows "file:". Unimplemented for what is elsewhere ("https:…",
// "pipe:…"); DataLoss for what is no path.
absl::StatusOr<std::string> LocalPathOfUrl(std::string_view url);

}  // namespace shardkit::format
