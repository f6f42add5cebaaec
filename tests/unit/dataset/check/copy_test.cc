// Copying blocks, and reading blocks without a directory.
#include "container/read/native_shard_reader.h"
#include "container/write/shard_file_writer.h"
#include "unit/dataset/check/repair_support.h"

namespace shardkit::test {
namespace {

TEST(RepairCopy, BytesThatChangedSinceTheyWereCheckedAreNotPassedOn) {
  const Original& original = Kinds()[0];
  const auto files = NewMemoryFileSystem();
  WriteWhole(*files, "/s.shard", original.bytes);
  const auto shard = container::NativeShardReader::Open(*files, "/s.shard", {});
  ASSERT_TRUE(shard.ok()) << shard.status();
  BlockBuffer buffer;
  BlockView view;
  ASSERT_TRUE((*shard)->ReadHeads(0, &buffer, &view).ok());
  const BlockInfo& block = original.blocks[0];
  const uint64_t header_length = 64 * (original.schema.size() + 1);
  for (uint64_t at = header_length; at < block.length; at += 13) {
    std::string changed = original.bytes;
    changed[block.offset + at] ^= 1;
    WriteWhole(*files, "/changed.shard", changed);
    const auto source = files->OpenForReading("/changed.shard");
    ASSERT_TRUE(source.ok());
    auto writer = container::ShardFileWriter::CreateWithHeader(*files, "/out.shard", (*shard)->header(), {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    container::StoredBlock stored;
    stored.header = buffer.state().header;
    stored.source = source->get();
    stored.offset = block.offset;
    stored.statistics.resize(original.schema.size());
    const absl::Status status = (*writer)->Copy(std::move(stored), nullptr);
    EXPECT_TRUE(absl::IsDataLoss(status)) << "byte " << at << ": " << status;
    EXPECT_EQ(status.message().find("/changed.shard: "), 0u);
  }
}

TEST(RepairCopy, BlocksAreReadWhereTheyAre) {
  const Original& original = Kinds()[0];
  const auto files = NewMemoryFileSystem();
  const std::string front = "7 bytes";
  WriteWhole(*files, "/s.shard", original.bytes);
  // Without padding after the last one.
  WriteWhole(*files, "/moved", front + original.bytes.substr(0, original.blocks[3].offset + original.blocks[3].length));
  const auto shard = container::NativeShardReader::Open(*files, "/s.shard", {});
  ASSERT_TRUE(shard.ok()) << shard.status();
  std::vector<BlockInfo> blocks = original.blocks;
  for (BlockInfo& block : blocks) block.offset += front.size();
  const auto moved =
      container::NativeShardReader::OpenBlocks(*files->OpenForReading("/moved"), (*shard)->header(), blocks, {});
  ASSERT_TRUE(moved.ok()) << moved.status();
  BlockBuffer buffer;
  BlockView view;
  for (size_t k = 0; k < blocks.size(); ++k) {
    const absl::Status read = (*moved)->ReadBlock(k, {}, &buffer, &view);
    ASSERT_TRUE(read.ok()) << read;
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      EXPECT_EQ(view.column(0).bytes(i), *original.rows[blocks[k].first_sample + i][0]);
    }
  }
}

}  // namespace
}  // namespace shardkit::test
