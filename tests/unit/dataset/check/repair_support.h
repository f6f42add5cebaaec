// Shared by the tests of repair: shards of several kinds, and what must be recovered from a damaged shard.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "shardkit/filesystem.h"
#include "shardkit/repair.h"
#include "shardkit/shard.h"
#include "unit/container/shard_maker.h"

namespace shardkit::test {

// A whole shard and its contents.
struct Original {
  std::string name;
  Schema schema;
  ShardOptions options;
  std::vector<ShardRow> rows;
  std::string bytes;
  std::vector<BlockInfo> blocks;
  uint64_t header_length = 0;
  bool has_dictionary = false;

  // [begin, end) of the bytes needed to find a directory: the section and the table behind it.
  uint64_t directory_begin = 0;
  uint64_t table_end = 0;
  uint64_t block_headers_begin = 0;  // of the section with their copies
  uint64_t header_copy_begin = 0;
};

// With and without a key, with a dictionary, with values above the block's size, and with SA-1B's columns. Small, and
// the same in every run.
const std::vector<Original>& Kinds();

Original MakeOriginal(std::string name, std::vector<Column> columns, size_t rows, size_t longest, ShardOptions options);

// For each block, whether `damaged` has all its bytes in a place that repair must search: at a multiple of the
// alignment. Where the directory is found and the copy of the block's header is whole, the bytes behind the header are
// enough, in the place that the directory tells.
std::vector<bool> BlocksIn(const Original& original, std::string_view damaged);
// Whether `damaged` has header and chunks, somewhere, of a block that is not one of those in `whole`.
bool MayBeRestored(const Original& original, std::string_view damaged, const std::vector<bool>& whole);

// True when the block directory and the section table are in places where repair must find them.
bool DirectoryIn(const Original& original, std::string_view damaged);

std::vector<ShardRow> ReadRows(FileSystem& file_system, const std::string& path);

// Makes "/good/whole.shard", another shard of the same schema, as a source of the columns.
std::unique_ptr<FileSystem> NewFiles(const Original& original);

// Repairs `damaged` and checks the result. `whole` says which blocks must be recovered. The output is valid and has
// exactly the samples of these blocks, in order and in blocks like the original's. All other blocks are reported as
// losses. `exact` says that the directory exists, so that every loss is known. No reported key of a lost sample is
// wrong. Returns the report.
RepairReport ExpectRepair(const Original& original, std::string_view damaged, const std::vector<bool>& whole,
                          bool exact, RepairOptions options = {.schema_from = "/good/whole.shard"});

}  // namespace shardkit::test
