// Which blocks are accepted as the shard's when there is no directory.
#include "dataset/repair/repair_select.h"

#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"

namespace shardkit::dataset {
namespace {

constexpr uint64_t kHeader = 1000;  // the checksum of the shard's header

// Blocks lie one after another in the order in which they are made.
class Blocks {
 public:
  Blocks& Add(uint64_t checksum, uint64_t previous, uint64_t first, uint32_t count, bool whole = true) {
    FoundBlock block;
    block.info = {64 * (found_.size() + 1), 64, 64, first, count, checksum};
    block.previous = previous;
    block.whole = whole;
    found_.push_back(block);
    return *this;
  }
  Blocks& Nested() {
    found_.back().nested = true;
    return *this;
  }
  Blocks& Foreign() {
    found_.back().foreign = true;
    return *this;
  }

  // "1[0,4) gap[4,6) 3[6,8)": checksums or gaps with their samples, and "?" when the block's ordinal is unknown.
  std::string Select(ShardBounds bounds = {kHeader, 64, {}, {}}) const {
    const Selection selection = SelectByChain(found_, bounds);
    std::string text;
    for (const ShardPiece& piece : selection.pieces) {
      text += text.empty() ? "" : " ";
      text += piece.found ? StrCat(found_[*piece.found].info.header_checksum) : "gap";
      text += StrCat("[", piece.first_sample, ",", piece.first_sample + piece.sample_count, ")");
      if (!piece.first_block) text += "?";
    }
    return StrCat(text, selection.copies == 0 ? "" : StrCat(text.empty() ? "" : " ", "copies ", selection.copies),
                  selection.strangers == 0 ? "" : StrCat(text.empty() ? "" : " ", "strangers ", selection.strangers));
  }

 private:
  std::vector<FoundBlock> found_;
};

TEST(RepairSelect, AChainIsPutInOrder) {
  EXPECT_EQ(Blocks().Add(3, 2, 6, 2).Add(1, kHeader, 0, 4).Add(2, 1, 4, 2).Select(), "1[0,4) 2[4,6) 3[6,8)");
  EXPECT_EQ(Blocks().Select(), "");
}

TEST(RepairSelect, GapsAndWhatComesAfterThem) {
  const Blocks blocks = Blocks().Add(1, kHeader, 0, 4).Add(3, 2, 6, 2).Add(4, 3, 8, 1);
  EXPECT_EQ(blocks.Select(), "1[0,4) gap[4,6) 3[6,8)? 4[8,9)?");
  EXPECT_EQ(blocks.Select({kHeader, 64, 12, 6}), "1[0,4) gap[4,6) 3[6,8)? 4[8,9)? gap[9,12)?");
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Select({kHeader, 64, 12, 6}), "1[0,4) gap[4,12)");
}

TEST(RepairSelect, DamagedBlocksTieOthersTogether) {
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(2, 1, 4, 2, false).Add(3, 2, 6, 2).Nested().Select(),
            "1[0,4) 2[4,6) 3[6,8)");
}

TEST(RepairSelect, BlocksWithinADamagedOneNeedATie) {
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4, false).Add(9, 8, 20, 2).Nested().Add(10, 9, 22, 2).Nested().Select(),
            "1[0,4) strangers 2");
  // One block of the chain is outside.
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4, false).Add(9, 8, 20, 2).Nested().Add(10, 9, 22, 2).Select(),
            "1[0,4) gap[4,20) 9[20,22)? 10[22,24)?");
}

TEST(RepairSelect, ACopyIsTakenOnceAndTheWholeOne) {
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4, false).Add(1, kHeader, 0, 4).Add(1, kHeader, 0, 4).Select(),
            "1[0,4) copies 1");
}

// Bytes of another shard of the same columns over the front of this one.
TEST(RepairSelect, ChainsThatOverlapAreNotOfOneShard) {
  EXPECT_EQ(Blocks().Add(9, 8, 2, 4).Add(1, 7, 4, 4).Add(2, 1, 8, 4).Select(), "gap[0,4) 1[4,8)? 2[8,12)? strangers 1");
  EXPECT_EQ(Blocks().Add(9, 8, 8, 4).Add(1, 7, 4, 6).Add(2, 1, 10, 4).Select(),
            "gap[0,4) 1[4,10)? 2[10,14)? strangers 1");
  EXPECT_EQ(Blocks().Add(9, 8, 5, 1).Add(1, 7, 4, 6).Add(2, 1, 10, 4).Select(),
            "gap[0,4) 1[4,10)? 2[10,14)? strangers 1");
}

TEST(RepairSelect, ChainsThatTouchWithoutATieAreNotOfOneShard) {
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(2, 1, 4, 4).Add(9, 8, 8, 4).Select(), "1[0,4) 2[4,8) strangers 1");
  EXPECT_EQ(Blocks().Add(9, 8, 1, 3).Add(1, 7, 4, 4).Add(2, 1, 8, 4).Select(), "gap[0,4) 1[4,8)? 2[8,12)? strangers 1");
}

TEST(RepairSelect, TheChainAtTheFrontComesBeforeALongerOne) {
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(7, kHeader, 0, 1).Add(8, 7, 1, 1).Select(), "1[0,4) strangers 2");
}

TEST(RepairSelect, BlocksOfOtherHeadersAreLeft) {
  EXPECT_EQ(Blocks().Add(1, 999, 0, 4).Select(), "strangers 1");
  EXPECT_EQ(Blocks().Add(1, kHeader, 3, 4).Select(), "strangers 1");
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Foreign().Add(2, 1, 4, 4).Select(), "strangers 2");
  // Without the header nothing is known.
  EXPECT_EQ(Blocks().Add(1, 999, 0, 4).Select({}), "1[0,4)");
  // A separate copy proves the block.
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(1, kHeader, 0, 4).Foreign().Select(), "1[0,4) copies 1");
}

TEST(RepairSelect, BlocksBehindTheEndAreLeft) {
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(9, 8, 20, 4).Select({kHeader, 64, 10, 3}),
            "1[0,4) gap[4,10) strangers 1");
}

TEST(RepairSelect, OfTwoSuccessorsTheOneOutsideIsTaken) {
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(2, 1, 4, 2, false).Add(3, 1, 4, 2).Nested().Select(),
            "1[0,4) 2[4,6) strangers 1");
}

// Of what is equal otherwise, that at the lowest place in the file is taken.
TEST(RepairSelect, TheFirstOfEqualsIsTaken) {
  EXPECT_EQ(Blocks().Add(1, 7, 4, 4).Add(2, 8, 6, 4).Select(), "gap[0,4) 1[4,8)? strangers 1");
  EXPECT_EQ(Blocks().Add(2, 8, 6, 4).Add(1, 7, 4, 4).Select(), "gap[0,6) 2[6,10)? strangers 1");
  // The place of a chain is that of its first block, and of a block that of its first copy. Of a block that is whole
  // somewhere, damaged copies do not count.
  EXPECT_EQ(Blocks().Add(4, 3, 12, 4).Add(1, 7, 4, 4).Add(3, 8, 8, 4).Add(2, 1, 8, 4).Select(),
            "gap[0,4) 1[4,8)? 2[8,12)? strangers 2");
  EXPECT_EQ(Blocks().Add(2, 8, 6, 4).Add(1, 7, 4, 4).Add(2, 8, 6, 4).Select(),
            "gap[0,6) 2[6,10)? copies 1 strangers 1");
  EXPECT_EQ(Blocks().Add(2, 8, 6, 4, false).Add(1, 7, 4, 4).Add(2, 8, 6, 4).Select(), "gap[0,4) 1[4,8)? strangers 1");
  // Two blocks that name the same one.
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(3, 1, 4, 2).Add(2, 1, 4, 3).Select(), "1[0,4) 3[4,6) strangers 1");
  EXPECT_EQ(Blocks().Add(1, kHeader, 0, 4).Add(3, 1, 4, 2, false).Add(2, 1, 4, 3).Select(), "1[0,4) 2[4,7)");
}

TEST(RepairSelect, TheDirectoryDecides) {
  std::vector<FoundBlock> found(3);
  found[0].info = {640, 64, 64, 4, 2, 22};
  found[1].info = {64, 64, 64, 4, 2, 99};
  found[2].info = {128, 64, 64, 0, 4, 11};
  for (FoundBlock& block : found) block.whole = true;
  const std::vector<BlockInfo> directory = {{64, 64, 64, 0, 4, 11}, {128, 64, 64, 4, 2, 22}, {192, 64, 64, 6, 2, 33}};
  const Selection selection = SelectByDirectory(found, directory);
  ASSERT_EQ(selection.pieces.size(), 3u);
  EXPECT_EQ(selection.pieces[0].found, 2u);
  EXPECT_EQ(selection.pieces[1].found, 0u);
  EXPECT_FALSE(selection.pieces[2].found.has_value());
  EXPECT_EQ(selection.strangers, 1u);
  // The checksum alone is not enough.
  found[2].info.sample_count = 3;
  EXPECT_FALSE(SelectByDirectory(found, directory).pieces[0].found.has_value());
}

}  // namespace
}  // namespace shardkit::dataset
