// Histograms, frequent texts, and what is left out where numbers are no numbers.
#include "view/column_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shardctl {
namespace {

using shardkit::Column;
using shardkit::Type;

template <typename Number>
ColumnSummary Summed(Type type, const std::vector<Number>& numbers) {
  ColumnSummary summary({.name = "n", .type = type}, true);
  summary.Add(shardkit::ColumnView(static_cast<uint32_t>(numbers.size()), nullptr, nullptr,
                                   reinterpret_cast<const char*>(numbers.data()), sizeof(Number), 0));
  return summary;
}

uint64_t CountOf(const Json& histogram) {
  uint64_t count = 0;
  for (const Json& bucket : histogram) count += bucket["count"].get<uint64_t>();
  return count;
}

TEST(ColumnSummaryTest, EachNumberIsInOneBucket) {
  std::vector<int32_t> numbers;
  for (int32_t i = 0; i <= 240; ++i) numbers.push_back(i - 120);
  const Json summary = Summed(Type::kI32, numbers).Numbers();
  EXPECT_EQ(summary["minimum"], -120.0);
  EXPECT_EQ(summary["maximum"], 120.0);
  EXPECT_NEAR(summary["mean"].get<double>(), 0, 1e-9);
  ASSERT_EQ(summary["histogram"].size(), 24);
  EXPECT_EQ(CountOf(summary["histogram"]), numbers.size());
  EXPECT_EQ(summary["histogram"][0]["count"], 10);
  EXPECT_EQ(summary["histogram"][23]["count"], 11);
}

TEST(ColumnSummaryTest, EqualNumbersAreOneBucket) {
  const Json summary = Summed<uint8_t>(Type::kU8, {7, 7, 7}).Numbers();
  ASSERT_EQ(summary["histogram"].size(), 1);
  EXPECT_EQ(summary["histogram"][0], (Json{{"from", 7.0}, {"to", 7.0}, {"count", 3}}));
}

TEST(ColumnSummaryTest, TheWholeRangeOfNumbersFits) {
  constexpr double kMost = std::numeric_limits<double>::max();
  const Json summary = Summed<double>(Type::kF64, {-kMost, kMost, NAN, INFINITY}).Numbers();
  EXPECT_EQ(CountOf(summary["histogram"]), 2);
  EXPECT_EQ(summary["minimum"], -kMost);
  EXPECT_EQ(summary["maximum"], kMost);
}

TEST(ColumnSummaryTest, NoNumberIsNoHistogram) {
  EXPECT_TRUE(Summed<float>(Type::kF32, {NAN, INFINITY}).Numbers().is_null());
}

TEST(ColumnSummaryTest, FrequentTextsComeFirst) {
  ColumnSummary summary({.name = "t", .type = Type::kUtf8}, true);
  const std::string values = "abbcccd";
  const std::vector<uint64_t> ends = {1, 2, 3, 4, 5, 6, 7};
  summary.Add(shardkit::ColumnView(7, nullptr, reinterpret_cast<const char*>(ends.data()), values.data(), 0, 0));
  EXPECT_EQ(summary.Distinct(), 4);
  const Json strings = summary.Strings();
  ASSERT_EQ(strings.size(), 4);
  EXPECT_EQ(strings[0], (Json{{"text", "c"}, {"count", 3}}));
  EXPECT_EQ(strings[1], (Json{{"text", "b"}, {"count", 2}}));
}

TEST(ColumnSummaryTest, ThatAllTextsDifferIsNoListOfThem) {
  ColumnSummary summary({.name = "t", .type = Type::kUtf8}, true);
  const std::vector<uint64_t> ends = {1, 2};
  summary.Add(shardkit::ColumnView(2, nullptr, reinterpret_cast<const char*>(ends.data()), "ab", 0, 0));
  EXPECT_TRUE(summary.Strings().is_null());
}

}  // namespace
}  // namespace shardctl
