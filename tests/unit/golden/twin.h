// The JSON twins of golden shards and datasets (format-spec/golden/README.md), made from the results of the readers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "container/read/native_shard_reader.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Below this folder lie valid/ and invalid/.
std::string GoldenFolder();

// The columns whose codec is known, for ReadBlock: empty when all are.
std::vector<size_t> ReadableColumns(const Schema& schema);

// Names in GoldenFolder()/`kind` that end in `suffix`, without it, sorted.
std::vector<std::string> GoldenNames(std::string_view kind, std::string_view suffix);

nlohmann::json ParseFile(const std::string& path);
// That of the valid golden file `name`, with each number in `samples` expanded to the samples that it stands for.
nlohmann::json ParseTwin(const std::string& name);

nlohmann::json ValueTwin(const Column& column, std::optional<std::string_view> value);

// The whole twin, read block by block.
absl::StatusOr<nlohmann::json> ShardTwin(const container::NativeShardReader& shard);
absl::StatusOr<nlohmann::json> DatasetTwin(const DatasetReader& dataset);

}  // namespace shardkit
