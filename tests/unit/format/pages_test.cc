// Pages of many small values.
#include <gtest/gtest.h>

#include <numeric>

#include "base/endian.h"
#include "base/hash.h"
#include "format/pages.h"
#include "support/effort.h"
#include "unit/container/shard_maker.h"

namespace shardkit::format {
namespace {

using Values = std::vector<std::optional<std::string>>;

struct Paged {
  std::string presence;  // empty when no value is absent
  std::string entries;
  std::string pages;
  uint32_t count = 0;

  const char* bits() const { return presence.empty() ? nullptr : presence.data(); }
  absl::StatusOr<PageTable> Parse() const { return PageTable::Parse(count, bits(), entries, pages.size()); }
  std::string Page(const PageTable& table, size_t k) const { return pages.substr(table.begin(k), table.length(k)); }
};

Paged Build(const Values& values) {
  Buffer pages, entries;
  PageBuilder builder(&pages, &entries);
  Paged paged;
  paged.count = static_cast<uint32_t>(values.size());
  paged.presence.assign((values.size() + 7) / 8, '\0');
  bool absent = false;
  for (size_t i = 0; i < values.size(); ++i) {
    builder.Add(values[i].value_or(""));
    if (values[i]) paged.presence[i / 8] = static_cast<char>(paged.presence[i / 8] | 1 << i % 8);
    absent = absent || !values[i];
  }
  builder.Finish();
  if (!absent) paged.presence.clear();
  paged.pages = pages.view();
  paged.entries = entries.view();
  return paged;
}

// What reading the whole column or each value by itself finds; the two must agree.
absl::Status Check(const Paged& paged, const Values& values) {
  const absl::StatusOr<PageTable> table = paged.Parse();
  if (!table.ok()) return table.status();
  for (size_t k = 0; k < table->size(); ++k) {
    // An exact copy on the heap, so that a sanitizer notices reads past the end.
    const std::string page = paged.Page(*table, k);
    const std::vector<char> exact(page.begin(), page.end());
    const std::string_view bytes(exact.data(), exact.size());
    std::vector<uint64_t> begins(table->count(k)), ends(table->count(k));
    const absl::Status placed = table->Place(k, bytes, begins.data(), ends.data());
    bool each = true;
    for (uint32_t i = table->first(k); i < table->last(k); ++i) {
      EXPECT_EQ(table->PageOf(i), k);
      const auto value = table->Value(k, bytes, i);
      each = each && value.ok();
      if (!value.ok() || !placed.ok()) continue;
      const uint64_t begin = begins[i - table->first(k)] - table->begin(k);
      EXPECT_EQ(bytes.substr(begin, value->size()), *value);
      EXPECT_EQ(ends[i - table->first(k)] - table->begin(k), begin + value->size());
      if (!values.empty()) {
        EXPECT_EQ(*value, values[i].value_or(""));
      }
    }
    if (!placed.ok()) return placed;
    EXPECT_TRUE(each);
    if (k > 0) {
      if (absl::Status full = table->CheckFull(k - 1, ends[0] - begins[0]); !full.ok()) return full;
    }
    if (absl::Status checksum = CheckPageChecksum(bytes); !checksum.ok()) return checksum;
  }
  return absl::OkStatus();
}

std::vector<uint64_t> Lengths(const Paged& paged) {
  const PageTable table = paged.Parse().value();
  std::vector<uint64_t> lengths;
  for (size_t k = 0; k < table.size(); ++k) lengths.push_back(table.length(k));
  return lengths;
}

TEST(Pages, RandomOnesComeBack) {
  Random random(7);
  for (int round = 0; round < test::Thinned(300); ++round) {
    Values values(1 + random.Below(random.Chance(4) ? 3000 : 40));
    const size_t longest = random.Chance(5) ? 70000 : 1 + random.Below(300);
    const bool nullable = random.Chance(2);
    for (auto& value : values) {
      if (nullable && random.Chance(3)) continue;
      value = std::string(longest > 60000 && !random.Chance(10) ? random.Below(90) : random.Below(longest), 'v');
      if (!value->empty()) (*value)[0] = static_cast<char>(random.Next());
    }
    const absl::Status status = Check(Build(values), values);
    ASSERT_TRUE(status.ok()) << status;
  }
}

TEST(Pages, AreFull) {
  const auto sized = [](std::initializer_list<size_t> sizes) {
    Values values;
    for (const size_t size : sizes) values.emplace_back(std::string(size, 'x'));
    return Build(values);
  };
  EXPECT_EQ(Lengths(sized({0})), std::vector<uint64_t>{8});
  EXPECT_EQ(Lengths(sized({65528})), std::vector<uint64_t>{65536});
  EXPECT_EQ(Lengths(sized({65529})), std::vector<uint64_t>{65537});
  EXPECT_EQ(Lengths(sized({100, 65426})), std::vector<uint64_t>{65536});
  EXPECT_EQ(Lengths(sized({100, 65427})), (std::vector<uint64_t>{108, 65435}));
  EXPECT_EQ(Lengths(sized({100, 200000, 5, 5})), (std::vector<uint64_t>{108, 200008, 20}));
  const Paged absent = Build(Values(40000));
  EXPECT_EQ(Lengths(absent), (std::vector<uint64_t>{65536, 14476}));
  EXPECT_TRUE(Check(absent, {}).ok());

  // A value of 100 bytes costs an end, and its part of a page's checksum and of the table's entry.
  const Paged small = Build(Values(10000, std::string(100, 'x')));
  EXPECT_LE(small.pages.size() + small.entries.size(), 10000 * 103);
}

// With right checksums, as validation and reading meet them.
TEST(Pages, EveryFlippedBitAndEveryLength) {
  const Values values = {"first", "second", std::string(65520, '\0'), std::nullopt, "last"};
  const Paged good = Build(values);
  ASSERT_EQ(Lengths(good), (std::vector<uint64_t>{21, 65536}));
  ASSERT_TRUE(Check(good, values).ok());
  for (size_t bit = 0; bit < 8 * good.entries.size(); ++bit) {
    Paged flipped = good;
    flipped.entries[bit / 8] = static_cast<char>(flipped.entries[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(absl::IsDataLoss(Check(flipped, {}))) << bit;
  }
  for (size_t length = 0; length < good.entries.size(); ++length) {
    Paged cut = good;
    cut.entries.resize(length);
    EXPECT_TRUE(absl::IsDataLoss(Check(cut, {}))) << length;
  }
  // The zeros of the large value are like each other.
  std::vector<size_t> places(60);
  std::iota(places.begin(), places.begin() + 30, 0);
  std::iota(places.begin() + 30, places.end(), good.pages.size() - 30);
  for (const size_t place : places) {
    for (int bit = 0; bit < 8; ++bit) {
      Paged flipped = good;
      flipped.pages[place] = static_cast<char>(flipped.pages[place] ^ (1 << bit));
      EXPECT_TRUE(absl::IsDataLoss(Check(flipped, {}))) << place << " " << bit;
    }
  }
  for (size_t length = 0; length < good.pages.size(); length += length < 40 || length > 65500 ? 1 : 977) {
    Paged cut = good;
    cut.pages.resize(length);
    EXPECT_TRUE(absl::IsDataLoss(Check(cut, {}))) << length;
  }
}

// Damage behind a right checksum stays within the page.
TEST(Pages, RandomDamageStaysInside) {
  Random random(8);
  int accepted = 0, refused = 0;
  for (int round = 0; round < test::Thinned(20000); ++round) {
    Values values(1 + random.Below(30));
    for (auto& value : values) {
      if (!random.Chance(4)) value = std::string(random.Below(20), 'v');
    }
    Paged paged = Build(values);
    std::string& part = random.Chance(3) ? paged.entries : paged.pages;
    part[random.Below(part.size())] = static_cast<char>(random.Chance(2) ? random.Below(30) : random.Next());
    if (paged.pages.size() >= 8) {
      const size_t body = paged.pages.size() - 8;
      StoreLittle(paged.pages.data() + body, Hash64(paged.pages.data(), body));
    }
    (Check(paged, {}).ok() ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(Pages, EachRule) {
  const Values values = {"first", "second", std::string(65520, '\0'), std::nullopt, "last"};
  const Paged good = Build(values);
  const auto parse = [&](size_t offset, auto number) {
    Paged changed = good;
    StoreLittle(changed.entries.data() + offset, number);
    return std::string(changed.Parse().status().message());
  };
  EXPECT_EQ(parse(12, uint32_t{1}), "page table: reserved bytes of page 0 are not zero");
  EXPECT_EQ(parse(8, uint32_t{1}), "page table: page 0 cannot begin with sample 1 of the block");
  EXPECT_EQ(parse(24, uint32_t{0}), "page table: page 1 cannot begin with sample 0 of the block");
  EXPECT_EQ(parse(24, uint32_t{5}), "page table: page 1 cannot begin with sample 5 of the block");
  EXPECT_EQ(parse(16, uint64_t{20}),
            "page table: page 1 ends at 20, before it begins at 21 or after the values' 65557 bytes");
  EXPECT_EQ(parse(16, uint64_t{65558}),
            "page table: page 1 ends at 65558, before it begins at 21 or after the values' 65557 bytes");
  EXPECT_EQ(parse(16, uint64_t{65556}), "page table: the last page ends at 65556, not at the values' 65557 bytes");
  EXPECT_EQ(parse(0, uint64_t{9}), "page table: page 0 (samples 0 to 1 of the block) cannot have 9 bytes");
  EXPECT_EQ(parse(0, uint64_t{20}), "page table: page 1 (samples 2 to 4 of the block) cannot have 65537 bytes");
  Paged absent = good;
  absent.presence[0] = 0;
  absent.count = 1;
  absent.entries.resize(16);
  absent.pages.assign(65537, '\0');
  StoreLittle(absent.entries.data(), uint64_t{65537});
  EXPECT_EQ(absent.Parse().status().message(),
            "page table: page 0 (samples 0 to 0 of the block) cannot have 65537 bytes");

  const PageTable table = good.Parse().value();
  uint64_t begins[3], ends[3];
  const auto place = [&](size_t k, size_t offset, uint16_t end) {
    std::string page = good.Page(table, k);
    StoreLittle(page.data() + offset, end);
    return std::string(table.Place(k, page, begins, ends).message());
  };
  EXPECT_EQ(place(0, 11, 5), "");
  EXPECT_EQ(place(0, 11, 12),
            "ends: value of sample 0 of the block ends at 12 of its page, before it begins at 0 or "
            "after the values' 11 bytes");
  EXPECT_EQ(place(1, 65524, 65521),
            "ends: value of sample 3 of the block ends at 65520 of its page, before it begins "
            "at 65521 or after the values' 65524 bytes");
  EXPECT_EQ(place(1, 65526, 65521), "sample 3 of the block: an absent value has 1 bytes");
  EXPECT_EQ(table.CheckFull(0, 65514).message(), "");
  EXPECT_EQ(table.CheckFull(0, 65513).message(),
            "page table: the value of sample 2 of the block fits in page 0 and lies "
            "in the next one");
}

}  // namespace
}  // namespace shardkit::format
