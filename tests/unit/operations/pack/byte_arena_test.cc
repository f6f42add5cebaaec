#include <cstring>
#include <random>

#include "unit/operations/pack/convert_support.h"

namespace shardkit {
namespace {

TEST(ByteArenaTest, KeepsWhatWasPutInUntilCleared) {
  ByteArena arena;
  for (int round = 0; round < 3; ++round) {
    std::minstd_rand random(static_cast<unsigned>(round));
    std::vector<std::pair<std::string, std::string_view>> kept;
    for (int i = 0; i < 200; ++i) {
      const std::string bytes(random() % (i % 20 == 0 ? 3000000 : 5000), static_cast<char>('a' + i % 26));
      kept.emplace_back(bytes, arena.Copy(bytes));
    }
    for (const auto& [bytes, view] : kept) EXPECT_EQ(bytes, view);
    arena.Clear();
  }
}

TEST(ByteArenaTest, AlignsForEightByteElements) {
  ByteArena arena;
  for (const size_t length : {1, 3, 8, 0, 13}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Allocate(length).data()) % 8, 0u);
  }
}

TEST(ByteArenaTest, GivesAPlaceToAnEmptyValue) {
  ByteArena arena;
  EXPECT_NE(arena.Copy("").data(), nullptr);
}

TEST(ByteArenaTest, ShrinkLeavesTheFrontOfTheLastAllocation) {
  ByteArena arena;
  const std::span<char> memory = arena.Allocate(100);
  std::memset(memory.data(), 'x', 40);
  arena.Shrink(60);
  const std::string_view next = arena.Copy("after");
  EXPECT_EQ(next.data(), memory.data() + 40);
  EXPECT_EQ(std::string_view(memory.data(), 40), std::string(40, 'x'));
}

TEST(ByteArenaTest, CanBeMovedAndSwapped) {
  ByteArena a;
  ByteArena b;
  const std::string_view big = a.Copy(std::string(5000000, 'q'));
  const std::string_view small = a.Copy("small");
  std::swap(a, b);
  EXPECT_EQ(a.Copy("fresh"), "fresh");
  EXPECT_EQ(big.size(), 5000000u);
  EXPECT_EQ(big.back(), 'q');
  EXPECT_EQ(small, "small");
  ByteArena c = std::move(b);
  EXPECT_EQ(b.Copy("used after a move"), "used after a move");
  EXPECT_EQ(small, "small");
}

}  // namespace
}  // namespace shardkit
