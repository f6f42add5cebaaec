// The parts of dataset.json as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// As a string of JSON.
std::string Quote(std::string_view text);
// 16 lower-case hexadecimal digits.
std::string Hex64(uint64_t value);

// The value of the key "operation".
std::string FormatOperation(const DatasetOperation& operation);
// Objects on a line of their own.
std::string FormatColumn(const Column& column);
std::string FormatSegment(const Segment& segment);
std::string FormatShard(const ManifestShard& shard);
// The values of the keys "view" and "removed".
std::string FormatView(const DatasetView& view);
std::string FormatRemoved(const RemovedSamples& removed);

// The largest count that a manifest may hold (spec.md, section 10).
inline constexpr uint64_t kMaxCount = uint64_t{1} << 62;

absl::Status ReadMetadata(JsonReader& json, Metadata* metadata);
absl::Status ReadOperation(JsonReader& json, DatasetOperation* operation);
// `sources` may be null.
absl::Status ReadColumn(JsonReader& json, Column* column, std::vector<ColumnSource>* sources = nullptr);
absl::Status ReadShard(JsonReader& json, ManifestShard* shard);
absl::Status ReadSegment(JsonReader& json, Segment* segment);
absl::Status ReadRemoved(JsonReader& json, RemovedSamples* removed);
// Checks all that the view says by itself; CheckView compares it with the rest.
absl::Status ReadView(JsonReader& json, DatasetView* view);

// DataLoss where the view or the removed samples do not fit what is stored.
absl::Status CheckView(const ManifestSummary& summary);

}  // namespace shardkit::dataset
