// Dense masks compared with a per-pixel model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "each_target.h"
#include "rle_model.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace {

using testing::Model;

class RleDense : public testing::OnEachTarget {};
SHARDKIT_ON_EACH_TARGET(RleDense);

// A heap block of exactly the size wanted, so that AddressSanitizer sees a write one byte beyond.
struct Exact {
  explicit Exact(size_t n) : bytes(new uint8_t[n]), span(bytes.get(), n) { std::memset(bytes.get(), 0xcc, n); }
  std::unique_ptr<uint8_t[]> bytes;
  std::span<uint8_t> span;
};

void ExpectDecodes(const RleView& rle, const Model& model) {
  Exact dense(model.pixels.size());
  ASSERT_TRUE(DecodeDense(rle, dense.span).ok());
  ASSERT_TRUE(std::equal(model.pixels.begin(), model.pixels.end(), dense.span.begin()))
      << model.height << " x " << model.width;
  const std::vector<uint8_t> expected = testing::PackedOf(model);
  Exact packed(expected.size());
  ASSERT_TRUE(DecodePacked(rle, packed.span).ok());
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), packed.span.begin()))
      << model.height << " x " << model.width;
  EXPECT_EQ(Area(rle), testing::AreaOf(model));
  EXPECT_EQ(BoundingBox(rle), testing::BoxOf(model));
}

TEST_P(RleDense, RandomMasksOfManySizes) {
  std::mt19937_64 random(1);
  const uint32_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 257};
  for (const uint32_t height : sizes) {
    for (const uint32_t width : sizes) {
      for (int i = 0; i < 6; ++i) {
        const Model model = testing::RandomModel(height, width, random);
        const Rle expected = testing::RunsOf(model);
        Exact exact(model.pixels.size());
        std::copy(model.pixels.begin(), model.pixels.end(), exact.span.begin());
        const auto rle = EncodeDense(exact.span, height, width);
        ASSERT_TRUE(rle.ok());
        ASSERT_EQ(*rle, expected) << height << " x " << width;
        ASSERT_NO_FATAL_FAILURE(ExpectDecodes(expected, model));
      }
    }
  }
}

TEST_P(RleDense, AnyNonZeroByteIsForeground) {
  const uint8_t pixels[] = {0, 2, 255, 0, 1, 128};  // 2 x 3
  const auto rle = EncodeDense(pixels, 2, 3);
  ASSERT_TRUE(rle.ok());
  EXPECT_EQ(rle->runs, (std::vector<uint32_t>{2, 4}));
}

// Valid but unusual runs: empty ones, foreground split in two, none at all.
TEST_P(RleDense, RunsThatAreNotCanonical) {
  Model model{3, 4, {0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0}};
  const Rle canonical = testing::RunsOf(model);
  Rle odd{3, 4, {}};
  for (size_t i = 0; i < canonical.runs.size(); ++i) {
    const uint32_t run = canonical.runs[i];
    odd.runs.insert(odd.runs.end(), {run / 2, 0, run - run / 2});
  }
  odd.runs.insert(odd.runs.end(), {0, 0, 0});
  ExpectDecodes(odd, model);
  ExpectDecodes(Rle{0, 0, {}}, Model{});
  ExpectDecodes(Rle{0, 5, {0, 0, 0}}, Model{0, 5, {}});
  ExpectDecodes(Rle{1, 1, {0, 1}}, Model{1, 1, {1}});
}

TEST_P(RleDense, LargeMaskWithManyBands) {
  std::mt19937_64 random(2);
  for (const auto& [height, width] :
       {std::pair{1500u, 700u}, {3u, 70001u}, {70001u, 3u}, {50u, 2100u}, {1u, 9000u}, {9000u, 1u}}) {
    for (int i = 0; i < 6; ++i) {
      const Model model = testing::RandomModel(height, width, random);
      ASSERT_NO_FATAL_FAILURE(ExpectDecodes(testing::RunsOf(model), model));
      EXPECT_EQ(EncodeDense(model.pixels, height, width).value(), testing::RunsOf(model));
    }
  }
}

TEST_P(RleDense, Refusals) {
  std::vector<uint8_t> out(12);
  const std::vector<uint32_t> runs{3, 4, 5};
  const RleView good(3, 4, runs);
  EXPECT_TRUE(DecodeDense(good, out).ok());
  EXPECT_EQ(DecodeDense(good, std::span(out).first(11)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DecodePacked(good, out).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(DecodePacked(good, std::span(out).first(3)).ok());

  const std::vector<uint32_t> too_long{3, 4, 6};
  const absl::Status status = DecodeDense(RleView(3, 4, too_long), out);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "the runs of a mask of 3 x 4 pixels sum to 13 instead of 12");
  EXPECT_EQ(DecodePacked(RleView(3, 4, too_long), std::span(out).first(3)).code(), absl::StatusCode::kDataLoss);

  EXPECT_EQ(EncodeDense(out, 3, 5).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeDense(out, 0xffffffff, 2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RleRuns, Validate) {
  EXPECT_TRUE(ValidateRle(Rle{2, 3, {6}}).ok());
  EXPECT_TRUE(ValidateRle(Rle{0, 3, {}}).ok());
  EXPECT_TRUE(ValidateRle(Rle{1, 0xffffffff, {0xffffffff}}).ok());
  EXPECT_EQ(ValidateRle(Rle{2, 3, {}}).code(), absl::StatusCode::kDataLoss);
  // In a 32-bit counter, this sum would be 4.
  EXPECT_EQ(ValidateRle(Rle{2, 2, {0xffffffff, 5}}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ValidateRle(Rle{65536, 65536, {}}).code(), absl::StatusCode::kDataLoss);
}

TEST(RleRuns, ListKeepsMasksApart) {
  RleList list;
  EXPECT_EQ(list.size(), 0u);
  list.Append(Rle{2, 3, {1, 5}});
  list.Append(Rle{0, 0, {}});
  list.Append(Rle{1, 4, {4}});
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].runs.size(), 2u);
  EXPECT_EQ(list[1].runs.size(), 0u);
  EXPECT_EQ(list[2].runs[0], 4u);
  EXPECT_EQ(list[2].width, 4u);
  list.Clear();
  EXPECT_EQ(list, RleList());
}

}  // namespace
}  // namespace shardkit
