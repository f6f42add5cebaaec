// Reading samples of one tar in every way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "foreign/webdataset/tar_shard_reader.h"
#include "support/fault_filesystem.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

std::string RandomBytes(std::mt19937& random, size_t length) {
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// A few hundred samples in more than one block. Some samples lack members or have more than others.
std::vector<TarMember> Members(size_t samples = 300, size_t largest = 60000) {
  std::mt19937 random(3);
  std::vector<TarMember> members;
  for (size_t i = 0; i < samples; ++i) {
    const std::string key = StrCat("folder/", i);
    members.push_back({key + ".jpg", RandomBytes(random, random() % largest)});
    if (i % 3 != 0) members.push_back({key + ".cls", std::to_string(i)});
    if (i % 7 == 0) members.push_back({key + ".seg.PNG", RandomBytes(random, random() % 100)});
    if (i % 50 == 0) members.push_back({key + ".", ""});
  }
  return members;
}

class TarShardTest : public testing::Test {
 protected:
  std::unique_ptr<DatasetReader> Open(const DatasetOptions& options = {}, const std::string& path = "/x.tar") {
    auto dataset = DatasetReader::Open(*files_, path, options);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return dataset.ok() ? *std::move(dataset) : nullptr;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(TarShardTest, EveryWayOfReadingGivesTheSame) {
  const std::vector<TarMember> members = Members();
  const std::vector<Row> expected = Expected(members);
  WriteFile(*files_, "/x.tar", MakeTar(members));
  for (const bool sidecar : {false, true}) {
    if (sidecar) {
      ASSERT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
    }
    for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
      DatasetOptions options;
      options.mode = mode;
      const auto dataset = Open(options);
      ASSERT_NE(dataset, nullptr);
      EXPECT_GT(dataset->summary().block_count, 1u);
      EXPECT_EQ(AllRows(*dataset), expected);
      EXPECT_EQ(AllRowsByValue(*dataset), expected);
    }
  }
}

// Reads without the page cache go from one aligned place to another.
TEST_F(TarShardTest, DirectReadsGiveTheSame) {
  char folder[] = "/tmp/shardkit-tar-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::vector<TarMember> members = Members(100);
  FileSystem& files = *PosixFileSystem();
  const std::string path = StrCat(folder, "/x.tar");
  WriteFile(files, path, MakeTar(members));
  for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{{}, {"cls", "seg.png"}}) {
    std::vector<Row> expected = Expected(members);
    for (Row& row : expected) {
      std::erase_if(row, [&](const auto& field) {
        return !names.empty() && std::ranges::find(names, field.first) == names.end();
      });
    }
    for (const ReadMode mode : {ReadMode::kDirect, ReadMode::kMapped}) {
      DatasetOptions options;
      options.mode = mode;
      options.columns = names;
      const auto dataset = DatasetReader::Open(files, path, options);
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      EXPECT_EQ(AllRows(**dataset), expected);
      EXPECT_EQ(AllRowsByValue(**dataset), expected);
    }
  }
  ASSERT_TRUE(RemoveTree(files, folder).ok());
}

TEST_F(TarShardTest, SchemaIsWhatTheExtensionsSay) {
  WriteFile(*files_, "/x.tar",
            MakeTar({{"a.jpg", "1"},
                     {"a.JPEG", "1"},
                     {"a.seg.png", "1"},
                     {"a.json", "1"},
                     {"a.txt", "1"},
                     {"a.", ""},
                     {"a.key", ""}}));
  const auto dataset = Open();
  ASSERT_NE(dataset, nullptr);
  std::string text;
  for (const Column& column : dataset->columns()) {
    text += StrCat(column.name, " ", TypeName(column.type), column.nullable ? " nullable" : "",
                   column.is_key ? " key" : "", "; ");
  }
  EXPECT_EQ(text,
            "key utf8 key; jpg jpeg nullable; jpeg jpeg nullable; seg.png png nullable; json bytes nullable; "
            "txt bytes nullable; "
            "/. bytes nullable; /key bytes nullable; ");
}

TEST_F(TarShardTest, ColumnsCanBeChosen) {
  const std::vector<TarMember> members = Members(100);
  WriteFile(*files_, "/x.tar", MakeTar(members));
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    for (const std::vector<std::string>& names :
         std::vector<std::vector<std::string>>{{"cls"}, {"seg.png", "key"}, {"/."}, {"key"}}) {
      DatasetOptions options;
      options.mode = mode;
      options.columns = names;
      std::vector<Row> expected;
      for (const Row& row : Expected(members)) {
        expected.emplace_back();
        for (const std::string& name : names) {
          if (row.contains(name)) expected.back()[name] = row.at(name);
        }
      }
      const auto dataset = Open(options);
      ASSERT_NE(dataset, nullptr);
      EXPECT_EQ(AllRows(*dataset), expected);
      EXPECT_EQ(AllRowsByValue(*dataset), expected);
    }
  }
}

TEST_F(TarShardTest, OpeningReadsHeadersAlone) {
  std::vector<TarMember> members;
  for (int i = 0; i < 20; ++i) members.push_back({StrCat(i, ".bin"), std::string(1 << 20, 'x')});
  WriteFile(*files_, "/x.tar", MakeTar(members));
  FaultFileSystem counted(files_.get());  // without faults: used only to count
  const auto reader = foreign::TarShardReader::Open(counted, "/x.tar", {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  uint64_t reads = 0;
  for (const FileSystemCall& call : counted.calls()) reads += call.operation == "read" ? 1 : 0;
  EXPECT_LE(reads, 25u);  // one for each member and another for the last, and the beginning and the end of the tar

  const uint64_t before = counted.call_count();
  BlockBuffer buffer;
  BlockView view;
  ASSERT_TRUE((*reader)->ReadBlock(0, {}, &buffer, &view).ok());
  EXPECT_EQ(counted.call_count() - before, 1u);
  EXPECT_EQ(view.sample_count(), 3u);
  ASSERT_TRUE((*reader)->ReadValue(7, 1, &buffer).ok());
  EXPECT_EQ(counted.call_count() - before, 2u);
}

TEST_F(TarShardTest, PlacesThatAreNotThere) {
  WriteFile(*files_, "/x.tar", MakeTar({{"a.x", "1"}, {"b.y", "2"}}));
  const auto reader = foreign::TarShardReader::Open(*files_, "/x.tar", {});
  ASSERT_TRUE(reader.ok());
  BlockBuffer buffer;
  BlockView view;
  EXPECT_TRUE(absl::IsOutOfRange((*reader)->ReadValue(2, 1, &buffer).status()));
  EXPECT_TRUE(absl::IsInvalidArgument((*reader)->ReadValue(0, 3, &buffer).status()));
  EXPECT_TRUE(absl::IsOutOfRange((*reader)->ReadBlock(1, {}, &buffer, &view)));
  EXPECT_TRUE(absl::IsInvalidArgument((*reader)->ReadBlock(0, std::vector<size_t>{3}, &buffer, &view)));
  EXPECT_EQ(*(*reader)->FindKey("b", &buffer), std::optional<uint64_t>(1));
  EXPECT_EQ(*(*reader)->FindKey("c", &buffer), std::nullopt);
  EXPECT_EQ(*(*reader)->ReadValue(1, 1, &buffer), std::nullopt);
  EXPECT_TRUE(absl::IsNotFound(foreign::TarShardReader::Open(*files_, "/y.tar", {}).status()));
}

TEST_F(TarShardTest, CompressedTarsAreReadToo) {
  const std::vector<TarMember> members = Members(60, 160000);
  const std::vector<Row> expected = Expected(members);
  for (const auto& [ending, filter] : std::map<std::string, std::string>{{".tar.gz", "gzip"},
                                                                         {".tar.bz2", "bzip2"},
                                                                         {".tar.xz", "xz"},
                                                                         {".tar.zst", "zstd"},
                                                                         {".tar.lz4", "lz4"},
                                                                         {".tar.lzma", "lzma"},
                                                                         {".tar.Z", "compress"},
                                                                         {".tar", "gzip"}}) {
    const std::string path = "/c" + ending;
    WriteFile(*files_, path, WriteTar(members, "pax", filter));
    const auto dataset = Open({}, path);
    ASSERT_NE(dataset, nullptr);
    EXPECT_GT(dataset->summary().block_count, 1u);
    EXPECT_EQ(AllRows(*dataset), expected);
    EXPECT_NE(dataset->fallback_reason().find("compressed"), std::string::npos) << dataset->fallback_reason();
    // Backwards: each read starts again from the beginning.
    BlockBuffer buffer;
    for (uint64_t sample = expected.size(); sample > 0; sample -= 30) {
      const auto value = dataset->ReadValue(sample - 1, 1, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(*value, expected[sample - 1].at("jpg"));
    }
    EXPECT_EQ(*dataset->FindKey("folder/57", &buffer), std::optional<uint64_t>(57));
  }
}

TEST_F(TarShardTest, ThreadsDoNotDisturbEachOther) {
  const std::vector<TarMember> members = Members(60);
  const std::vector<Row> expected = Expected(members);
  WriteFile(*files_, "/x.tar", MakeTar(members));
  WriteFile(*files_, "/x.tar.zst", WriteTar(members, "ustar", "zstd"));
  WriteFile(*files_, "/indexed.tar", MakeTar(members));
  ASSERT_TRUE(BuildTarIndex(*files_, "/indexed.tar").ok());
  for (const std::string path : {"/x.tar", "/x.tar.zst", "/indexed.tar"}) {
    const auto dataset = Open({}, path);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        BlockBuffer buffer;
        for (int i = 0; i < 40; ++i) {
          const uint64_t sample = random() % expected.size();
          const auto value = dataset->ReadValue(sample, 1, &buffer);
          EXPECT_TRUE(value.ok() && **value == expected[sample].at("jpg"));
          if (path != "/x.tar.zst") {
            const auto found = dataset->FindKey(expected[sample].at("key"), &buffer);
            EXPECT_TRUE(found.ok() && *found == sample);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// Thousands of columns must not multiply with the thousands of samples in one stretch of a tar.
TEST_F(TarShardTest, WideTarsTakeLittleMemory) {
  std::string tar;
  for (int i = 0; i < 8000; ++i) tar += TarHeaderBlock(StrCat(i, ".", i % 4000), 0);
  WriteFile(*files_, "/x.tar", tar + std::string(1024, '\0'));
  const auto reader = foreign::TarShardReader::Open(*files_, "/x.tar", {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  BlockBuffer buffer;
  BlockView view;
  for (size_t block = 0; block < (*reader)->blocks().size(); ++block) {
    ASSERT_TRUE((*reader)->ReadBlock(block, {}, &buffer, &view).ok());
    EXPECT_EQ(view.column(0).value(0), std::to_string((*reader)->blocks()[block].first_sample));
  }
  EXPECT_LT(buffer.memory(), uint64_t{24} << 20);
}

}  // namespace
}  // namespace shardkit::test
