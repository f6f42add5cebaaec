// What datasets say, by every way there is to read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardkit/dataset_reader.h"

namespace shardkit::fuzz {

using Row = std::vector<std::optional<std::string>>;

// Samples past this many are left out, so that an input of a few bytes that stands for a million samples
// costs little.
inline constexpr uint64_t kMostRows = 300;

// The limits that targets read under: a single block may take no more than the memory that any input is
// allowed.
DatasetOptions BoundedOptions();

// Whether a value of a block that can be read must be readable alone, too: not so in a shard of which nobody
// knows whether the checksums of its records, which a block's own make superfluous, are right.
enum class Records { kSound, kAny };

// The first rows, read block by block; empty when any of them cannot be read. Values read one at a time,
// copied, and found by a scan must be the same.
std::optional<std::vector<Row>> ReadRows(const DatasetReader& dataset, Records records = Records::kSound);

// Opens and reads; empty when either fails.
std::optional<std::vector<Row>> ReadRows(FileSystem& files, const std::string& path, Records records = Records::kSound);

}  // namespace shardkit::fuzz
