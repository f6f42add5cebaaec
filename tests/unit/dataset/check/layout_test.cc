// Blocks in wrong places, in two places, or inside values.
#include <algorithm>

#include "base/checked.h"
#include "shardkit/shard.h"
#include "unit/dataset/check/repair_support.h"

namespace shardkit::test {
namespace {

using ::testing::Test;

std::string_view BlockBytes(const Original& original, size_t k) {
  const BlockInfo& block = original.blocks[k];
  const uint64_t end = RoundUp(block.offset + block.length, original.options.alignment);
  return std::string_view(original.bytes).substr(block.offset, end - block.offset);
}

// A header, then these blocks. With `footer`, also the original's footer.
std::string Compose(const Original& original, const std::vector<size_t>& order, bool footer) {
  std::string bytes = original.bytes.substr(0, original.blocks[0].offset);
  for (const size_t k : order) bytes += BlockBytes(original, k);
  if (footer)
    bytes +=
        original.bytes.substr(original.blocks.back().offset + BlockBytes(original, original.blocks.size() - 1).size());
  return bytes;
}

class RepairLayout : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutFooter, RepairLayout, ::testing::Bool());

TEST_P(RepairLayout, BlocksInReverseOrder) {
  for (const Original& original : Kinds()) {
    std::vector<size_t> order(original.blocks.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    ExpectRepair(original, Compose(original, order, GetParam()), std::vector<bool>(order.size(), true), GetParam());
  }
}

TEST_P(RepairLayout, EveryTwoSwapped) {
  for (const Original& original : Kinds()) {
    for (size_t a = 0; a < original.blocks.size(); ++a) {
      for (size_t b = a + 1; b < original.blocks.size(); ++b) {
        std::vector<size_t> order(original.blocks.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::swap(order[a], order[b]);
        ExpectRepair(original, Compose(original, order, GetParam()), std::vector<bool>(order.size(), true), GetParam());
        if (Test::HasFailure()) return;
      }
    }
  }
}

TEST_P(RepairLayout, ABlockTwiceIsTakenOnce) {
  for (const Original& original : Kinds()) {
    std::vector<size_t> order;
    for (size_t i = 0; i < original.blocks.size(); ++i) order.insert(order.end(), {i, i / 2});
    const RepairReport report = ExpectRepair(original, Compose(original, order, GetParam()),
                                             std::vector<bool>(original.blocks.size(), true), GetParam());
    EXPECT_TRUE(
        std::ranges::any_of(report.notes, [](const std::string& note) { return note.find("copies") != note.npos; }));
  }
}

TEST_P(RepairLayout, TheWholeOneOfTwoCopiesIsTaken) {
  const Original& original = Kinds()[0];
  for (const size_t damaged_copy : {0, 1}) {
    std::string bytes = Compose(original, {0, 1, 1, 2, 3}, GetParam());
    const uint64_t place = original.blocks[1].offset + damaged_copy * BlockBytes(original, 1).size();
    bytes[place + original.blocks[1].length - 20] ^= 1;
    ExpectRepair(original, bytes, {true, true, true, true}, GetParam());
  }
}

TEST_P(RepairLayout, RemovedBlocksAreMissing) {
  const Original& original = Kinds()[0];
  const RepairReport report =
      ExpectRepair(original, Compose(original, {0, 2, 3}, GetParam()), {true, false, true, true}, GetParam());
  ASSERT_EQ(report.losses.size(), 1u);
  EXPECT_EQ(report.losses[0].first_sample, 4u);
  EXPECT_EQ(report.losses[0].sample_count, 4u);
  EXPECT_EQ(report.losses[0].first_block, 1u);
}

TEST_P(RepairLayout, GarbageBetweenBlocks) {
  Random random(3);
  for (const Original& original : Kinds()) {
    for (size_t before = 0; before < original.blocks.size(); ++before) {
      std::vector<size_t> front(before), back(original.blocks.size() - before);
      for (size_t i = 0; i < before; ++i) front[i] = i;
      for (size_t i = before; i < original.blocks.size(); ++i) back[i - before] = i;
      std::string bytes = Compose(original, front, false) + random.Bytes(3 * original.options.alignment);
      bytes += Compose(original, back, GetParam()).substr(original.blocks[0].offset);
      ExpectRepair(original, bytes, std::vector<bool>(original.blocks.size(), true), GetParam());
      if (Test::HasFailure()) return;
    }
  }
}

// The directory gives the places of blocks, even places where no block may begin.
TEST(RepairMoved, UnalignedBlocksAreFoundByTheDirectory) {
  const Original& original = Kinds()[0];
  for (const uint64_t length : {1, 7, 63, 100}) {
    std::string inserted = original.bytes, removed = original.bytes;
    inserted.insert(original.blocks[2].offset, std::string(length, 'x'));
    ExpectRepair(original, inserted, {true, true, true, true}, true);
    removed.erase(original.blocks[1].offset + 10, length);
    ExpectRepair(original, removed, {true, true, true, true}, true);
  }
}

// Without a directory they are lost, but only the loss of the first is known.
TEST(RepairMoved, BlocksWithinADamagedOneNeedTheChain) {
  const Original& original = Kinds()[1];
  std::string bytes = Compose(original, {0, 1, 2, 3, 4, 5, 6, 7, 8}, false);
  // The next block moves into the bytes that the damaged block claims.
  bytes.erase(original.blocks[3].offset + BlockBytes(original, 3).size() - 64, 64);
  std::vector<bool> whole(original.blocks.size(), true);
  whole[3] = false;
  ExpectRepair(original, bytes, whole, false);
}

// The front of a long block was copied over other blocks. The copy claims them, but the block itself is whole
// elsewhere.
TEST(RepairMoved, WhatADamagedCopyClaimsIsNotItsOwn) {
  const Original& original = Kinds()[2];
  const uint32_t alignment = original.options.alignment;
  size_t longest = 0, other = 0;
  for (size_t k = 0; k < original.blocks.size(); ++k) {
    if (original.blocks[k].length > original.blocks[longest].length) longest = k;
  }
  while (other == longest || other + 1 == longest || longest + 1 == other) ++other;
  ASSERT_LT(other, original.blocks.size());
  ASSERT_GT(original.blocks[longest].length, 2 * alignment);
  std::string bytes = original.bytes.substr(0, original.blocks[0].offset);
  bytes += BlockBytes(original, longest).substr(0, alignment);
  bytes += BlockBytes(original, other);
  bytes += BlockBytes(original, longest);
  std::vector<bool> whole(original.blocks.size());
  whole[longest] = whole[other] = true;
  ExpectRepair(original, bytes, whole, false);
}

TEST(RepairAppended, GarbageOfAnyLength) {
  Random random(5);
  for (const Original& original : Kinds()) {
    for (const uint64_t length : {1, 8, 63, 64, 104, 4096, 10000}) {
      ExpectRepair(original, original.bytes + random.Bytes(length), std::vector<bool>(original.blocks.size(), true),
                   true);
      ExpectRepair(original, original.bytes + std::string(length, '\0'),
                   std::vector<bool>(original.blocks.size(), true), true);
    }
  }
}

TEST(RepairAppended, AnotherShardIsNotMixedIn) {
  for (const Original& original : Kinds()) {
    const auto files = NewFiles(original);
    std::string bytes = original.bytes;
    bytes.resize(RoundUp(bytes.size(), original.options.alignment), '\0');
    bytes += ReadWhole(*files, "/good/whole.shard");
    ExpectRepair(original, bytes, std::vector<bool>(original.blocks.size(), true), true);
  }
}

TEST(RepairPrepended, GarbageBeforeTheShard) {
  Random random(6);
  for (const Original& original : Kinds()) {
    for (const uint64_t length : {8, 64, 4096}) {
      const std::vector<bool> all(original.blocks.size(), true);
      const RepairReport report = ExpectRepair(original, random.Bytes(length) + original.bytes, all, true, {});
      EXPECT_NE(report.notes[0].find("begins at byte"), std::string::npos);
      if (length < 64) continue;
      ExpectRepair(original, random.Bytes(length) + Compose(original, {0}, false),
                   BlocksIn(original, Compose(original, {0}, false)), false, {});
    }
  }
}

// Every block of a shard has a value that contains a whole shard with the same columns, at a place where blocks may
// begin.
Original Embedding(uint32_t alignment) {
  Original inner = MakeOriginal("inner", {{.name = "data", .type = Type::kBytes}}, 6, 40,
                                {.max_block_samples = 1, .alignment = alignment});
  Original outer = MakeOriginal("outer", {{.name = "data", .type = Type::kBytes}}, 0, 0,
                                {.max_block_samples = 1, .alignment = alignment});
  outer.rows.assign(4, {inner.bytes});
  const auto files = NewMemoryFileSystem();
  EXPECT_TRUE(WriteShard(*files, "/s.shard", outer.schema, outer.rows, outer.options).ok());
  outer.bytes = ReadWhole(*files, "/s.shard");
  const auto shard = ShardReader::Open(*files, "/s.shard");
  EXPECT_TRUE(shard.ok()) << shard.status();
  outer.blocks.assign((*shard)->blocks().begin(), (*shard)->blocks().end());
  // BlocksIn cannot find the blocks' places inside values.
  EXPECT_EQ(outer.bytes.find(inner.bytes) % 64, 0u);
  return outer;
}

// The footer has a copy of each header.
TEST(RepairHeaders, ABlockThatLostOnlyItsHeaderComesBack) {
  for (const Original& original : Kinds()) {
    const uint64_t header_length = 64 * (original.schema.size() + 1);
    std::string all = original.bytes;
    for (size_t k = 0; k < original.blocks.size(); ++k) {
      std::string damaged = original.bytes;
      damaged.replace(original.blocks[k].offset, header_length, header_length, '\0');
      all.replace(original.blocks[k].offset, header_length, header_length, '\0');
      const std::vector<bool> whole(original.blocks.size(), true);
      const RepairReport report = ExpectRepair(original, damaged, whole, true);
      EXPECT_TRUE(report.lossless());
      EXPECT_EQ(report.problems, std::vector<std::string>{StrCat(
                                     "block ", k, ": its header is damaged; the copy in the footer is in its place")});
      // Without the trailer, which the section table behind the blocks replaces.
      ExpectRepair(original, damaged.substr(0, original.table_end), whole, true);
      // A chunk is damaged, too.
      damaged[original.blocks[k].offset + original.blocks[k].length - 64] ^= 1;
      std::vector<bool> others = whole;
      others[k] = false;
      const RepairReport lost = ExpectRepair(original, damaged, others, true);
      ASSERT_EQ(lost.losses.size(), 1u);
      EXPECT_EQ(lost.losses[0].reason, "its header is damaged or gone");
      if (testing::Test::HasFailure()) return;
    }
    const RepairReport report = ExpectRepair(original, all, std::vector<bool>(original.blocks.size(), true), true);
    ASSERT_EQ(report.problems.size(), 1u);
    EXPECT_EQ(report.problems[0],
              StrCat("the headers of ", original.blocks.size(),
                     " blocks, the first of them block 0, are damaged; the copies in the footer are "
                     "in their place"));
  }
}

TEST(RepairHeaders, ADamagedCopyIsNotUsedAndTheOthersAre) {
  for (const Original& original : Kinds()) {
    const uint64_t header_length = 64 * (original.schema.size() + 1);
    for (size_t k = 0; k < original.blocks.size(); ++k) {
      for (size_t copy = 0; copy < original.blocks.size(); ++copy) {
        std::string damaged = original.bytes;
        damaged[original.blocks[k].offset] ^= 1;
        damaged[original.block_headers_begin + header_length * copy + 7] ^= 1;
        std::vector<bool> whole(original.blocks.size(), true);
        whole[k] = copy != k;
        const RepairReport report = ExpectRepair(original, damaged, whole, true);
        ASSERT_EQ(report.problems.size(), copy == k ? 1u : 2u);
        EXPECT_EQ(report.problems[0], "block headers section checksum is wrong");
      }
    }
  }
}

// The copies behind a byte that is gone have moved, and the others have not.
TEST(RepairHeaders, CopiesAreFoundOnBothSidesOfALostByte) {
  for (const Original& original : Kinds()) {
    const uint64_t header_length = 64 * (original.schema.size() + 1);
    for (size_t k = 0; k < original.blocks.size(); ++k) {
      for (size_t copy = 0; copy < original.blocks.size(); ++copy) {
        std::string damaged = original.bytes;
        damaged[original.blocks[k].offset] ^= 1;
        damaged.erase(original.block_headers_begin + header_length * copy + 7, 1);
        std::vector<bool> whole(original.blocks.size(), true);
        whole[k] = copy != k;
        ExpectRepair(original, damaged, whole, true);
      }
    }
  }
}

// The trailer tells by how much what follows has moved. The header's place then lies over the block before.
TEST(RepairHeaders, ABlockThatLostItsFirstBytesComesBack) {
  for (const Original& original : Kinds()) {
    const uint64_t header_length = 64 * (original.schema.size() + 1);
    for (const BlockInfo& block : original.blocks) {
      for (const uint64_t lost : {uint64_t{1}, uint64_t{64}, header_length}) {
        std::string damaged = original.bytes;
        damaged.erase(block.offset, lost);
        EXPECT_TRUE(ExpectRepair(original, damaged, std::vector<bool>(original.blocks.size(), true), true).lossless());
      }
    }
  }
}

// Bytes were inserted before the shard and removed behind the block, so that blocks and footer moved by different
// lengths. The place of the file header tells by how much the blocks did.
TEST(RepairHeaders, ABlockWithoutHeaderComesBackWhenTheFooterMovedOtherwise) {
  for (const Original& original : Kinds()) {
    const uint64_t alignment = original.options.alignment;
    for (size_t k = 1; k + 1 < original.blocks.size(); ++k) {
      std::string damaged = original.bytes;
      damaged[original.blocks[k].offset + 8] ^= 1;
      damaged.erase(original.blocks[k + 1].offset, alignment);
      damaged.insert(0, 2 * alignment, '\0');
      const std::vector<bool> whole = BlocksIn(original, damaged);
      EXPECT_TRUE(whole[k]);
      ExpectRepair(original, damaged, whole, true);
    }
  }
}

TEST(RepairEmbedded, ShardsInValuesStayValues) {
  const Original outer = Embedding(64);
  ExpectRepair(outer, outer.bytes, {true, true, true, true}, false);
  // The footer is cut off.
  const std::string blocks = outer.bytes.substr(0, outer.blocks[3].offset + outer.blocks[3].length);
  ExpectRepair(outer, blocks, {true, true, true, true}, false);
}

TEST(RepairEmbedded, NoBlockIsTakenFromADamagedOne) {
  const Original outer = Embedding(64);
  const std::string blocks = outer.bytes.substr(0, outer.blocks[3].offset + outer.blocks[3].length);
  for (size_t k = 0; k < 4; ++k) {
    std::vector<bool> whole(4, true);
    for (uint64_t at = outer.blocks[k].offset; at < outer.blocks[k].offset + outer.blocks[k].length; at += 31) {
      SCOPED_TRACE(StrCat("block ", k, ", byte ", at - outer.blocks[k].offset));
      for (const std::string& bytes : {outer.bytes, blocks}) {
        std::string damaged = bytes;
        damaged[at] ^= 4;
        // The footer has a copy of the header.
        whole[k] = bytes.size() == outer.bytes.size() && at < outer.blocks[k].offset + 128;
        ExpectRepair(outer, damaged, whole, false);
        if (Test::HasFailure()) return;
      }
    }
  }
}

// No header before it shows that it belongs to another shard.
TEST(RepairEmbedded, ALoneBlockInAValueStaysAValue) {
  const Original inner =
      MakeOriginal("inner", {{.name = "data", .type = Type::kBytes}}, 9, 40, {.max_block_samples = 1, .alignment = 64});
  Original outer = inner;
  outer.rows.assign(3, {std::string(BlockBytes(inner, 8))});
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(WriteShard(*files, "/s.shard", outer.schema, outer.rows, outer.options).ok());
  outer.bytes = ReadWhole(*files, "/s.shard");
  const auto shard = ShardReader::Open(*files, "/s.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  outer.blocks.assign((*shard)->blocks().begin(), (*shard)->blocks().end());
  const std::string blocks = outer.bytes.substr(0, outer.blocks[2].offset + outer.blocks[2].length);
  ExpectRepair(outer, blocks, {true, true, true}, false);
  for (size_t k = 0; k < 3; ++k) {
    std::string damaged = blocks;
    damaged[outer.blocks[k].offset + outer.blocks[k].length - 60] ^= 1;
    damaged[outer.blocks[k].offset + outer.blocks[k].front_length + outer.rows[0][0]->size() + 1] ^= 1;
    std::vector<bool> whole(3, true);
    whole[k] = false;
    ExpectRepair(outer, damaged, whole, false);
  }
}

TEST(RepairEmbedded, CutOffAtEveryLength) {
  const Original outer = Embedding(64);
  for (uint64_t length = 0; length < outer.bytes.size(); length += 7) {
    SCOPED_TRACE(length);
    std::vector<bool> whole(4);
    for (size_t k = 0; k < 4; ++k) whole[k] = outer.blocks[k].offset + outer.blocks[k].length <= length;
    ExpectRepair(outer, outer.bytes.substr(0, length), whole, false);
    if (Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace shardkit::test
