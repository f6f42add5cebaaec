// Reads records of a shard by their places alone: neither header nor footer of the shard is read. Whoever calls knows
// from elsewhere that the shard's incompatible flags are known.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

// The error of reading a part of a shard that its header, its footer or its dataset lists: a file that ends before that
// was cut after it was opened, which is DataLoss.
absl::Status ReadOfListed(const absl::Status& status);

// As ShardReader::ReadRecord and ShardReader::ReadRecords, which see.
absl::StatusOr<std::string_view> ReadRecordAt(const RandomAccessFile& file, const ReadOptions& options, uint64_t begin,
                                              uint64_t end, BlockBuffer* buffer);
absl::Status ReadRecordsAt(const RandomAccessFile& file, const ReadOptions& options,
                           std::span<const std::pair<uint64_t, uint64_t>> places, int depth, BlockBuffer* buffer,
                           std::span<std::string_view> values);

}  // namespace shardkit
