// The contents of datasets, read in every possible way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardkit/dataset_reader.h"

namespace shardkit::fuzz {

using Row = std::vector<std::optional<std::string>>;

// Samples after this many are not read, because a few bytes of input can stand for a million samples.
inline constexpr uint64_t kMostRows = 300;

// The limits for the targets' reads: a single block may not need more memory than any input may use.
DatasetOptions BoundedOptions();

// kSound: a value of a readable block must also be readable alone. kAny: it need not be, because the checksum of its
// record may be wrong. Reads of a whole block check the block's own checksums instead.
enum class Records { kSound, kAny };

// The first rows, read block by block. Empty when any of them cannot be read. Requires that single reads, copies and
// scans give the same values.
std::optional<std::vector<Row>> ReadRows(const DatasetReader& dataset, Records records = Records::kSound);

// Opens and reads the dataset. Empty when either fails.
std::optional<std::vector<Row>> ReadRows(FileSystem& files, const std::string& path, Records records = Records::kSound);

}  // namespace shardkit::fuzz
