// Shards truncated to every length, and shards with each group of 64 bytes set to zero.
#include "support/effort.h"
#include "unit/dataset/check/repair_support.h"

namespace shardkit::test {
namespace {

TEST(RepairTruncated, AtEveryLength) {
  for (const Original& original : Kinds()) {
    for (uint64_t length = 0; length <= original.bytes.size(); length += TestStep()) {
      SCOPED_TRACE(StrCat(original.name, " of ", original.bytes.size(), " bytes cut to ", length));
      const std::string_view damaged = std::string_view(original.bytes).substr(0, length);
      const RepairReport report =
          ExpectRepair(original, damaged, BlocksIn(original, damaged), DirectoryIn(original, damaged));
      // The trailer has nothing that the table does not have.
      EXPECT_EQ(report.end_known, length >= original.table_end);
      if (length < original.bytes.size()) {
        EXPECT_FALSE(report.problems.empty());
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(RepairZeroed, EveryLine) {
  for (const Original& original : Kinds()) {
    for (uint64_t begin = 0; begin < original.bytes.size(); begin += 64 * TestStep()) {
      SCOPED_TRACE(StrCat(original.name, " zeroed from ", begin));
      std::string damaged = original.bytes;
      const uint64_t length = std::min<uint64_t>(64, damaged.size() - begin);
      damaged.replace(begin, length, length, '\0');
      const std::vector<bool> whole = BlocksIn(original, damaged);
      const bool exact = DirectoryIn(original, damaged);
      const RepairReport report = ExpectRepair(original, damaged, whole, exact);
      const bool trailer_left = damaged.ends_with(original.bytes.substr(original.table_end));
      EXPECT_EQ(report.end_known, exact || trailer_left);
      EXPECT_EQ(report.problems.empty() && report.losses.empty(), damaged == original.bytes);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(RepairZeroed, EveryLineWithoutAFooter) {
  for (const Original& original : Kinds()) {
    const uint64_t end = original.blocks.back().offset + original.blocks.back().length;
    for (uint64_t begin = 0; begin < end; begin += 64 * TestStep()) {
      SCOPED_TRACE(StrCat(original.name, " zeroed from ", begin));
      std::string damaged = original.bytes.substr(0, end);
      damaged.replace(begin, 64, 64, '\0');
      std::vector<bool> whole = BlocksIn(original, damaged);
      // Without the header its dictionary is lost, and the data compressed with it.
      if (original.has_dictionary && begin < original.header_length) whole.assign(whole.size(), false);
      const RepairReport report = ExpectRepair(original, damaged, whole, false);
      EXPECT_FALSE(report.end_known);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace shardkit::test
