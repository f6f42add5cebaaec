// What predicates mean: each is evaluated on a few samples whose answer is written down.
#include <cmath>
#include <limits>

#include "shardkit/rle.h"
#include "unit/dataset/select/select_support.h"

namespace shardkit::test {
namespace {

constexpr uint64_t kLargest = std::numeric_limits<uint64_t>::max();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

class PredicateTest : public testing::Test {
 protected:
  std::string On(const std::vector<Given>& samples, const std::string& predicate) {
    const auto files = NewMemoryFileSystem();
    WriteGiven(*files, "/d", samples);
    return Selected(*files, "/d", predicate);
  }
};

TEST_F(PredicateTest, IntegersAreExact) {
  const std::vector<Given> samples = {{{"u", Bytes(kLargest)}, {"i", Bytes(kSmallest)}},
                                      {{"u", Bytes(kLargest - 1)}, {"i", Bytes(int64_t{-1})}},
                                      {{"u", Bytes(uint64_t{1} << 53)}, {"i", Bytes((int64_t{1} << 53) + 1)}}};
  EXPECT_EQ(On(samples, "u = 18446744073709551615"), "0");
  EXPECT_EQ(On(samples, "u > 18446744073709551614"), "0");
  EXPECT_EQ(On(samples, "18446744073709551614 >= u"), "1 2");
  EXPECT_EQ(On(samples, "i = -9223372036854775808"), "0");
  EXPECT_EQ(On(samples, "u + 1 = 18446744073709551615"), "1");
  EXPECT_EQ(On(samples, "u > i and i < 0"), "0 1");
  // 2^53 + 1 is no f64, so that conversion would call these equal.
  EXPECT_EQ(On(samples, "u = i"), "");
  EXPECT_EQ(On(samples, "i = 9007199254740992.0"), "");
  EXPECT_EQ(On(samples, "i > 9007199254740992.0"), "2");
  EXPECT_EQ(On(samples, "u < 1e30 and u >= 18446744073709551615.0"), "");
  EXPECT_EQ(On(samples, "u * u * u > 0"),
            "sample 0 of the block: predicate: the result at character 3 of its text "
            "exceeds 128 bits: multiply by 1.0 to calculate in floating point");
  EXPECT_EQ(On(samples, "u * 1.0 * u * u > 0"), "0 1 2");
}

TEST_F(PredicateTest, Arithmetic) {
  const std::vector<Given> samples = {{{"i", Bytes(int64_t{7})}}, {{"i", Bytes(int64_t{-7})}}, {}};
  EXPECT_EQ(On(samples, "i / 2 = 3.5"), "0");
  EXPECT_EQ(On(samples, "i % 3 = 1"), "0");
  EXPECT_EQ(On(samples, "i % 3 = 2"), "1");
  EXPECT_EQ(On(samples, "i % 0 = 0 or i % 0 != 0"), "");
  EXPECT_EQ(On(samples, "i % 0 is null"), "0 1 2");
  EXPECT_EQ(On(samples, "i % -1 = 0"), "0 1");
  EXPECT_EQ(On(samples, "-i = 7"), "1");
  EXPECT_EQ(On(samples, "- - i = 7"), "0");
  EXPECT_EQ(On(samples, "1 + 2 * i - 1 = 14"), "0");
  EXPECT_EQ(On(samples, "(1 + 2) * i = 21"), "0");
  EXPECT_EQ(On(samples, "10 - 2 - 1 = i"), "0");
  EXPECT_EQ(On(samples, "i / 0 > 1e300"), "0");
}

TEST_F(PredicateTest, FloatingPoint) {
  const uint16_t half = 0x3e00;  // 1.5
  const std::vector<Given> samples = {{{"f", Bytes(0.5f)}, {"h", Bytes(half)}},
                                      {{"f", Bytes(std::nanf(""))}},
                                      {{"f", Bytes(-std::numeric_limits<float>::infinity())}},
                                      {}};
  EXPECT_EQ(On(samples, "f = 0.5"), "0");
  EXPECT_EQ(On(samples, "h = 1.5"), "0");
  EXPECT_EQ(On(samples, "f < 1"), "0 2");
  EXPECT_EQ(On(samples, "not f < 1"), "1");
  EXPECT_EQ(On(samples, "f != 0.5"), "1 2");
  EXPECT_EQ(On(samples, "f = f"), "0 2");
  EXPECT_EQ(On(samples, "f in (0.5, 3)"), "0");
  EXPECT_EQ(On(samples, "f not in (0.5, 3)"), "1 2");
}

TEST_F(PredicateTest, AbsentValuesAreNeitherTrueNorFalse) {
  const std::vector<Given> samples = {
      {{"i", Bytes(int64_t{1})}, {"b", Bytes(true)}}, {{"b", Bytes(false)}}, {{"i", Bytes(int64_t{2})}}};
  EXPECT_EQ(On(samples, "i = 1"), "0");
  EXPECT_EQ(On(samples, "i != 1"), "2");
  EXPECT_EQ(On(samples, "not i = 1"), "2");
  EXPECT_EQ(On(samples, "i is null"), "1");
  EXPECT_EQ(On(samples, "i is not null"), "0 2");
  EXPECT_EQ(On(samples, "i + 1 is null"), "1");
  EXPECT_EQ(On(samples, "(i = 1) is null"), "1");
  EXPECT_EQ(On(samples, "b or i = 2"), "0 2");
  EXPECT_EQ(On(samples, "b and i = 1"), "0");
  EXPECT_EQ(On(samples, "not (b and i = 1)"), "1 2");
  EXPECT_EQ(On(samples, "b = false"), "1");
  EXPECT_EQ(On(samples, "b != true or i not in (2)"), "0 1");
  EXPECT_EQ(On(samples, "NOT b AND i IS NULL"), "1");
}

TEST_F(PredicateTest, Text) {
  const std::vector<Given> samples = {{{"t", "cat"}}, {{"t", "caf\xc3\xa9"}}, {{"t", ""}}, {}, {{"t", "a*b\"c'\\"}}};
  EXPECT_EQ(On(samples, "t = 'cat'"), "0");
  EXPECT_EQ(On(samples, "t < \"cat\""), "1 2 4");
  EXPECT_EQ(On(samples, "t in ('cat', '')"), "0 2");
  EXPECT_EQ(On(samples, "t not in ('cat', '')"), "1 4");
  EXPECT_EQ(On(samples, "t ~ 'c*'"), "0 1");
  EXPECT_EQ(On(samples, "t ~ 'ca?'"), "0");
  EXPECT_EQ(On(samples, "t ~ 'caf?'"), "1");
  EXPECT_EQ(On(samples, "t ~ '*a*t*'"), "0");
  EXPECT_EQ(On(samples, "t ~ '*'"), "0 1 2 4");
  EXPECT_EQ(On(samples, "t ~ ''"), "2");
  EXPECT_EQ(On(samples, "not t ~ '*a*'"), "2");
  EXPECT_EQ(On(samples, "t ~ '?\\*b*'"), "4");
  EXPECT_EQ(On(samples, "t = \"a*b\\\"c'\\\\\""), "4");
  EXPECT_EQ(On(samples, "starts_with(t, 'ca')"), "0 1");
  EXPECT_EQ(On(samples, "len(t) = 5"), "1");
  EXPECT_EQ(On(samples, "`t` = 'cat'"), "0");
  EXPECT_EQ(On(samples, "key in ('k1','k3')"), "1 3");
}

TEST_F(PredicateTest, Arrays) {
  const double nan = std::nan("");
  const std::vector<Given> samples = {
      {{"a", Array("a", std::vector<int32_t>{3, -1, 5})}, {"d", Array("d", std::vector<double>{0.5, 1.5})}},
      {{"a", Array("a", std::vector<int32_t>{})}, {"d", Array("d", std::vector<double>{})}},
      {{"a", Array("a", {2, 2}, Bytes(uint64_t{7}) + Bytes(uint64_t{1}))},
       {"d", Array("d", std::vector<double>{1, nan})}},
      {{"c", Array("c", std::vector<uint8_t>{1, 0})}}};
  EXPECT_EQ(On(samples, "len(a) = 3"), "0");
  EXPECT_EQ(On(samples, "len(a) = 2 and count(a) = 4"), "2");
  EXPECT_EQ(On(samples, "min(a) = -1 and max(a) = 5 and sum(a) = 7"), "0");
  EXPECT_EQ(On(samples, "mean(a) = 2"), "2");
  EXPECT_EQ(On(samples, "max(a) is null"), "1 3");
  EXPECT_EQ(On(samples, "sum(a) = 0"), "1");
  EXPECT_EQ(On(samples, "mean(d) = 1"), "0");
  EXPECT_EQ(On(samples, "max(d) > 0"), "0");
  EXPECT_EQ(On(samples, "any(a > 4)"), "0 2");
  EXPECT_EQ(On(samples, "any(4 < a)"), "0 2");
  EXPECT_EQ(On(samples, "all(a >= 0)"), "1 2");
  EXPECT_EQ(On(samples, "not any(d >= 1)"), "1");
  EXPECT_EQ(On(samples, "all(d != 7)"), "0 1 2");
  EXPECT_EQ(On(samples, "any(a > u + 4)"), "0 2");
  EXPECT_EQ(On(samples, "any(a > i) is null"), "0 1 2 3");
  EXPECT_EQ(On(samples, "any(c) and not all(c)"), "3");
}

TEST_F(PredicateTest, OtherColumns) {
  RleList masks;
  masks.Append(Rle{2, 2, {1, 3}});
  masks.Append(Rle{2, 2, {4}});
  std::string value;
  ASSERT_TRUE(AppendRleValue(masks, &value).ok());
  const std::vector<Given> samples = {{{"m", value}, {"img", "12345"}}, {{"js", "{}"}}};
  EXPECT_EQ(On(samples, "len(m) = 2"), "0");
  EXPECT_EQ(On(samples, "m is null"), "1");
  EXPECT_EQ(On(samples, "len(img) > 4"), "0");
  EXPECT_EQ(On(samples, "js is not null and len(js) = 2"), "1");
}

TEST_F(PredicateTest, AHostilePatternTakesLittleTime) {
  const std::vector<Given> samples = {{{"t", std::string(20000, 'a')}}};
  std::string pattern;
  for (int i = 0; i < 2000; ++i) pattern += "a*";
  EXPECT_EQ(On(samples, "t ~ '" + pattern + "b'"), "");
}

}  // namespace
}  // namespace shardkit::test
