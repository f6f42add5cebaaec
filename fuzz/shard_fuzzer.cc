// Any bytes as a shard: opened, read in every way, validated. Sequential, random and projected reads must agree. A
// shard that passes validation must be readable.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardkit/shard.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

void CompareValues(const ShardReader& shard, const BlockView& view, const std::vector<size_t>& columns,
                   BlockBuffer* buffer) {
  for (const size_t column : columns) {
    for (uint32_t i = 0; i < view.sample_count() && i < 64; ++i) {
      const auto single = shard.ReadValue(view.first_sample() + i, column, buffer);
      // A record's checksum can be wrong although its chunk's checksum is right.
      if (single.ok()) Require(*single == view.column(column).value(i), "a value read alone is that of its block");
    }
  }
}

// True when every block could be read. In a shard that is not `valid`, the copy of a block's header may be damaged,
// which only a projection uses.
bool ReadBlocks(const ShardReader& shard, bool valid) {
  bool readable = true;
  BlockBuffer sequential, random, projected;
  BlockView view, part;
  std::vector<size_t> known;
  for (size_t column = 0; column < shard.schema().size(); ++column) {
    if (IsKnownCodec(shard.schema()[column].codec)) known.push_back(column);
  }
  if (known.empty()) return true;
  const bool all = known.size() == shard.schema().size();
  for (size_t block = 0; block < shard.blocks().size(); ++block) {
    if (!all) {
      Require(absl::IsUnimplemented(shard.ReadBlock(block, {}, &sequential, &view)),
              "all columns, one of unknown codec");
    }
    if (!shard.ReadBlock(block, all ? std::span<const size_t>() : known, &sequential, &view).ok()) {
      readable = false;
      continue;
    }
    CompareValues(shard, view, known, &random);
    for (const size_t column : known) {
      if (const absl::Status status = shard.ReadBlock(block, {&column, 1}, &projected, &part); !status.ok()) {
        Require(!valid && absl::IsDataLoss(status), "one column of a block that was read");
        continue;
      }
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        Require(part.column(column).value(i) == view.column(column).value(i),
                "a column read alone is that of its block");
      }
    }
  }
  return readable;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  WriteWhole(*files, "/fuzz.shard", {reinterpret_cast<const char*>(data), size});
  const auto shard = ShardReader::Open(*files, "/fuzz.shard");
  const auto report = Validate(*files, "/fuzz.shard");
  ValidateOptions deep;
  deep.deep = true;
  (void)Validate(*files, "/fuzz.shard", deep);
  if (!shard.ok()) {
    Require(!report.ok() || !report->ok(), "validation passes no shard that does not open");
    return 0;
  }
  const bool valid = report.ok() && report->ok();
  const bool readable = ReadBlocks(**shard, valid);
  if (valid) Require(readable, "what validation passes can be read");
  (void)(*shard)->ReadMetadata();
  (void)(*shard)->ReadStatistics();
  return 0;
}
