// Any bytes as a shard: opened, read in every way, validated. Sequential, random and projected reads must agree, and what
// validation passes must be readable.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "shardkit/dataset_reader.h"
#include "shardkit/shard_reader.h"
#include "shardkit/validate.h"

namespace {

using namespace shardkit;

// A finding: the fuzzer reports an abort, a wrong result would pass unseen.
void Require(bool condition) {
  if (!condition) std::abort();
}

void CompareValues(const ShardReader& shard, const BlockView& view, BlockBuffer* buffer) {
  for (size_t column = 0; column < view.column_count(); ++column) {
    for (uint32_t i = 0; i < view.sample_count() && i < 64; ++i) {
      const auto single = shard.ReadValue(view.first_sample() + i, column, buffer);
      // The checksum of a record can be wrong though that of its chunk is right.
      if (single.ok()) Require(*single == view.column(column).value(i));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::unique_ptr<FileSystem> files = NewMemoryFileSystem();
  {
    const auto file = files->Create("/fuzz.shard");
    Require(file.ok() && (*file)->Append({reinterpret_cast<const char*>(data), size}).ok());
  }
  ReadOptions options;
  options.max_block_memory = uint64_t{64} << 20;
  const auto shard = ShardReader::Open(*files, "/fuzz.shard", options);
  const auto report = Validate(*files, "/fuzz.shard");
  if (!shard.ok()) {
    Require(!report.ok() || !report->ok());
    return 0;
  }
  bool readable = true;
  BlockBuffer sequential, random, projected;
  BlockView view, part;
  for (size_t block = 0; block < (*shard)->blocks().size(); ++block) {
    if (!(*shard)->ReadBlock(block, {}, &sequential, &view).ok()) {
      readable = false;
      continue;
    }
    CompareValues(**shard, view, &random);
    for (size_t column = 0; column < view.column_count(); ++column) {
      Require((*shard)->ReadBlock(block, {&column, 1}, &projected, &part).ok());
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        Require(part.column(column).value(i) == view.column(column).value(i));
      }
    }
  }
  if (report.ok() && report->ok()) Require(readable);
  (void)(*shard)->ReadMetadata();
  (void)(*shard)->ReadStatistics();
  return 0;
}
