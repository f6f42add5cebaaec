// Which blocks are accepted as the shard's.
#include "dataset/check/repair_select.h"

#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"

namespace shardkit::dataset {
namespace {

// Blocks lie one after another in the order in which they are made.
class Blocks {
 public:
  Blocks& Add(uint64_t checksum, uint64_t first, uint32_t count, bool whole = true) {
    found_.push_back(
        {.info = {64 * (found_.size() + 1), 64, 64, first, count, checksum}, .whole = whole, .damaged_columns = {}});
    return *this;
  }

  // "1[0,4) gap[4,6) 3[6,8)": checksums or gaps with their samples, and "?" when the block's ordinal is unknown.
  std::string Select(ShardBounds bounds = {}) const {
    const Selection selection = SelectBySample(found_, bounds);
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

TEST(RepairSelect, BlocksArePutInOrder) {
  EXPECT_EQ(Blocks().Add(3, 6, 2).Add(1, 0, 4).Add(2, 4, 2).Select(), "1[0,4) 2[4,6) 3[6,8)");
  EXPECT_EQ(Blocks().Select(), "");
}

TEST(RepairSelect, GapsAndWhatComesAfterThem) {
  const Blocks blocks = Blocks().Add(1, 0, 4).Add(3, 6, 2).Add(4, 8, 1);
  EXPECT_EQ(blocks.Select(), "1[0,4) gap[4,6) 3[6,8)? 4[8,9)?");
  EXPECT_EQ(blocks.Select({12, 6}), "1[0,4) gap[4,6) 3[6,8)? 4[8,9)? gap[9,12)?");
  EXPECT_EQ(Blocks().Add(1, 0, 4).Select({12, 6}), "1[0,4) gap[4,12)");
  EXPECT_EQ(Blocks().Add(1, 2, 4).Select(), "gap[0,2) 1[2,6)?");
}

TEST(RepairSelect, DamagedBlocksFillGaps) {
  EXPECT_EQ(Blocks().Add(1, 0, 4).Add(2, 4, 2, false).Add(3, 6, 2).Select(), "1[0,4) 2[4,6) 3[6,8)");
  // What would overlap a whole block is not used.
  EXPECT_EQ(Blocks().Add(2, 3, 3, false).Add(1, 0, 4).Add(3, 6, 2).Select(), "1[0,4) gap[4,6) 3[6,8)?");
  EXPECT_EQ(Blocks().Add(2, 0, 9, false).Add(1, 0, 4).Select(), "1[0,4)");
}

TEST(RepairSelect, ACopyIsTakenOnceAndTheWholeOne) {
  EXPECT_EQ(Blocks().Add(1, 0, 4, false).Add(1, 0, 4).Add(1, 0, 4).Select(), "1[0,4) copies 1");
}

// Blocks of one id whose samples overlap: the file has parts of two shards that begin alike.
TEST(RepairSelect, OfOverlappingBlocksTheFirstIsTaken) {
  EXPECT_EQ(Blocks().Add(9, 2, 4).Add(1, 0, 4).Add(2, 4, 4).Select(), "1[0,4) 2[4,8) strangers 1");
  EXPECT_EQ(Blocks().Add(2, 4, 4).Add(3, 4, 2).Add(1, 0, 4).Select(), "1[0,4) 2[4,8) strangers 1");
}

TEST(RepairSelect, BlocksBehindTheEndAreLeft) {
  EXPECT_EQ(Blocks().Add(1, 0, 4).Add(9, 20, 4).Add(8, 9, 2).Select({10, 3}), "1[0,4) gap[4,10) strangers 2");
  EXPECT_EQ(Blocks().Add(1, 0, 4).Add(8, 8, 2).Select({10, 3}), "1[0,4) gap[4,8) 8[8,10)?");
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
