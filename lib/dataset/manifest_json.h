// The parts of dataset.json as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
// An array of strings.
std::string FormatNames(const std::vector<std::string>& names);
// Objects on a line of their own.
std::string FormatColumn(const Column& column, std::string_view stored_name);
std::string FormatBase(const Base& base);
std::string FormatSegment(const Segment& segment);
std::string FormatShard(const ManifestShard& shard);
std::string FormatColumnFile(const ColumnFile& file);
// The value of the key "removed".
std::string FormatRemoved(const RemovedSamples& removed);

// The largest count that a manifest may hold (spec.md, section 10).
inline constexpr uint64_t kMaxCount = uint64_t{1} << 62;

absl::Status ReadMetadata(JsonReader& json, Metadata* metadata);
absl::Status ReadOperation(JsonReader& json, DatasetOperation* operation);
// Adds the column's stored name to *stored_names where it is another than its name.
absl::Status ReadColumn(JsonReader& json, Column* column,
                        std::map<std::string, std::string, std::less<>>* stored_names);
absl::Status ReadShard(JsonReader& json, ManifestShard* shard);
absl::Status ReadColumnFile(JsonReader& json, ColumnFile* file);
absl::Status ReadBase(JsonReader& json, Base* base);
absl::Status ReadSegment(JsonReader& json, Segment* segment);
absl::Status ReadRemoved(JsonReader& json, RemovedSamples* removed);

// DataLoss where stored names, column files and removed samples do not fit one another or the counts.
absl::Status CheckColumns(const ManifestSummary& summary);

}  // namespace shardkit::dataset
