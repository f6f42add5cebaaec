// What the tests of repair share: shards of several kinds, and what must come back of a damaged one.
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
#include "shardkit/shard_info.h"
#include "unit/container/shard_maker.h"

namespace shardkit::test {

// A whole shard and what is in it.
struct Original {
  std::string name;
  Schema schema;
  ShardOptions options;
  std::vector<Row> rows;
  std::string bytes;
  std::vector<BlockInfo> blocks;
  uint64_t header_length = 0;
  bool has_dictionary = false;

  // [begin, end) of what a directory needs to be found: the section and the table behind it.
  uint64_t directory_begin = 0;
  uint64_t table_end = 0;
};

// With and without a key, with a dictionary, with values above the block's size, and SA-1B's columns. Small,
// and always the same.
const std::vector<Original>& Kinds();

Original MakeOriginal(std::string name, std::vector<Column> columns, size_t rows, size_t longest, ShardOptions options);

// Of which blocks all bytes stand somewhere in `damaged` where repair must look: at a multiple of the
// alignment.
std::vector<bool> BlocksIn(const Original& original, std::string_view damaged);

// Whether block directory and section table stand where repair must find them.
bool DirectoryIn(const Original& original, std::string_view damaged);

std::vector<Row> ReadRows(FileSystem& file_system, const std::string& path);

// Files "/good/whole.shard", another shard of the same schema, to take the columns from.
std::unique_ptr<FileSystem> NewFiles(const Original& original);

// Repairs `damaged` and holds the outcome against `whole`, the blocks that must come back: the output is
// valid and has exactly their samples, in order and in blocks like the original's, and the losses are the
// others. `exact` says that the directory is there, so that every loss is known. No key of a lost sample is
// wrong. Returns the report.
RepairReport ExpectRepair(const Original& original, std::string_view damaged, const std::vector<bool>& whole,
                          bool exact, RepairOptions options = {.schema_from = "/good/whole.shard"});

}  // namespace shardkit::test
