// Tables of checked pages: what is written is read again, in few requests, and damage anywhere is found.
#include "container/paged_table_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "support/counting_filesystem.h"
#include "unit/container/shard_maker.h"

namespace shardkit::container {
namespace {

using format::PagedTableWriter;
using format::TableKind;
using format::TableTail;

struct Written {
  std::string bytes;
  TableTail tail;
};

// Page i begins with firsts[i] and holds i, in one to three words.
Written Write(const std::vector<uint64_t>& firsts, std::string_view payload = "") {
  Written written;
  PagedTableWriter writer(TableKind::kKeys, [&](std::string_view piece) {
    written.bytes += piece;
    return absl::OkStatus();
  });
  for (size_t i = 0; i < firsts.size(); ++i) {
    std::string page;
    for (size_t k = 0; k < 1 + i % 3; ++k) AppendLittle(page, uint64_t{i});
    EXPECT_TRUE(writer.AddPage(firsts[i], page).ok());
  }
  const auto tail = writer.Finish(payload);
  EXPECT_TRUE(tail.ok()) << tail.status();
  written.tail = *tail;
  EXPECT_EQ(tail->table_length, written.bytes.size());
  return written;
}

std::vector<uint64_t> Numbers(size_t count) {
  std::vector<uint64_t> firsts(count);
  for (size_t i = 0; i < count; ++i) firsts[i] = 10 * i + 5;
  return firsts;
}

class PagedTables : public testing::Test {
 protected:
  PagedTables() : memory_(NewMemoryFileSystem()), files_(memory_.get()) {}

  absl::StatusOr<std::unique_ptr<PagedTable>> Open(const std::string& bytes, uint64_t root = 0) {
    WriteWhole(*memory_, "/table", StrCat("12345678", bytes, "behind"));
    files_.Reset();
    auto file = files_.OpenForReading("/table", ReadMode::kBuffered);
    EXPECT_TRUE(file.ok());
    return PagedTable::Open(*std::move(file), {.offset = 8, .length = bytes.size(), .root = root}, TableKind::kKeys);
  }

  std::unique_ptr<FileSystem> memory_;
  test::CountingFileSystem files_;
};

TEST_F(PagedTables, HoldTheirPagesAndTheirPayload) {
  for (const size_t count : {0, 1, 2, 4095, 4096, 4097, 6144, 6145}) {
    const Written written = Write(Numbers(count), "payload of the table....");
    const auto table = Open(written.bytes);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ((*table)->payload(), "payload of the table....");
    ASSERT_EQ((*table)->page_count(), count);
    EXPECT_TRUE((*table)->CheckAll().ok()) << (*table)->CheckAll();
    for (size_t i = 0; i < count; ++i) {
      const auto page = (*table)->Page(i);
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_EQ(page->number, i);
      EXPECT_EQ(page->first, 10 * i + 5);
      EXPECT_EQ(page->bytes.size(), 8 + 8 * (i % 3));
      EXPECT_EQ(LoadLittle<uint64_t>(page->bytes.data()), i);
    }
    EXPECT_TRUE(absl::IsDataLoss((*table)->Page(count).status()));
  }
}

TEST_F(PagedTables, FindThePageOfANumber) {
  for (const size_t count : {1, 3, 4096, 4097, 6145}) {
    const auto table = Open(Write(Numbers(count)).bytes);
    ASSERT_TRUE(table.ok()) << table.status();
    for (const uint64_t key : {uint64_t{0}, uint64_t{5}, uint64_t{14}, uint64_t{15}, uint64_t{16}, uint64_t{20480},
                               uint64_t{20485}, uint64_t{20486}, UINT64_MAX}) {
      const uint64_t expected = key < 5 ? 0 : std::min<uint64_t>((key - 5) / 10, count - 1);
      const auto found = (*table)->FindPage(key);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, expected) << key << " among " << count;
    }
  }
}

// Of pages that begin alike the first is found, also where they fill fence pages.
TEST_F(PagedTables, FindTheFirstOfEqualPages) {
  for (const auto& [before, equal, behind] : {std::tuple{3, 4, 2},
                                              {0, 2, 1},
                                              {2000, 100, 3000},
                                              {100, 5000, 100},
                                              {2048, 2048, 2048},
                                              {0, 6144, 1},
                                              {2047, 4098, 1}}) {
    std::vector<uint64_t> firsts(before, 1);
    firsts.insert(firsts.end(), equal, 7);
    firsts.insert(firsts.end(), behind, 9);
    const auto table = Open(Write(firsts).bytes);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ((*table)->FindPage(7).value(), static_cast<uint64_t>(before));
    EXPECT_EQ((*table)->FindPage(8).value(), static_cast<uint64_t>(before + equal - 1));
    EXPECT_EQ((*table)->FindPage(9).value(), static_cast<uint64_t>(before + equal));
  }
}

TEST_F(PagedTables, TakeThreeRequests) {
  for (const size_t count : {4096, 6145}) {
    const Written written = Write(Numbers(count));
    const uint64_t root = written.tail.root_length() + format::kTableTailBytes;
    const auto table = Open(written.bytes, root);
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_EQ(files_.reads().size(), 1u);
    EXPECT_EQ(files_.bytes(), root);
    const uint64_t number = (*table)->FindPage(12345).value();
    ASSERT_TRUE((*table)->Page(number).ok());
    EXPECT_EQ(files_.reads().size(), count > format::kMostRootFences ? 3u : 2u);
    ASSERT_TRUE((*table)->Page(number).ok());
    EXPECT_EQ(files_.reads().size(), count > format::kMostRootFences ? 3u : 2u) << "the page is in memory";
  }
  // A root whose length is not known, and that one read of the end does not bring.
  const auto table = Open(Write(Numbers(4096)).bytes);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(files_.reads().size(), 2u);
}

TEST_F(PagedTables, AMapIsCheckedOnFirstUse) {
  const std::string path = StrCat(testing::TempDir(), "/paged_table_test");
  Written written = Write(Numbers(3));
  written.bytes[8 + 8] ^= 1;  // in page 1
  (void)PosixFileSystem()->RemoveFile(path);
  WriteWhole(*PosixFileSystem(), path, written.bytes);
  auto file = PosixFileSystem()->OpenForReading(path, ReadMode::kMapped);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto table = PagedTable::Open(*std::move(file), {.length = written.bytes.size()}, TableKind::kKeys);
  ASSERT_TRUE(table.ok()) << table.status();
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE((*table)->Page(0).ok());
    EXPECT_EQ((*table)->Page(0)->memory, nullptr);
    EXPECT_TRUE(absl::IsDataLoss((*table)->Page(1).status()));
    EXPECT_TRUE((*table)->Page(2).ok());
  }
  EXPECT_TRUE(PosixFileSystem()->RemoveFile(path).ok());
}

// Opens the table and reads all of it.
absl::Status ReadAll(absl::StatusOr<std::unique_ptr<PagedTable>> table) {
  return table.ok() ? (*table)->CheckAll() : table.status();
}

TEST_F(PagedTables, EveryFlippedBitAndEveryTruncationIsFound) {
  const std::string whole = Write(Numbers(5), "payload!").bytes;
  ASSERT_TRUE(ReadAll(Open(whole)).ok());
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const absl::Status status = ReadAll(Open(flipped));
    EXPECT_TRUE(absl::IsDataLoss(status)) << "bit " << bit << ": " << status;
    EXPECT_EQ(status.message().substr(0, 6), "/table") << status;
  }
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(ReadAll(Open(whole.substr(0, length))))) << length;
    EXPECT_TRUE(absl::IsDataLoss(ReadAll(Open(whole.substr(whole.size() - length))))) << length;
  }
}

TEST_F(PagedTables, FlippedBitsOfFencePagesAreFound) {
  const Written written = Write(Numbers(4097));
  for (uint64_t byte = written.tail.pages_end(); byte < written.bytes.size(); byte += 97) {
    std::string flipped = written.bytes;
    flipped[byte] ^= 16;
    EXPECT_TRUE(absl::IsDataLoss(ReadAll(Open(flipped)))) << byte;
  }
}

// Makes the checksums of root and tail right again after `edit` has changed them.
std::string WithTail(std::string bytes, const std::function<void(std::string*)>& edit, uint64_t root_length) {
  edit(&bytes);
  const size_t tail = bytes.size() - format::kTableTailBytes;
  StoreLittle(bytes.data() + tail + 32, Hash64(std::string_view(bytes).substr(tail - root_length, root_length)));
  StoreLittle(bytes.data() + tail + 48, Hash64(std::string_view(bytes).substr(tail, 48)));
  return bytes;
}

TEST_F(PagedTables, ForgedRootsAreRefused) {
  const Written written = Write(Numbers(5), "payload!");
  const uint64_t root_length = written.tail.root_length();
  const size_t root = written.tail.root_offset(), tail = root + root_length;
  const auto forged = [&](size_t at, uint64_t value) {
    return ReadAll(Open(WithTail(
        written.bytes, [&](std::string* bytes) { StoreLittle(bytes->data() + at, value); }, root_length)));
  };
  ASSERT_TRUE(forged(tail + 40, 0).ok());
  EXPECT_TRUE(absl::IsUnimplemented(forged(tail, 3 | uint64_t{2} << 32))) << "another major version";
  EXPECT_TRUE(forged(tail, 3 | uint64_t{1} << 32 | uint64_t{7} << 48).ok()) << "another minor version";
  for (const auto& [at, value] : std::vector<std::pair<size_t, uint64_t>>{
           {tail, 2 | uint64_t{1} << 32},  // kind
           {tail + 8, 4},                  // pages: fewer, more, far more
           {tail + 8, 6},
           {tail + 8, uint64_t{1} << 61},
           {tail + 16, 0},  // payload
           {tail + 16, UINT64_MAX - 7},
           {tail + 24, written.bytes.size() - 8},
           {tail + 40, 1},                       // reserved
           {root, 16},                           // first: above that of the next page
           {root + 8, 16},                       // offset: not where the pages begin
           {root + 24 + 8, 12},                  // no multiple of 8
           {root + 24 + 8, 8},                   // an empty page
           {root + 4 * 24 + 8, uint64_t{root}},  // behind the pages
       }) {
    EXPECT_TRUE(absl::IsDataLoss(forged(at, value))) << at << " " << value << ": " << forged(at, value);
  }
}

TEST_F(PagedTables, WritersRefuseWhatNoTableHas) {
  PagedTableWriter writer(TableKind::kKeys, [](std::string_view) { return absl::OkStatus(); });
  EXPECT_FALSE(writer.AddPage(5, "").ok());
  EXPECT_FALSE(writer.AddPage(5, "odd").ok());
  EXPECT_TRUE(writer.AddPage(5, "12345678").ok());
  EXPECT_FALSE(writer.AddPage(4, "12345678").ok());
  EXPECT_FALSE(writer.Finish("odd").ok());
  PagedTableWriter full(TableKind::kKeys, [](std::string_view) { return absl::ResourceExhaustedError("full"); });
  EXPECT_TRUE(absl::IsResourceExhausted(full.AddPage(5, "12345678")));
}

}  // namespace
}  // namespace shardkit::container
