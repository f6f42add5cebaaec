// Random schemas and samples, the same for the same seed on every machine, and shards of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/footer.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit {

inline constexpr ReadMode kReadModes[] = {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect};

// std::mt19937_64 is specified exactly; the distributions of the standard library are not.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t Next() { return engine_(); }
  // From 0 to `bound` - 1.
  uint64_t Below(uint64_t bound) { return engine_() % bound; }
  bool Chance(uint64_t one_in) { return Below(one_in) == 0; }
  std::string Bytes(size_t length);

 private:
  std::mt19937_64 engine_;
};

// 1 to `max_columns` columns of all types, codecs and shapes; half of the schemas have a key.
Schema RandomSchema(Random& random, size_t max_columns);

// Bytes that fit the column's type; empty for one in three of a nullable column. `longest` is about the
// longest.
std::optional<std::string> RandomValue(Random& random, const Column& column, size_t longest);

// Makes the checksum right that ends a header of a file or block, so that the checks behind it are reached.
std::string Repaired(std::string bytes);

using ShardRow = std::vector<std::optional<std::string>>;
std::vector<ShardRow> RandomRows(Random& random, const Schema& schema, size_t count, size_t longest);

absl::StatusOr<ShardSummary> WriteShard(FileSystem& file_system, const std::string& path, const Schema& schema,
                                        const std::vector<ShardRow>& rows, const ShardOptions& options);

// The shard with other sections: `change` gets each and returns what is to be in its place, or nothing to leave it out.
// All checksums are right.
std::string WithSections(
    std::string_view shard, bool has_key,
    const std::function<std::optional<std::string>(format::SectionKind kind, std::string_view content)>& change);

std::string ReadWhole(FileSystem& file_system, const std::string& path);
void WriteWhole(FileSystem& file_system, const std::string& path, std::string_view bytes);

}  // namespace shardkit
