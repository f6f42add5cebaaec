// Writing one shard.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard_info.h"

namespace shardkit {

struct ShardOptions {
  // A block is closed when the bytes of its values, before compression, reach this. A larger sample has its own block.
  uint64_t block_size = uint64_t{4} << 20;

  // A block is also closed at this many samples (1 to 1,048,576).
  uint32_t max_block_samples = 65536;

  // Alignment of blocks in the file: a power of two from 64 to 1,048,576.
  uint32_t alignment = 4096;

  // Compression level of columns with codec zstd, by name; others use 1 for type rle and 3 for all other types.
  std::map<std::string, int> zstd_levels;

  // By column (codec zstd): trains a dictionary of at most this many bytes.
  std::map<std::string, uint32_t> dictionaries;

  // By column (codec none, values of variable size): kInline packs its values into pages, which suits many small ones;
  // kBlob gives each its own checksum and an entry in the offset index. Other such columns of a shard get kInline where
  // the values present in the shard's first block have less than 1024 bytes on average, else kBlob. What the schema
  // says of their storage does not count.
  std::map<std::string, Storage> storage;

  Metadata metadata;

  // Flushes the file to stable storage before Finish returns.
  bool sync = true;
};

struct ShardSummary {
  uint64_t file_length = 0;
  uint64_t sample_count = 0;
  uint64_t block_count = 0;
  ContentHash content_hash{};
};

// Writes to "PATH.tmp" and renames it on success. One thread at a time. Destroying the writer without Finish aborts.
class ShardWriter {
 public:
  virtual ~ShardWriter() = default;

  // InvalidArgument for options that are out of range or name missing columns; AlreadyExists when `path` exists.
  static absl::StatusOr<std::unique_ptr<ShardWriter>> Create(FileSystem& file_system, const std::string& path,
                                                             const Schema& schema, const ShardOptions& options = {});

  // One value per column of the schema, in its order; absent values are empty. Bytes are copied before this returns.
  // InvalidArgument, naming the column, for an absent value that is not nullable, a fixed-size value of another size,
  // or a key that is not UTF-8. After any other error only Abort may be called.
  virtual absl::Status Append(std::span<const std::optional<Value>> values) = 0;

  // Writes the remaining samples, the footer and the trailer, flushes, renames, and flushes the directory.
  virtual absl::StatusOr<ShardSummary> Finish() = 0;

  // Removes the temporary file. Idempotent.
  virtual absl::Status Abort() = 0;
};

}  // namespace shardkit
