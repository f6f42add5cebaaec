// Tables of checked pages: what is written is read again, in few requests, and damage anywhere is found.
#include "container/read/paged_table_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "format/constants.h"
#include "support/counting_filesystem.h"
#include "unit/container/shard_maker.h"

namespace shardkit::container {
namespace {

using format::Fence;
using format::PagedTableWriter;
using format::TableKind;
using format::TableTail;

struct Written {
  std::string bytes;
  TableTail tail;
};

// Page i begins with firsts[i] and holds i, in one to three words.
struct Section {
  TableKind kind{};
  std::vector<uint64_t> firsts;
  std::string payload;
};

Written WriteSections(const std::vector<Section>& sections) {
  Written written;
  PagedTableWriter writer([&](std::string_view piece) {
    written.bytes += piece;
    return absl::OkStatus();
  });
  for (const Section& section : sections) {
    for (size_t i = 0; i < section.firsts.size(); ++i) {
      std::string page;
      for (size_t k = 0; k < 1 + i % 3; ++k) AppendLittle(page, uint64_t{i});
      EXPECT_TRUE(writer.AddPage(section.firsts[i], page).ok());
    }
    EXPECT_EQ(writer.page_count(), section.firsts.size());
    EXPECT_TRUE(writer.EndSection(section.kind, section.payload).ok());
  }
  const auto tail = writer.Finish();
  EXPECT_TRUE(tail.ok()) << tail.status();
  written.tail = *tail;
  EXPECT_EQ(tail->section_count, sections.size());
  EXPECT_EQ(tail->table_length, written.bytes.size());
  return written;
}

Written Write(const std::vector<uint64_t>& firsts, std::string_view payload = "") {
  return WriteSections({{TableKind::kKeys, firsts, std::string(payload)}});
}

std::vector<uint64_t> Numbers(size_t count) {
  std::vector<uint64_t> firsts(count);
  for (size_t i = 0; i < count; ++i) firsts[i] = 10 * i + 5;
  return firsts;
}

// `firsts` were Numbers(count).
void ExpectPages(const PagedTable& table, size_t count) {
  ASSERT_EQ(table.page_count(), count);
  EXPECT_TRUE(table.CheckAll().ok()) << table.CheckAll();
  for (size_t i = 0; i < count; ++i) {
    const auto page = table.Page(i);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->number, i);
    EXPECT_EQ(page->first, 10 * i + 5);
    EXPECT_EQ(page->bytes.size(), 8 + 8 * (i % 3));
    EXPECT_EQ(LoadLittle<uint64_t>(page->bytes.data()), i);
  }
  EXPECT_TRUE(absl::IsDataLoss(table.Page(count).status()));
}

using Opened = absl::StatusOr<std::vector<std::unique_ptr<PagedTable>>>;

void ExpectSections(const Opened& opened, const std::vector<Section>& sections) {
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(opened->size(), sections.size());
  for (size_t i = 0; i < sections.size(); ++i) {
    const PagedTable& table = *(*opened)[i];
    EXPECT_EQ(table.kind(), sections[i].kind);
    EXPECT_EQ(table.payload(), sections[i].payload);
    uint64_t bytes = 0;
    for (size_t k = 0; k < sections[i].firsts.size(); ++k) bytes += 8 + 8 * (k % 3);
    EXPECT_EQ(table.page_bytes(), bytes);
    ExpectPages(table, sections[i].firsts.size());
    for (size_t k = 0; k < sections[i].firsts.size(); k += 1000) {
      EXPECT_EQ(table.FindPage(sections[i].firsts[k]).value(), k);
    }
  }
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

  Opened OpenAll(const std::string& bytes, uint64_t root = 0) {
    WriteWhole(*memory_, "/table", StrCat("12345678", bytes, "behind"));
    files_.Reset();
    auto file = files_.OpenForReading("/table", ReadMode::kBuffered);
    EXPECT_TRUE(file.ok());
    return PagedTable::OpenAll(*std::move(file), {.offset = 8, .length = bytes.size(), .root = root});
  }

  // Opens the table and reads all of it.
  absl::Status ReadAll(const std::string& bytes) {
    const Opened tables = OpenAll(bytes);
    absl::Status status = tables.status();
    for (size_t i = 0; status.ok() && i < tables->size(); ++i) status = (*tables)[i]->CheckAll();
    return status;
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
    ExpectPages(**table, count);
  }
}

// Sections of few pages, of none, and of more than 4096 in front of another.
std::vector<std::vector<Section>> SeveralSections() {
  const auto index = [](size_t count) { return Section{TableKind::kOffsetIndex, Numbers(count), "payload of index"}; };
  const auto list = [](size_t count) { return Section{TableKind::kShardList, Numbers(count), ""}; };
  const auto keys = [](size_t count) { return Section{TableKind::kKeys, Numbers(count), "payload!"}; };
  return {
      {index(2), list(5)},    {list(0), keys(0)},       {index(3), list(0), keys(4)},      {index(0), list(1), keys(0)},
      {index(4097), keys(3)}, {list(4096), keys(4097)}, {index(4097), list(0), keys(6145)}};
}

TEST_F(PagedTables, HoldSeveralSections) {
  for (const std::vector<Section>& sections : SeveralSections()) {
    const Written written = WriteSections(sections);
    const uint64_t root = written.tail.root_length + format::kTableTailBytes;
    const Opened opened = OpenAll(written.bytes, root);
    EXPECT_EQ(files_.reads().size(), 1u) << "one request brings what leads to the pages of all sections";
    EXPECT_EQ(files_.bytes(), root);
    ExpectSections(opened, sections);
    ExpectSections(OpenAll(written.bytes), sections);
    EXPECT_TRUE(absl::IsDataLoss(Open(written.bytes).status())) << "keys alone belong there";
  }
  const Written list = WriteSections({{TableKind::kShardList, Numbers(2), ""}});
  EXPECT_TRUE(absl::IsDataLoss(Open(list.bytes).status())) << "a table of another kind";
}

TEST_F(PagedTables, HoldSeveralSectionsInAMap) {
  const std::string path = StrCat(testing::TempDir(), "/paged_table_test_sections");
  for (const std::vector<Section>& sections : SeveralSections()) {
    const Written written = WriteSections(sections);
    (void)PosixFileSystem()->RemoveFile(path);
    WriteWhole(*PosixFileSystem(), path, written.bytes);
    auto file = PosixFileSystem()->OpenForReading(path, ReadMode::kMapped);
    ASSERT_TRUE(file.ok()) << file.status();
    ExpectSections(PagedTable::OpenAll(*std::move(file), {.length = written.bytes.size()}), sections);
  }
  EXPECT_TRUE(PosixFileSystem()->RemoveFile(path).ok());
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
    const uint64_t root = written.tail.root_length + format::kTableTailBytes;
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

// Says how many bytes of its map are no longer needed.
class LetGoFile final : public ForwardingFile {
 public:
  LetGoFile(std::unique_ptr<RandomAccessFile> base, uint64_t* bytes) : ForwardingFile(std::move(base)), bytes_(bytes) {}
  void WontNeed(uint64_t offset, uint64_t length) const override {
    *bytes_ += length;
    ForwardingFile::WontNeed(offset, length);
  }

 private:
  uint64_t* const bytes_;
};

TEST_F(PagedTables, PagesOfAMapAreLetGoAfterAllWereRead) {
  const std::string path = StrCat(testing::TempDir(), "/paged_table_test_let_go");
  const Written written = Write(Numbers(3000));
  (void)PosixFileSystem()->RemoveFile(path);
  WriteWhole(*PosixFileSystem(), path, written.bytes);
  auto file = PosixFileSystem()->OpenForReading(path, ReadMode::kMapped);
  ASSERT_TRUE(file.ok()) << file.status();
  uint64_t bytes = 0;
  const auto table = PagedTable::Open(std::make_unique<LetGoFile>(*std::move(file), &bytes),
                                      {.length = written.bytes.size()}, TableKind::kKeys);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE((*table)->CheckAll().ok());
  EXPECT_EQ(bytes, (*table)->page_bytes());
  (*table)->LetGo(1, 3);
  EXPECT_EQ(bytes, (*table)->page_bytes() + 16 + 24);
  (*table)->LetGo(3, 3);
  EXPECT_EQ(bytes, (*table)->page_bytes() + 16 + 24);
  ExpectPages(**table, 3000);
  EXPECT_TRUE(PosixFileSystem()->RemoveFile(path).ok());
}

TEST_F(PagedTables, EveryFlippedBitAndEveryTruncationIsFound) {
  const Written several = WriteSections({{TableKind::kOffsetIndex, Numbers(2), ""},
                                         {TableKind::kShardList, {}, "payload!"},
                                         {TableKind::kKeys, Numbers(3), ""}});
  for (const Written& written : {Write(Numbers(5), "payload!"), several}) {
    const std::string& whole = written.bytes;
    ASSERT_TRUE(ReadAll(whole).ok());
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string flipped = whole;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      const absl::Status status = ReadAll(flipped);
      EXPECT_TRUE(absl::IsDataLoss(status)) << "bit " << bit << ": " << status;
      EXPECT_EQ(status.message().substr(0, 6), "/table") << status;
      if (bit / 8 >= written.tail.root_offset()) {
        EXPECT_TRUE(absl::IsDataLoss(OpenAll(flipped).status())) << "bit " << bit;
      }
    }
    for (size_t length = 0; length < whole.size(); ++length) {
      EXPECT_TRUE(absl::IsDataLoss(ReadAll(whole.substr(0, length)))) << length;
      EXPECT_TRUE(absl::IsDataLoss(ReadAll(whole.substr(whole.size() - length)))) << length;
    }
  }
}

TEST_F(PagedTables, FlippedBitsOfFencePagesAreFound) {
  const Section many{TableKind::kOffsetIndex, Numbers(4097), ""}, few{TableKind::kKeys, Numbers(3), ""};
  for (const Written& written : {WriteSections({many}), WriteSections({many, few})}) {
    const Opened opened = OpenAll(written.bytes);
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (uint64_t byte = format::kTableMagicBytes + opened->front()->page_bytes(); byte < written.bytes.size();
         byte += 97) {
      std::string flipped = written.bytes;
      flipped[byte] ^= 16;
      EXPECT_TRUE(absl::IsDataLoss(ReadAll(flipped))) << byte;
    }
    for (uint64_t byte = written.tail.root_offset(); byte < written.bytes.size(); ++byte) {
      std::string flipped = written.bytes;
      flipped[byte] ^= 16;
      EXPECT_TRUE(absl::IsDataLoss(OpenAll(flipped).status())) << byte;
    }
  }
}

// Makes the checksums of root and tail right again after `edit` has changed them.
std::string WithTail(std::string bytes, const std::function<void(std::string*)>& edit, uint64_t root_length) {
  edit(&bytes);
  const size_t tail = bytes.size() - format::kTableTailBytes;
  StoreLittle(bytes.data() + tail + 24, Hash64(std::string_view(bytes).substr(tail - root_length, root_length)));
  StoreLittle(bytes.data() + tail + 48, Hash64(std::string_view(bytes).substr(tail, 48)));
  return bytes;
}

TEST_F(PagedTables, ForgedRootsAreRefused) {
  const Written written = Write(Numbers(5), "payload!");
  const uint64_t root_length = written.tail.root_length;
  const size_t root = written.tail.root_offset(), tail = root + root_length;
  const size_t fences = root + format::kSectionHeaderBytes;
  const auto forged = [&](size_t at, uint64_t value) {
    const std::string bytes = WithTail(
        written.bytes, [&](std::string* edited) { StoreLittle(edited->data() + at, value); }, root_length);
    // As a table of keys, and all of it.
    const auto table = Open(bytes);
    return table.ok() ? ReadAll(bytes) : table.status();
  };
  ASSERT_TRUE(forged(tail + 32, 0).ok());
  EXPECT_TRUE(absl::IsUnimplemented(forged(tail, 1 | uint64_t{2} << 32))) << "another major version";
  EXPECT_TRUE(forged(tail, 1 | uint64_t{1} << 32 | uint64_t{7} << 48).ok()) << "another minor version";
  for (const auto& [at, value] : std::vector<std::pair<size_t, uint64_t>>{
           {tail, 0 | uint64_t{1} << 32},  // sections: none, more, far more
           {tail, 2 | uint64_t{1} << 32},
           {tail, UINT32_MAX | uint64_t{1} << 32},
           {tail + 8, root_length - 8},  // the root: shorter, longer, far longer, no multiple of 8
           {tail + 8, root_length + 8},
           {tail + 8, UINT64_MAX - 7},
           {tail + 8, root_length + 4},
           {tail + 8, 0},
           {tail + 16, written.bytes.size() - 8},
           {tail + 32, 1},  // reserved
           {tail + 40, uint64_t{1} << 63},
           {root, 2},                      // kind
           {root, 3 | uint64_t{1} << 32},  // reserved
           {root + 8, 4},                  // pages: fewer, more, far more
           {root + 8, 6},
           {root + 8, 4097},
           {root + 8, format::kMostPages + 1},
           {root + 8, uint64_t{1} << 61},
           {root + 16, 0},  // where they end
           {root + 16, root - 8},
           {root + 16, root - 4},
           {root + 16, root + 8},
           {root + 16, UINT64_MAX - 7},
           {root + 24, 0},  // payload
           {root + 24, 16},
           {root + 24, format::kMaxTablePayload + 8},
           {root + 24, UINT64_MAX - 7},
           {fences, 16},                           // first: above that of the next page
           {fences + 8, 16},                       // offset: not where the pages begin
           {fences + 24 + 8, 12},                  // no multiple of 8
           {fences + 24 + 8, 8},                   // an empty page
           {fences + 4 * 24 + 8, uint64_t{root}},  // behind the pages
       }) {
    EXPECT_TRUE(absl::IsDataLoss(forged(at, value))) << at << " " << value << ": " << forged(at, value);
  }
}

TEST_F(PagedTables, ForgedFencePagesAreRefused) {
  const Written written = Write(Numbers(4097));
  const uint64_t root_length = written.tail.root_length;
  const size_t root = written.tail.root_offset(), fences = root + format::kSectionHeaderBytes;
  const auto forged = [&](size_t at, uint64_t value) {
    return ReadAll(WithTail(
        written.bytes, [&](std::string* edited) { StoreLittle(edited->data() + at, value); }, root_length));
  };
  const uint64_t pages_end = root - format::kFenceBytes * 4097;
  ASSERT_TRUE(forged(root + 16, pages_end).ok());
  for (const auto& [at, value] : std::vector<std::pair<size_t, uint64_t>>{
           {root + 8, 4096},  // pages, with fences of their own in the root
           {root + 8, 4098},
           {root + 8, 3 * format::kFencesOfPage + 1},
           {root + 16, pages_end - 8},
           {root + 16, pages_end + 8},
           {root + 16, root},
           {fences, 4},           // first of a fence page
           {fences + 24 + 8, 8},  // offset of its first page
           {fences + 2 * 24 + 8, pages_end},
       }) {
    EXPECT_TRUE(absl::IsDataLoss(forged(at, value))) << at << " " << value << ": " << forged(at, value);
  }
}

// What the root says of a section, right or wrong.
struct SectionInRoot {
  uint32_t kind = 0;
  uint32_t reserved = 0;
  uint64_t page_count = 0;
  uint64_t pages_end = 0;
  std::vector<Fence> fences;
  std::string payload;
  std::optional<uint64_t> payload_length;  // where it is not that of the payload
};

// The checksums are right.
std::string Assembled(std::string_view pages, const std::vector<SectionInRoot>& sections,
                      std::optional<uint32_t> section_count = std::nullopt, std::string_view behind_sections = "") {
  std::string root;
  for (const SectionInRoot& section : sections) {
    AppendLittle(root, section.kind);
    AppendLittle(root, section.reserved);
    AppendLittle(root, section.page_count);
    AppendLittle(root, section.pages_end);
    AppendLittle(root, section.payload_length.value_or(section.payload.size()));
    for (const Fence& fence : section.fences) format::AppendFence(fence, &root);
    root += section.payload;
  }
  root += behind_sections;
  std::string bytes = StrCat(format::kTableMagic, pages, root);
  TableTail tail{.section_count = section_count.value_or(static_cast<uint32_t>(sections.size())),
                 .root_length = root.size(),
                 .table_length = bytes.size() + format::kTableTailBytes,
                 .root_checksum = Hash64(root)};
  bytes += format::EncodeTableTail(&tail);
  return bytes;
}

TEST_F(PagedTables, WhoseSectionsDoNotFollowOneAnotherAreRefused) {
  const std::string pages = "page onepage two";
  const Fence one{5, 8, Hash64("page one")}, two{6, 16, Hash64("page two")};
  const SectionInRoot index{.kind = 1, .page_count = 1, .pages_end = 16, .fences = {one}, .payload = "of index"};
  const SectionInRoot keys{.kind = 3, .page_count = 1, .pages_end = 24, .fences = {two}, .payload = ""};
  const SectionInRoot empty{.kind = 2, .pages_end = 16};
  const auto with = [](SectionInRoot section, const std::function<void(SectionInRoot&)>& edit) {
    edit(section);
    return section;
  };
  const auto accepted = [&](const std::string& bytes) {
    const absl::Status status = ReadAll(bytes);
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
    EXPECT_EQ(OpenAll(bytes).ok(), status.ok()) << "without a look at the pages";
    return status.ok();
  };
  EXPECT_TRUE(accepted(Assembled(pages, {index, keys})));
  EXPECT_TRUE(accepted(Assembled(pages, {index, empty, keys})));
  EXPECT_EQ(Assembled(pages, {index, empty, keys}).size(), size_t{8 + 16 + 3 * 32 + 2 * 24 + 8 + 64});

  // Kinds.
  EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, [](auto& section) { section.kind = 1; })})));
  EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, [](auto& section) { section.kind = 0; })})));
  EXPECT_FALSE(accepted(Assembled(pages, {with(index, [](auto& section) { section.kind = 4; }), keys})));
  EXPECT_TRUE(accepted(Assembled(pages, {index, with(keys, [](auto& section) { section.kind = 1000; })})));

  // Reserved bytes.
  for (const uint32_t reserved : {uint32_t{1}, uint32_t{1} << 31}) {
    const auto set = [&](SectionInRoot& section) { section.reserved = reserved; };
    EXPECT_FALSE(accepted(Assembled(pages, {with(index, set), keys})));
    EXPECT_FALSE(accepted(Assembled(pages, {index, with(empty, set), keys})));
    EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, set)})));
  }

  // Where pages end.
  for (const uint64_t end : {uint64_t{0}, uint64_t{8}, uint64_t{12}, uint64_t{20}, uint64_t{24}, uint64_t{32},
                             uint64_t{1} << 40, UINT64_MAX - 7}) {
    const auto set = [&](SectionInRoot& section) { section.pages_end = end; };
    EXPECT_FALSE(accepted(Assembled(pages, {with(index, set), keys}))) << end;
    EXPECT_FALSE(accepted(Assembled(pages, {index, with(empty, set), keys}))) << end;
    if (end != 24) {
      EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, set)}))) << end;
    }
  }
  EXPECT_FALSE(accepted(Assembled(StrCat(pages, "of none."), {index, keys}))) << "bytes that are no section's";
  EXPECT_FALSE(accepted(Assembled("page one", {index, keys})));

  // Pages and fences.
  for (const uint64_t count : {uint64_t{0}, uint64_t{2}, uint64_t{4097}, format::kMostPages + 1, UINT64_MAX}) {
    const auto set = [&](SectionInRoot& section) { section.page_count = count; };
    EXPECT_FALSE(accepted(Assembled(pages, {with(index, set), keys}))) << count;
    EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, set)}))) << count;
  }
  EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, [&](auto& section) { section.fences = {one}; })})));
  EXPECT_FALSE(accepted(Assembled(pages, {with(index, [&](auto& section) { section.fences = {two}; }), keys})));
  EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, [](auto& section) { section.fences.clear(); })})));
  EXPECT_FALSE(accepted(Assembled(pages, {with(index, [&](auto& section) { section.fences = {one, two}; }), keys})));

  // Payloads, and what fills the root.
  for (const uint64_t length :
       {uint64_t{4}, uint64_t{16}, uint64_t{64}, format::kMaxTablePayload + 8, UINT64_MAX - 7}) {
    const auto set = [&](SectionInRoot& section) { section.payload_length = length; };
    EXPECT_FALSE(accepted(Assembled(pages, {with(index, set), keys}))) << length;
    EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, set)}))) << length;
  }
  const SectionInRoot none = with(index, [](auto& section) { section.payload_length = uint64_t{0}; });
  EXPECT_FALSE(accepted(Assembled(pages, {none, keys})));
  EXPECT_FALSE(accepted(Assembled(pages, {index, keys}, std::nullopt, "of none.")));
  EXPECT_FALSE(accepted(Assembled(pages, {index, keys}, std::nullopt, "none")));
  EXPECT_FALSE(accepted(Assembled(pages, {index, with(keys, [](auto& section) { section.payload = "none"; })})));

  // How many sections.
  for (const uint32_t count : {0u, 1u, 3u, 16u, 17u, UINT32_MAX}) {
    EXPECT_FALSE(accepted(Assembled(pages, {index, keys}, count))) << count;
  }
  EXPECT_FALSE(accepted(Assembled("", {})));
  std::vector<SectionInRoot> many;
  while (many.size() < 17) many.push_back({.kind = static_cast<uint32_t>(many.size() + 1), .pages_end = 8});
  EXPECT_FALSE(accepted(Assembled("", many)));
  many.pop_back();
  EXPECT_TRUE(accepted(Assembled("", many)));
}

TEST_F(PagedTables, WritersRefuseWhatNoTableHas) {
  PagedTableWriter writer([](std::string_view) { return absl::OkStatus(); });
  EXPECT_FALSE(writer.AddPage(5, "").ok());
  EXPECT_FALSE(writer.AddPage(5, "odd").ok());
  EXPECT_TRUE(writer.AddPage(5, "12345678").ok());
  EXPECT_FALSE(writer.AddPage(4, "12345678").ok());
  EXPECT_FALSE(writer.EndSection(TableKind::kShardList, "odd").ok());
  EXPECT_TRUE(writer.EndSection(TableKind::kShardList, "").ok());
  EXPECT_TRUE(writer.AddPage(4, "12345678").ok()) << "of another section";
  PagedTableWriter full([](std::string_view) { return absl::ResourceExhaustedError("full"); });
  EXPECT_TRUE(absl::IsResourceExhausted(full.AddPage(5, "12345678")));
}

}  // namespace
}  // namespace shardkit::container
