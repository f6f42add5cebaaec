// The files of dataset_fuzzer's inputs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardkit::fuzz {

enum DatasetFile : size_t { kManifest, kSegment, kFirstShard, kSecondShard, kSecondSegment };

inline constexpr std::array<std::string_view, 5> kDatasetFiles = {"dataset.json", "dataset.segment", "a.shard",
                                                                  "part/b.shard", "dataset-2.segment"};

}  // namespace shardkit::fuzz
