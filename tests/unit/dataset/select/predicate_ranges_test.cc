// A block that a predicate's ranges leave out has no sample that satisfies it: random values, random predicates.
#include <algorithm>
#include <cmath>
#include <limits>

#include "shardkit/change.h"
#include "shardkit/select.h"
#include "support/effort.h"
#include "synth/random.h"
#include "unit/dataset/select/select_support.h"

namespace shardkit::test {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed, 1, 0) {}

  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  bool Chance(int percent) { return random_.Chance(percent); }

  std::vector<Given> MakeSamples() {
    std::vector<Given> samples(40);
    int64_t base = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      // Blocks of four with values near each other, so that some can be left out.
      if (i % 4 == 0) base = static_cast<int64_t>(Below(9)) * 5 - 20;
      const int64_t value = base + static_cast<int64_t>(Below(4));
      if (Chance(80)) samples[i]["i"] = Bytes(value);
      if (Chance(80)) {
        const bool nan = Chance(15) || (base == 0 && Chance(70));
        samples[i]["f"] = Bytes(nan ? std::nanf("") : static_cast<float>(value) / 2);
      }
      if (Chance(80)) samples[i]["b"] = Bytes(base > 0);
      samples[i]["u"] = Bytes(static_cast<uint64_t>(value + 30));
      if (Chance(50)) samples[i]["t"] = std::string(1, static_cast<char>('a' + Below(3)));
    }
    return samples;
  }

  std::string Condition(int depth) {
    if (depth > 0 && Chance(60)) {
      const uint64_t form = Below(3);
      if (form == 0) return "not (" + Condition(depth - 1) + ")";
      return "(" + Condition(depth - 1) + (form == 1 ? " and " : " or ") + Condition(depth - 1) + ")";
    }
    switch (Below(9)) {
      case 0:
        return Pick({"b", "b = true", "b != true", "b = false", "t = 'a'", "t ~ 'b*'"});
      case 1:
        return Column() + Pick({" is null", " is not null"});
      case 2:
        return Column() + Pick({" in (", " not in ("}) + Constant() + ", " + Constant() + ")";
      case 3:
        return Column() + Comparison() + Column();
      case 4:
        return Constant() + Comparison() + Column();
      case 5:
        return Column() + " + 1" + Comparison() + Constant();
      default:
        return Column() + Comparison() + Constant();
    }
  }

 private:
  std::string Pick(const std::vector<std::string>& from) { return from[Below(from.size())]; }
  std::string Column() { return Pick({"i", "f", "u"}); }
  std::string Comparison() { return Pick({" = ", " != ", " < ", " <= ", " > ", " >= "}); }
  std::string Constant() { return (Chance(30) ? "-" : "") + std::to_string(Below(40)) + (Chance(30) ? ".5" : ""); }

  shardctl::SynthRandom random_;
};

TEST(PredicateRangesTest, NeverLeavesOutAMatch) {
  uint64_t skipped = 0, read = 0;
  for (uint64_t seed = 0; seed < 60; seed += TestStep()) {
    Generator generator(seed);
    const auto files = NewMemoryFileSystem();
    WriteGiven(*files, "/d", generator.MakeSamples(), SmallShards(20, 4));
    for (int i = 0; i < 50; ++i) {
      const std::string text = generator.Condition(3);
      const std::string selected = Selected(*files, "/d", text);
      SampleSelection selection;
      selection.where = text;
      // Some random conditions name no column of the dataset; none of these does.
      const auto report = CountSamples(*files, "/d", selection);
      ASSERT_TRUE(report.ok()) << report.status() << "\n" << text;
      const auto expected = selected.empty() ? 0 : std::ranges::count(selected, ' ') + 1;
      ASSERT_EQ(report->selected, static_cast<uint64_t>(expected)) << "seed " << seed << ": " << text;
      skipped += report->blocks_skipped;
      read += report->blocks_read;
      uint64_t scanned = 0;
      ASSERT_EQ(Selected(*files, "/d", text, &scanned), selected) << "seed " << seed << ": " << text;
      ASSERT_EQ(scanned, report->blocks_read) << "seed " << seed << ": " << text;
    }
  }
  EXPECT_GT(skipped, read / 10);  // otherwise this shows nothing
}

TEST(PredicateRangesTest, AScanKnowsWhereValuesComeFrom) {
  const auto files = NewMemoryFileSystem();
  std::vector<Given> samples;
  for (int i = 0; i < 40; ++i) {
    samples.push_back({{"i", Bytes(int64_t{i})}, {"f", Bytes(static_cast<float>(100 + i))}});
  }
  WriteGiven(*files, "/d", samples, SmallShards(20, 4));
  uint64_t blocks = 0;
  EXPECT_EQ(Selected(*files, "/d", "i in (3, 26)", &blocks), "3 26");
  EXPECT_EQ(blocks, 2u);
  // Ordinals are those that are seen, and ranges are of what is stored.
  SampleSelection removed;
  removed.ranges = {{0, 3}, {24, 28}};
  ASSERT_TRUE(RemoveSamples(*files, "/d", removed).ok());
  blocks = 0;
  EXPECT_EQ(Selected(*files, "/d", "i in (3, 26, 28)", &blocks), "0 21");
  EXPECT_EQ(blocks, 2u);
  // A column that has another's values has not its ranges.
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"i", "g"}, {"f", "i"}}).ok());
  EXPECT_EQ(Selected(*files, "/d", "i = 103", &blocks), "0");
}

TEST(PredicateRangesTest, AScanDoesWithoutDamagedRanges) {
  const auto files = NewMemoryFileSystem();
  WriteGiven(*files, "/d", {{{"i", Bytes(int64_t{1})}}, {{"i", Bytes(int64_t{2})}}}, SmallShards(2, 1));
  uint64_t blocks = 0;
  EXPECT_EQ(Selected(*files, "/d", "i = 2", &blocks), "1");
  EXPECT_EQ(blocks, 1u);
  const std::string path = "/d/00000000.shard";
  const std::string shard = *files->ReadFile(path, 1 << 20);
  const auto is_damaged = [&](size_t place) {
    std::string bytes = shard;
    bytes[place] ^= 1;
    EXPECT_TRUE(files->RemoveFile(path).ok());
    auto file = files->Create(path);
    EXPECT_TRUE(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok());
    const auto opened = ShardReader::Open(*files, path);
    return opened.ok() && absl::IsDataLoss((*opened)->ReadBlockRanges().status());
  };
  size_t place = shard.size() - 1;
  while (place > 0 && !is_damaged(place)) --place;
  ASSERT_GT(place, 0u);
  blocks = 0;
  EXPECT_EQ(Selected(*files, "/d", "i = 2", &blocks), "1");
  EXPECT_EQ(blocks, 2u);
}

TEST(PredicateRangesTest, KnowsOfAbsentAndUnorderedValues) {
  const Schema schema = SelectSchema();
  const auto may = [&](const std::string& text, const BlockRange* range) {
    const auto predicate = Predicate::Parse(text, schema.columns());
    EXPECT_TRUE(predicate.ok()) << predicate.status();
    return predicate->MayMatch(std::span(&range, 1), 4);
  };
  const BlockRange absent;
  EXPECT_TRUE(may("i is null", &absent));
  EXPECT_FALSE(may("i is not null", &absent));
  EXPECT_FALSE(may("i != 3", &absent));
  EXPECT_FALSE(may("i in (3)", &absent));
  EXPECT_TRUE(may("a is null", &absent));
  EXPECT_TRUE(may("i > 3", nullptr));
  BlockRange some{
      .present_count = 4, .range_kind = RangeKind::kI64, .minimum = static_cast<uint64_t>(-3), .maximum = 5};
  EXPECT_FALSE(may("i is null", &some));
  EXPECT_FALSE(may("i > 5", &some));
  EXPECT_TRUE(may("not i > 5", &some));
  EXPECT_FALSE(may("not i <= 5", &some));
  EXPECT_FALSE(may("i in (-4, 6)", &some));
  EXPECT_TRUE(may("i in (-3)", &some));
  EXPECT_TRUE(may("i % 2 = 7", &some));  // of what is computed nothing is known
  const BlockRange nan{.present_count = 2};
  EXPECT_FALSE(may("f > 0 or f <= 0", &nan));
  EXPECT_TRUE(may("f != 0", &nan));
  EXPECT_TRUE(may("not f = 0", &nan));
}

}  // namespace
}  // namespace shardkit::test
