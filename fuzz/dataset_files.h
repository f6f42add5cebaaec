// The files of dataset_fuzzer's inputs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardkit::fuzz {

enum DatasetFile : size_t { kManifest, kIndex, kFirstShard, kSecondShard, kSecondIndex, kKeys, kList };

inline constexpr std::array<std::string_view, 7> kDatasetFiles = {
    "dataset.json", "dataset.idx", "a.shard", "part/b.shard", "dataset-2.idx", "dataset.keys", "dataset.shards"};

}  // namespace shardkit::fuzz
