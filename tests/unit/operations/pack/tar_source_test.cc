#include "operations/sources/tar_samples.h"
#include "unit/operations/pack/convert_support.h"

namespace shardkit::operations {
namespace {

using test::LoadAll;
using test::MakeTar;
using test::Message;
using test::TarItem;

class TarSourceTest : public testing::Test {
 protected:
  test::Loaded Load(std::string_view tar, SourceOptions options = {}) {
    file_system_ = NewMemoryFileSystem();
    test::WriteFile(*file_system_, "/t.tar", tar);
    return LoadAll(file_system_.get(), "files", {"/t.tar"}, options);
  }
  // The message of the only failure.
  std::string FailureOf(const std::vector<TarItem>& entries) {
    const test::Loaded loaded = Load(MakeTar(entries));
    EXPECT_TRUE(loaded.status.ok()) << loaded.status;
    EXPECT_EQ(loaded.failures.size(), 1u);
    return loaded.failures.empty() ? "" : Message(loaded.failures[0].status);
  }
  std::unique_ptr<FileSystem> file_system_;
};

const std::vector<TarItem> kPlain = {
    {"./", "", 'd'},    {"./a/", "", 'd'},
    {"./a/1.cls", "3"}, {"./a/1.jpg", "\xff\xd8\xff jpeg"},
    {"./a/0.cls", "4"}, {"./b/1.cls", std::string(3000, 'z')},
    {"empty", ""},
};

void ExpectPlain(const test::Loaded& loaded) {
  ASSERT_TRUE(loaded.status.ok()) << loaded.status;
  ASSERT_TRUE(loaded.failures.empty()) << loaded.failures[0].status;
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"a/1", "a/0", "b/1", "empty"}));
  EXPECT_EQ(loaded.samples[0].fields.at("cls").bytes, "3");
  EXPECT_EQ(loaded.samples[0].fields.at("jpg").type, Type::kJpeg);
  EXPECT_EQ(loaded.samples[2].fields.at("cls").bytes, std::string(3000, 'z'));
  EXPECT_EQ(loaded.samples[3].fields.at("/").bytes, "");
}

TEST_F(TarSourceTest, EveryFormatAndCompression) {
  for (const char* const format : {"pax", "gnutar", "ustar"}) ExpectPlain(Load(MakeTar(kPlain, "", format)));
  for (const char* const filter : {"gzip", "bzip2", "xz", "zstd", "lz4", "lzma", "compress"}) {
    ExpectPlain(Load(MakeTar(kPlain, filter)));
  }
}

// A tar begins with the name of its first member, a compressed file with magic bytes.
TEST_F(TarSourceTest, NamesThatBeginAsCompressedFilesDo) {
  for (const std::string name : {"BZh91AY.txt", "]"}) {
    for (const char* const format : {"gnutar", "ustar"}) {
      EXPECT_EQ(Load(MakeTar({{name, "1"}}, "", format)).samples.size(), 1u) << name;
    }
  }
}

TEST_F(TarSourceTest, LongNamesAndNamesBeyondAscii) {
  const std::string deep = std::string(120, 'd') + "/" + std::string(180, 'f');
  for (const char* const format : {"pax", "gnutar"}) {
    const test::Loaded loaded = Load(MakeTar({{deep + ".txt", "1"}, {deep + ".cls", "2"}}, "", format));
    ASSERT_EQ(loaded.Keys(), std::vector<std::string>{deep}) << format;
    EXPECT_EQ(loaded.samples[0].fields.at("cls").bytes, "2");
  }
  const test::Loaded loaded = Load(MakeTar({{"caf\xc3\xa9.txt", "1"}}, "", "gnutar"));
  EXPECT_EQ(loaded.Keys(), std::vector<std::string>{"caf\xc3\xa9"});
}

TEST_F(TarSourceTest, LargeMembersOfAPlainTarStayInIt) {
  SourceOptions options;
  options.stream_above = 1000;
  const std::vector<TarItem> entries = {
      {"a.bin", std::string(1500, 'q')}, {"a.cls", "1"}, {"b.bin", "small"}, {"c.bin", std::string(70000, 'r')}};
  for (const char* const format : {"pax", "gnutar"}) {
    const test::Loaded loaded = Load(MakeTar(entries, "", format), options);
    ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"a", "b", "c"})) << loaded.status;
    EXPECT_TRUE(loaded.samples[0].fields.at("bin").file);
    EXPECT_EQ(loaded.samples[0].fields.at("bin").bytes, entries[0].bytes);
    EXPECT_EQ(loaded.samples[0].fields.at("cls").bytes, "1");
    EXPECT_FALSE(loaded.samples[1].fields.at("bin").file);
    EXPECT_EQ(loaded.samples[2].fields.at("bin").bytes, entries[3].bytes);
  }
  const test::Loaded packed = Load(MakeTar(entries, "gzip"), options);
  ASSERT_EQ(packed.samples.size(), 3u);
  EXPECT_FALSE(packed.samples[0].fields.at("bin").file);
  EXPECT_EQ(packed.samples[0].fields.at("bin").bytes, entries[0].bytes);
}

TEST_F(TarSourceTest, ListingHandsOutAtMostAFewMebibytesAtOnce) {
  std::vector<TarItem> entries;
  for (int i = 0; i < 10; ++i) entries.push_back({std::to_string(i) + ".bin", std::string(1 << 20, 'x')});
  file_system_ = NewMemoryFileSystem();
  test::WriteFile(*file_system_, "/t.tar", MakeTar(entries));
  auto source = OpenSource("files", {"/t.tar"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok());
  auto unit = (*source)->Next(100);
  ASSERT_TRUE(unit.ok());
  EXPECT_EQ((*unit)->sample_count, 4u);
}

TEST_F(TarSourceTest, AKeyThatComesBackIsAFailure) {
  EXPECT_EQ(FailureOf({{"a.bin", "1"}, {"b.bin", "2"}, {"a.cls", "3"}}),
            "/t.tar: member 'a.cls' (number 3) has the key 'a' of the sample that began with member number 1 "
            "and had "
            "ended: the files of a sample must stand next to each other, each once");
}

TEST(SeenKeys, RemembersTheFirstOnes) {
  SeenKeys keys(2);
  EXPECT_EQ(keys.Insert("a", 1), std::nullopt);
  EXPECT_EQ(keys.Insert("b", 2), std::nullopt);
  EXPECT_EQ(keys.Insert("c", 3), std::nullopt);
  EXPECT_EQ(keys.Insert("a", 4), 1u);
  EXPECT_EQ(keys.Insert("b", 5), 2u);
  EXPECT_EQ(keys.Insert("c", 6), std::nullopt);
  EXPECT_EQ(keys.Find("c"), std::nullopt);
}

TEST_F(TarSourceTest, AMemberThatComesTwiceIsAFailure) {
  EXPECT_EQ(FailureOf({{"a.bin", "1"}, {"a.cls", "2"}, {"a.bin", "3"}}),
            "/t.tar: member 'a.bin': there is another member 'a.bin' in front of it (this is number 3)");
}

TEST_F(TarSourceTest, OnlyRegularFilesCanBePacked) {
  EXPECT_EQ(FailureOf({{"a.bin", "1"}, {"b.bin", "", 's', "/a.bin"}}),
            "/t.tar: member 'b.bin': is a symbolic link to no file before it; only regular files can be packed");
  EXPECT_EQ(FailureOf({{"a.bin", "1"}, {"b.bin", "", 'h', "c.bin"}}),
            "/t.tar: member 'b.bin': is a hard link to no file before it; only regular files can be packed");
  EXPECT_EQ(FailureOf({{"a.bin", "1"}, {"b.bin", "", 'p'}}),
            "/t.tar: member 'b.bin': is a named pipe; only regular files can be packed");
}

TEST_F(TarSourceTest, NamesThatCannotBeUnpackedAreFailures) {
  EXPECT_NE(FailureOf({{"/etc/a.bin", "1"}}).find("member '/etc/a.bin': an absolute name"), std::string::npos);
  EXPECT_NE(FailureOf({{"../a.bin", "1"}}).find("a name with the component '..'"), std::string::npos);
}

TEST_F(TarSourceTest, AFailureLeavesItsNeighboursAlone) {
  const test::Loaded loaded = Load(MakeTar({{"a.bin", "1"}, {"b.bin", "", 's', "a"}, {"b.cls", "2"}, {"c.bin", "3"}}));
  EXPECT_EQ(loaded.Keys(), (std::vector<std::string>{"a", "c"}));
  ASSERT_EQ(loaded.failures.size(), 1u);
  EXPECT_EQ(loaded.failures[0].position, 1u);
  EXPECT_EQ(loaded.failures[0].key, "b");
}

TEST_F(TarSourceTest, TwoTarsBehindEachOtherAreOne) {
  const std::string first = MakeTar({{"a.txt", "1"}});
  EXPECT_EQ(Load(first + MakeTar({{"b.txt", "2"}})).Keys(), (std::vector<std::string>{"a", "b"}));
}

// The samples before the cut are loaded, except one that may be incomplete. Then comes a failure that says so.
TEST_F(TarSourceTest, ATarThatWasCutOffEndsThere) {
  const std::string tar = MakeTar(
      {{"a.txt", std::string(600, 'a')}, {"a.cls", "1"}, {"b.txt", std::string(20, 'b')}, {"b.cls", ""}}, "", "ustar");
  constexpr size_t kSecond = 512 + 1024 + 512 + 512, kMembers = kSecond + 512 + 512 + 512;
  SourceOptions skip;
  skip.skip_errors = true;
  for (size_t length = 0; length <= kMembers; length += 73) {
    SCOPED_TRACE(length);
    const test::Loaded loaded = Load(tar.substr(0, length), skip);
    ASSERT_TRUE(loaded.status.ok()) << loaded.status;
    const bool first = length >= kSecond + 512;
    EXPECT_EQ(loaded.Keys(), first ? std::vector<std::string>{"a"} : std::vector<std::string>());
    ASSERT_EQ(loaded.failures.size(), 1u);
    const absl::Status& status = loaded.failures[0].status;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(Message(status).find("/t.tar: "), 0u) << status;
    EXPECT_TRUE(
        Message(status).ends_with(first ? "; 1 sample before it can be read" : "; 0 samples before it can be read"))
        << status;
    EXPECT_EQ(loaded.failures[0].key, length < 512 ? "t.tar" : first ? "b" : "a");
    const auto source = OpenSource("files", {"/t.tar"}, {.file_system = file_system_.get(), .skip_errors = true});
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->Count().value_or(0), loaded.positions);
  }
  EXPECT_NE(Message(Load(tar.substr(0, kMembers)).failures[0].status).find("ends without an end mark"),
            std::string::npos);
  EXPECT_FALSE(Load("").status.ok());
}

TEST_F(TarSourceTest, ADamagedHeaderIsFound) {
  std::string tar = MakeTar({{"a.txt", "1"}, {"b.txt", "2"}}, "", "ustar");
  tar[1024 + 5] ^= 1;
  const test::Loaded loaded = Load(tar);
  ASSERT_EQ(loaded.failures.size(), 1u);
  const absl::Status& status = loaded.failures[0].status;
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("after member 'a.txt', at byte 1024: Damaged tar archive"), std::string::npos);
}

TEST_F(TarSourceTest, GroupsByTheDotThatIsAskedFor) {
  const std::string tar = MakeTar({{"d/a.b.txt", "1"}, {"d/a.b.cls", "2"}, {"d/a.c.txt", "3"}});
  SourceOptions options;
  options.group_by = GroupBy::kLastDot;
  test::Loaded loaded = Load(tar, options);
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"d/a.b", "d/a.c"}));
  EXPECT_EQ(loaded.samples[0].fields.at("cls").bytes, "2");
  options.group_by = GroupBy::kNone;
  loaded = Load(tar, options);
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"d/a.b.txt", "d/a.b.cls", "d/a.c.txt"}));
  EXPECT_EQ(loaded.samples[1].fields.at("file").bytes, "2");
}

TEST_F(TarSourceTest, InitialColumnsComeFromTheFirstMembers) {
  file_system_ = NewMemoryFileSystem();
  test::WriteFile(*file_system_, "/t.tar", MakeTar(kPlain));
  auto source = OpenSource("files", {"/t.tar"}, {{}, file_system_.get()});
  ASSERT_TRUE(source.ok());
  const auto columns = (*source)->InitialColumns();
  ASSERT_TRUE(columns.ok());
  ASSERT_EQ(columns->size(), 4u);
  EXPECT_EQ((*columns)[1].name, "/");
  EXPECT_EQ((*columns)[2].type, Type::kUtf8);
  EXPECT_EQ((*columns)[3].type, Type::kJpeg);
  EXPECT_FALSE((*source)->keys_ascend());
}

TEST(TarSourceRealTest, ReadsTheTarsOfOthers) {
  if (test::DataFolder().empty()) GTEST_SKIP() << "no folder of real inputs";
  const std::string folder = test::DataFolder() + "/webdataset";
  const std::pair<const char*, size_t> tars[] = {{"pytorch_data/json.tar", 3},
                                                 {"pytorch_data/json.tar.gz", 3},
                                                 {"webdataset_webdataset/mpdata.tar", 100},
                                                 {"webdataset_webdataset/testgz.tar", 1000},
                                                 {"dali_extra_mnist/train-0.tar", 1000}};
  for (const auto& [name, samples] : tars) {
    const test::Loaded loaded = LoadAll(PosixFileSystem(), "files", {folder + "/" + name});
    EXPECT_TRUE(loaded.status.ok()) << loaded.status;
    EXPECT_EQ(loaded.samples.size(), samples) << name;
    EXPECT_TRUE(loaded.failures.empty()) << name << " " << loaded.failures[0].status;
  }
}

}  // namespace
}  // namespace shardkit::operations
