// Key tables: division into pages, look-ups in one page, comparison with what they should hold, damage.
#include "container/read/key_table_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/endian.h"
#include "base/strings.h"
#include "support/counting_filesystem.h"
#include "support/effort.h"
#include "unit/container/shard_maker.h"

namespace shardkit::container {
namespace {

using format::KeyEntry;
using format::KeyTableWriter;
using format::kKeysOfPage;

std::string Write(const std::vector<KeyEntry>& entries) {
  std::string bytes;
  format::PagedTableWriter table([&](std::string_view piece) {
    bytes += piece;
    return absl::OkStatus();
  });
  KeyTableWriter writer([&](uint64_t first, std::string_view page) { return table.AddPage(first, page); });
  for (const KeyEntry& entry : entries) EXPECT_TRUE(writer.Add(entry).ok());
  const auto payload = writer.Finish();
  EXPECT_TRUE(payload.ok()) << payload.status();
  EXPECT_TRUE(table.EndSection(format::TableKind::kKeys, *payload).ok());
  EXPECT_TRUE(table.Finish().ok());
  return bytes;
}

// As many entries of each hash as it says.
std::vector<KeyEntry> Runs(const std::vector<std::pair<uint64_t, uint64_t>>& runs) {
  std::vector<KeyEntry> entries;
  for (const auto& [hash, count] : runs) {
    for (uint64_t i = 0; i < count; ++i) entries.push_back({hash, entries.size()});
  }
  return entries;
}

class KeyTables : public testing::Test {
 protected:
  KeyTables() : memory_(NewMemoryFileSystem()), files_(memory_.get()) {}

  absl::StatusOr<std::unique_ptr<KeyTable>> Open(const std::string& bytes, uint64_t count, uint64_t root = 0) {
    WriteWhole(*memory_, "/keys", bytes);
    auto file = files_.OpenForReading("/keys", ReadMode::kBuffered);
    EXPECT_TRUE(file.ok());
    files_.Reset();
    return KeyTable::Open(*std::move(file), {.length = bytes.size(), .root = root}, count);
  }

  // How many entries each page has.
  std::vector<uint64_t> Division(const std::vector<KeyEntry>& entries) {
    const auto table = Open(Write(entries), entries.size());
    EXPECT_TRUE(table.ok()) << table.status();
    std::vector<uint64_t> counts;
    for (uint64_t i = 0; i < (*table)->page_count(); ++i) {
      counts.push_back((*table)->Page(i, false)->bytes.size() / format::kKeyEntryBytes);
    }
    return counts;
  }

  static std::vector<uint64_t> Find(const KeyTable& table, uint64_t hash) {
    std::vector<uint64_t> found;
    const absl::Status status = table.Find(hash, [&](uint64_t ordinal) {
      found.push_back(ordinal);
      return false;
    });
    EXPECT_TRUE(status.ok()) << status;
    return found;
  }

  static std::string Compare(const KeyTable& table, const std::vector<KeyEntry>& entries) {
    KeyTableComparison comparison(table);
    absl::Status status;
    for (const KeyEntry& entry : entries) {
      if (status.ok()) status = comparison.Add(entry);
    }
    if (status.ok()) status = comparison.Finish();
    return std::string(status.message());
  }

  static absl::Status ReadEntries(const KeyTable& table, std::vector<KeyEntry>* entries) {
    KeyCursor cursor(table);
    for (KeyEntry entry;;) {
      const auto more = cursor.Next(&entry);
      if (!more.ok()) return more.status();
      if (!*more) return absl::OkStatus();
      entries->push_back(entry);
    }
  }

  const std::unique_ptr<FileSystem> memory_;
  test::CountingFileSystem files_;
};

TEST_F(KeyTables, KeepTheEntriesOfOneHashInOnePageUnlessTheyAreMore) {
  const uint64_t full = kKeysOfPage;
  EXPECT_EQ(Division({}), std::vector<uint64_t>());
  EXPECT_EQ(Division(Runs({{1, 1}})), (std::vector<uint64_t>{1}));
  EXPECT_EQ(Division(Runs({{1, full}})), (std::vector<uint64_t>{full}));
  EXPECT_EQ(Division(Runs({{1, full}, {2, 1}})), (std::vector<uint64_t>{full, 1}));
  EXPECT_EQ(Division(Runs({{1, full - 1}, {2, 2}, {3, 1}})), (std::vector<uint64_t>{full - 1, 3}));
  EXPECT_EQ(Division(Runs({{1, 10}, {2, full}, {3, 1}})), (std::vector<uint64_t>{10, full, 1}));
  EXPECT_EQ(Division(Runs({{1, 10}, {2, full + 1}, {3, 1}})), (std::vector<uint64_t>{10, full, 2}));
  EXPECT_EQ(Division(Runs({{1, 2 * full + 7}, {2, full - 7}})), (std::vector<uint64_t>{full, full, full}));
  EXPECT_EQ(Division(Runs({{1, 2 * full + 7}, {2, full - 6}})), (std::vector<uint64_t>{full, full, 7, full - 6}));
}

TEST_F(KeyTables, FindEachHashInOnePage) {
  Random random(21);
  for (int round = 0; round < test::Thinned(12); ++round) {
    std::vector<std::pair<uint64_t, uint64_t>> runs;
    uint64_t hash = random.Below(3), total = 0;
    while (total < 30000) {
      const uint64_t count = random.Chance(8) ? 1 + random.Below(2 * kKeysOfPage + 10) : 1 + random.Below(900);
      runs.emplace_back(hash, count);
      hash += 1 + random.Below(3);
      total += count;
    }
    const std::vector<KeyEntry> entries = Runs(runs);
    const auto table = Open(Write(entries), entries.size());
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(files_.reads().size(), 1u);
    std::map<uint64_t, std::vector<uint64_t>> wanted;
    for (const KeyEntry& entry : entries) wanted[entry.hash].push_back(entry.ordinal);
    for (uint64_t h = 0; h <= hash + 1; ++h) {
      files_.Reset();
      ASSERT_EQ(Find(**table, h), wanted[h]) << h;
      EXPECT_LE(files_.reads().size(), 1 + wanted[h].size() / kKeysOfPage) << h;
    }
    std::vector<KeyEntry> read;
    ASSERT_TRUE(ReadEntries(**table, &read).ok());
    EXPECT_EQ(read, entries);
    EXPECT_EQ(Compare(**table, entries), "");
  }
}

TEST_F(KeyTables, OfShardsHaveTheHashesOfTheirSamplesInOrder) {
  const std::vector<uint64_t> hashes = {5, 9, 5, 0};
  EXPECT_EQ(format::EncodeKeyTable(hashes), Write({{0, 3}, {5, 0}, {5, 2}, {9, 1}}));
}

TEST_F(KeyTables, OfOtherEntriesAreToldApart) {
  const std::vector<KeyEntry> entries = Runs({{1, 5}, {4, 1}, {7, 2}});
  const auto table = Open(Write(entries), entries.size());
  ASSERT_TRUE(table.ok());
  const std::string place = "/keys: key table at byte 0: ";
  std::vector<KeyEntry> other = entries;
  other[5].hash = 5;
  EXPECT_EQ(Compare(**table, other),
            StrCat(place, "entry 5 does not have the hash of the key of sample 5 that belongs there"));
  other = entries;
  other[7].ordinal = 9;
  EXPECT_EQ(Compare(**table, other), StrCat(place, "entry 7 names sample 7 instead of 9"));
  other = entries;
  other.pop_back();
  EXPECT_EQ(Compare(**table, other),
            StrCat(place, "page 0 has 128 bytes instead of 112: its fences divide the entries in another way"));
  other.push_back({7, 7});
  other.push_back({8, 8});
  EXPECT_EQ(Compare(**table, other),
            StrCat(place, "page 0 has 128 bytes instead of 144: its fences divide the entries in another way"));
  EXPECT_EQ(Open(Write(entries), 9).status().message(), StrCat(place, "has 8 entries for 9 samples"));
}

TEST_F(KeyTables, OfOtherPagesAreToldApart) {
  const std::vector<KeyEntry> one = Runs({{1, kKeysOfPage}}), two = Runs({{1, kKeysOfPage}, {2, 1}});
  const std::string place = "/keys: key table at byte 0: ";
  auto table = Open(Write(one), one.size());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(Compare(**table, one), "");
  EXPECT_EQ(Compare(**table, two), StrCat(place, "ends before what it should hold"));
  table = Open(Write(two), two.size());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(Compare(**table, two), "");
  EXPECT_EQ(Compare(**table, one), StrCat(place, "has more pages than it should"));
  std::vector<KeyEntry> other = two;
  other.back().hash = 3;
  EXPECT_EQ(Compare(**table, other),
            StrCat(place, "entry 4096 does not have the hash of the key of sample 4096 that belongs there"));
}

// A table whose pages are divided as `counts` says, and begin with `firsts`; all checksums are right.
std::string Divided(const std::vector<KeyEntry>& entries, const std::vector<uint64_t>& counts,
                    std::vector<uint64_t> firsts, uint64_t stated) {
  std::string bytes, payload;
  format::PagedTableWriter writer([&](std::string_view piece) {
    bytes += piece;
    return absl::OkStatus();
  });
  size_t next = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    std::string page;
    for (uint64_t k = 0; k < counts[i]; ++k, ++next) {
      AppendLittle(page, entries[next].hash);
      AppendLittle(page, entries[next].ordinal);
    }
    EXPECT_TRUE(writer.AddPage(firsts[i], page).ok());
  }
  AppendLittle(payload, stated);
  EXPECT_TRUE(writer.EndSection(format::TableKind::kKeys, payload).ok());
  EXPECT_TRUE(writer.Finish().ok());
  return bytes;
}

TEST_F(KeyTables, DividedOrFencedOtherwiseAreDamaged) {
  const std::vector<KeyEntry> entries = {{1, 0}, {1, 1}, {4, 2}, {7, 3}};
  const auto compare = [&](const std::string& bytes) {
    const auto table = Open(bytes, 4);
    return table.ok() ? Compare(**table, entries) : std::string(table.status().message());
  };
  EXPECT_EQ(compare(Divided(entries, {4}, {1}, 4)), "");
  const std::string wrong = "/keys: key table at byte 0: ";
  // The run of hash 1 is divided.
  EXPECT_EQ(compare(Divided(entries, {1, 3}, {1, 1}, 4)),
            StrCat(wrong, "page 0 has 16 bytes instead of 64: its fences divide the entries in another way"));
  EXPECT_EQ(compare(Divided(entries, {2, 2}, {1, 4}, 4)),
            StrCat(wrong, "page 0 has 32 bytes instead of 64: its fences divide the entries in another way"));
  EXPECT_EQ(compare(Divided(entries, {4}, {0}, 4)),
            StrCat(wrong, "page 0: its fence is not the hash of its first entry"));
  EXPECT_EQ(compare(Divided(entries, {4}, {1}, 5)), StrCat(wrong, "pages of 64 bytes do not hold 5 entries"));

  const auto table = Open(Divided(entries, {2, 2}, {1, 3}, 4), 4);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ((*table)->Find(4, [](uint64_t) { return true; }).message(),
            StrCat(wrong, "page 1: its fence is not the hash of its first entry"));
}

TEST_F(KeyTables, WithAPageOfTooManyEntriesAreDamaged) {
  const std::vector<KeyEntry> entries = Runs({{1, 1}, {2, kKeysOfPage}});
  const auto table = Open(Divided(entries, {kKeysOfPage + 1}, {1}, kKeysOfPage + 1), kKeysOfPage + 1);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::string wrong = "/keys: key table at byte 0: page 0: has 65552 bytes, which no page of keys may have";
  EXPECT_EQ((*table)->Find(2, [](uint64_t) { return true; }).message(), wrong);
  std::vector<KeyEntry> ignored;
  EXPECT_EQ(ReadEntries(**table, &ignored).message(), wrong);
}

TEST_F(KeyTables, WhoseEntriesDoNotAscendAreDamaged) {
  const auto read = [&](const std::vector<KeyEntry>& entries) {
    const auto table = Open(Divided(entries, {2, 1}, {entries[0].hash, entries[2].hash}, 3), 3);
    std::vector<KeyEntry> ignored;
    return table.ok() ? std::string(ReadEntries(**table, &ignored).message()) : "";
  };
  const std::string wrong = "/keys: key table at byte 0: ";
  EXPECT_EQ(read({{1, 0}, {4, 1}, {4, 2}}), "");
  EXPECT_EQ(read({{1, 0}, {0, 1}, {4, 2}}), StrCat(wrong, "hashes do not ascend at entry 1"));
  EXPECT_EQ(read({{1, 0}, {5, 1}, {4, 2}}), StrCat(wrong, "hashes do not ascend at entry 2"));
  EXPECT_EQ(read({{1, 1}, {1, 0}, {4, 2}}), StrCat(wrong, "ordinals of equal hashes do not ascend at entry 1"));
  EXPECT_EQ(read({{1, 1}, {1, 1}, {4, 2}}), StrCat(wrong, "ordinals of equal hashes do not ascend at entry 1"));
  EXPECT_EQ(read({{1, 0}, {4, 3}, {4, 4}}), StrCat(wrong, "ordinal 3 of entry 1 is past the last sample"));

  const auto table = Open(Divided({{1, 3}, {2, 1}, {3, 0}}, {3}, {1}, 3), 3);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ((*table)->Find(1, [](uint64_t) { return true; }).message(),
            StrCat(wrong, "ordinal 3 is past the last sample"));
}

TEST_F(KeyTables, WithAnyFlippedBitOrLengthAreDamaged) {
  const std::vector<KeyEntry> entries = Runs({{1, 3}, {2, 1}, {9, 2}});
  const std::string good = Write(entries);
  const auto found = [&](const std::string& bytes) {
    const auto table = Open(bytes, entries.size());
    return !table.ok() || !(*table)->CheckAll().ok();
  };
  EXPECT_FALSE(found(good));
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(found(flipped)) << bit;
  }
  for (size_t length = 0; length < good.size(); ++length) EXPECT_TRUE(found(good.substr(0, length))) << length;
}

// Two levels of fences, made of runs that fill half a page each.
TEST_F(KeyTables, OfManyPagesTakeThreeReads) {
  std::vector<KeyEntry> entries;
  const uint64_t pages = format::kMostRootFences + 3;
  const uint64_t run = kKeysOfPage / 2 + 1;  // two of them do not fit one page
  entries.reserve(pages * run);
  for (uint64_t page = 0; page < pages; ++page) {
    for (uint64_t i = 0; i < run; ++i) entries.push_back({10 * page + 5, entries.size()});
  }
  const std::string bytes = Write(entries);
  constexpr uint64_t kRoot = format::kSectionHeaderBytes + 3 * format::kFenceBytes + 8 + format::kTableTailBytes;
  for (const uint64_t hash : {uint64_t{0}, uint64_t{5}, uint64_t{20485}, uint64_t{20486}, 10 * pages - 5, 10 * pages}) {
    const auto table = Open(bytes, entries.size(), kRoot);
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_EQ((*table)->page_count(), pages);
    const std::vector<uint64_t> found = Find(**table, hash);
    EXPECT_EQ(found.size(), hash % 10 == 5 ? run : 0) << hash;
    EXPECT_LE(files_.reads().size(), 3u);
    EXPECT_LE(files_.bytes(), uint64_t{256} << 10);
  }
}

}  // namespace
}  // namespace shardkit::container
