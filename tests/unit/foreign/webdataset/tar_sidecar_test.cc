// The index beside a tar: what is read of it and when, and what its damage costs.
#include "foreign/webdataset/tar_sidecar.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "foreign/webdataset/tar_shard_reader.h"
#include "foreign/webdataset/webdataset_names.h"
#include "shardkit/validate.h"
#include "support/counting_filesystem.h"
#include "support/effort.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

// Each sample is a block: its second value has 4 MiB, unless it is the last sample.
std::vector<TarMember> Members(int samples) {
  std::vector<TarMember> members;
  for (int i = 0; i < samples; ++i) {
    members.push_back({StrCat("d/", i, ".txt"), StrCat("value ", i)});
    if (i + 1 < samples) members.push_back({StrCat("d/", i, ".bin"), std::string(4 << 20, static_cast<char>('a' + i))});
  }
  return members;
}

constexpr size_t kTxt = 1;  // column

class TarSidecarTest : public testing::Test {
 protected:
  void WriteIndexed(const std::vector<TarMember>& members, const std::string& path = "/x.tar") {
    WriteFile(*files_, path, MakeTar(members));
    const auto report = BuildTarIndex(*files_, path);
    ASSERT_TRUE(report.ok()) << report.status();
  }

  std::vector<std::string> Problems(const std::string& path) {
    const auto report = Validate(*files_, path);
    EXPECT_TRUE(report.ok()) << report.status();
    std::vector<std::string> problems;
    for (size_t i = 0; report.ok() && i < report->problems.size(); ++i) problems.push_back(report->problems[i].message);
    return problems;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(TarSidecarTest, ReadsNoMoreThanIsAskedFor) {
  WriteIndexed(Members(6));
  CountingFileSystem counted(files_.get());
  const auto open = [&]() -> std::unique_ptr<foreign::TarShardReader> {
    auto reader = foreign::TarShardReader::Open(counted, "/x.tar", {});
    EXPECT_TRUE(reader.ok()) << reader.status();
    // Of the tar the first bytes, which would tell how it is compressed, and the two parts of the identity; of the
    // index both ends in one request, and the metadata.
    EXPECT_EQ(counted.reads().size(), 6u);
    counted.Reset();
    return *std::move(reader);
  };
  BlockBuffer buffer;
  BlockView view;
  {
    const auto reader = open();
    EXPECT_EQ(reader->blocks().size(), 6u);
    EXPECT_EQ(reader->sample_count(), 6u);
    EXPECT_EQ(*reader->ReadValue(2, kTxt, &buffer), "value 2");
    EXPECT_EQ(counted.reads().size(), 2u);  // a block, with those behind it, and the value
    EXPECT_EQ(*reader->ReadValue(2, 0, &buffer), "d/2");
    EXPECT_EQ(counted.reads().size(), 2u);
    for (const size_t block : {5, 4, 3, 2}) EXPECT_TRUE(reader->ReadBlock(block, {}, &buffer, &view).ok());
    EXPECT_EQ(counted.reads().size(), 6u);
    EXPECT_TRUE(reader->ReadBlock(1, {}, &buffer, &view).ok());
    EXPECT_EQ(counted.reads().size(), 8u);
  }
  counted.Reset();
  EXPECT_EQ(*open()->FindKey("d/5", &buffer), std::optional<uint64_t>(5));
  EXPECT_EQ(counted.reads().size(), 2u);  // root and page of the keys, and the block of the sample
  counted.Reset();
  EXPECT_EQ(*open()->FindKey("d/6", &buffer), std::nullopt);
  EXPECT_EQ(counted.reads().size(), 1u);
}

TEST_F(TarSidecarTest, ALongHeaderTakesOneReadMore) {
  std::vector<TarMember> few = {{"a.399", "399"}}, longer;
  for (int i = 0; i < 400; ++i) longer.push_back({StrCat("a.", std::string(200, 'x'), i), std::to_string(i)});
  for (const auto& [tar, reads] : {std::pair{MakeTar(few), 6u}, {WriteTar(longer, "pax"), 7u}}) {
    WriteFile(*files_, "/x.tar", tar);
    ASSERT_TRUE(BuildTarIndex(*files_, "/x.tar").ok());
    CountingFileSystem counted(files_.get());
    const auto reader = foreign::TarShardReader::Open(counted, "/x.tar", {});
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(counted.reads().size(), reads);
    BlockBuffer buffer;
    EXPECT_EQ(*(*reader)->ReadValue(0, (*reader)->schema().size() - 1, &buffer), "399");
  }
}

TEST_F(TarSidecarTest, OpeningAFolderReadsNoBlocks) {
  ASSERT_TRUE(files_->CreateDirectory("/data").ok());
  for (int i = 0; i < 5; ++i) WriteIndexed(Members(3), StrCat("/data/", i, ".tar"));
  CountingFileSystem counted(files_.get());
  const auto dataset = DatasetReader::Open(counted, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->sample_count(), 15u);
  EXPECT_EQ((*dataset)->summary().block_count, 15u);
  EXPECT_EQ(counted.reads().size(), 5 * 6 + 3u);  // three are of manifests and a job that are not there
  counted.Reset();
  BlockBuffer buffer;
  EXPECT_EQ(*(*dataset)->ReadValue(7, *(*dataset)->summary().schema.Find("txt"), &buffer), "value 1");
  EXPECT_EQ(counted.reads().size(), 2u);  // opened again from what is known of it
}

// Each bit of the index costs what lies in its block, or the finding of keys, or else opening. Validating finds each.
TEST_F(TarSidecarTest, ExactLoss) {
  WriteIndexed(Members(3));
  const std::string index = ReadAll(*files_, "/x.tar.shardidx");
  const auto contents = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const foreign::TarContents::Stored& stored = *(*contents)->stored;
  ASSERT_EQ(stored.blocks.size(), 3u);
  const auto within = [](uint64_t byte, uint64_t begin, uint64_t length) {
    return byte >= begin && byte - begin < length;
  };
  uint64_t refused = 0;
  for (size_t bit = 0; bit < 8 * index.size(); bit += TestStep()) {
    SCOPED_TRACE(bit);
    const uint64_t byte = bit / 8;
    std::string damaged = index;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (bit % 8)));
    WriteFile(*files_, "/x.tar.shardidx", damaged);
    if (bit % 40 == 3) {
      EXPECT_FALSE(Problems("/x.tar").empty());
    }
    const auto reader = foreign::TarShardReader::Open(*files_, "/x.tar", {});
    if (byte < stored.header.length || byte + 64 >= index.size()) {
      EXPECT_TRUE(absl::IsDataLoss(reader.status())) << reader.status();
    }
    if (!reader.ok()) {
      ++refused;
      EXPECT_TRUE(absl::IsDataLoss(reader.status()) || absl::IsUnimplemented(reader.status())) << reader.status();
      EXPECT_TRUE(Message(reader.status()).starts_with("/x.tar.shardidx: ")) << reader.status();
      EXPECT_TRUE(Message(reader.status()).ends_with("; run shardctl index /x.tar")) << reader.status();
      continue;
    }
    BlockBuffer buffer;
    BlockView view;
    BlockDamage damage;
    const bool keys = within(byte, stored.keys.offset, stored.keys.length);
    for (size_t i = 0; i < 3; ++i) {
      const auto value = (*reader)->ReadValue(i, kTxt, &buffer);
      if (!within(byte, stored.blocks[i].offset, stored.blocks[i].length)) {
        EXPECT_TRUE(value.ok() && *value == StrCat("value ", i)) << value.status();
        const auto found = (*reader)->FindKey(StrCat("d/", i), &buffer);
        EXPECT_TRUE(found.ok() ? *found == i : absl::IsDataLoss(found.status()) && keys) << found.status();
        continue;
      }
      for (const absl::Status& status :
           {value.status(), (*reader)->CopyValue(i, kTxt, [](std::string_view) { return absl::OkStatus(); }).status(),
            (*reader)->FindKey(StrCat("d/", i), &buffer).status(), (*reader)->ReadBlock(i, {}, &buffer, &view),
            (*reader)->SalvageBlock(i, {}, &buffer, &view, &damage), (*reader)->ReadStatistics().status()}) {
        EXPECT_TRUE(absl::IsDataLoss(status)) << status;
        EXPECT_TRUE(Message(status).starts_with(StrCat("/x.tar.shardidx: block ", i))) << status;
        EXPECT_TRUE(Message(status).ends_with("; run shardctl index /x.tar")) << status;
      }
    }
    const auto missing = (*reader)->FindKey("d/3", &buffer);
    EXPECT_TRUE(missing.ok() ? !*missing : absl::IsDataLoss(missing.status()));
    EXPECT_TRUE(missing.ok() || Message(missing.status()).ends_with("; run shardctl index /x.tar")) << missing.status();
  }
  EXPECT_GT(refused, 0u);
  for (size_t length = 0; length < index.size(); ++length) {
    WriteFile(*files_, "/x.tar.shardidx", index.substr(0, length));
    EXPECT_TRUE(absl::IsDataLoss(foreign::TarShardReader::Open(*files_, "/x.tar", {}).status())) << length;
  }
}

// An index that is sound in itself, and of a tar with the same length and ends.
TEST_F(TarSidecarTest, ValidatingComparesItWithTheTar) {
  // More than 64 KiB from both ends.
  const auto members = [](const std::string& name, const std::string& other) {
    return std::vector<TarMember>{
        {"0.x", std::string(70000, '0')}, {name, "1"}, {other, "2"}, {"z.x", std::string(70000, 'z')}};
  };
  const std::string good = "/x.tar.shardidx";
  for (const auto& [name, other, says] :
       {std::tuple{"b.x", "c.x", ": does not say what the index of this tar says; run shardctl index /x.tar"},
        {"a.y", "b.x", ": does not say what the index of this tar says; run shardctl index /x.tar"},
        {"a.x", "a.y", ": has 3 samples of 4 values, but /x.tar has 4 of 4; run shardctl index /x.tar"},
        {"a.x", "none", ": has 3 samples of 3 values, but /x.tar has 4 of 4; run shardctl index /x.tar"}}) {
    WriteIndexed(members(name, other));
    WriteFile(*files_, "/x.tar", MakeTar(members("a.x", "b.x")));
    const std::vector<std::string> problems = Problems("/x.tar");
    ASSERT_EQ(problems.size(), 1u) << name << " " << other;
    EXPECT_TRUE(problems[0].starts_with(good) && problems[0].ends_with(says)) << problems[0];
  }
  WriteIndexed(members("a.x", "b.x"));
  EXPECT_TRUE(Problems("/x.tar").empty());
}

TEST_F(TarSidecarTest, AnIndexThatChangedSinceItWasOpened) {
  WriteIndexed(Members(2));
  const auto contents = foreign::LoadTarContents(*files_, "/x.tar", kDefaultMaxDecompression);
  ASSERT_TRUE(contents.ok());
  WriteFile(*files_, "/x.tar.shardidx", ReadAll(*files_, "/x.tar.shardidx") + "x");
  const auto reader = foreign::TarShardReader::Open(*files_, "/x.tar", {}, *contents);
  EXPECT_TRUE(absl::IsDataLoss(reader.status()));
  EXPECT_TRUE(Message(reader.status()).starts_with("/x.tar.shardidx: has ")) << reader.status();
}

TEST_F(TarSidecarTest, TheFirstOfEqualKeysIsFound) {
  WriteIndexed({{"a.x", "1"}, {"b.x", "2"}, {"a.x", "3"}, {"c.x", "4"}, {"b.y", "5"}});
  const auto dataset = DatasetReader::Open(*files_, "/x.tar");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  EXPECT_EQ(*(*dataset)->FindKey("a", &buffer), std::optional<uint64_t>(0));
  EXPECT_EQ(*(*dataset)->FindKey("b", &buffer), std::optional<uint64_t>(1));
  EXPECT_EQ(*(*dataset)->FindKey("c", &buffer), std::optional<uint64_t>(3));
}

// With any index and without: keys as they were before they were escaped, and also those that no escaping makes.
TEST_F(TarSidecarTest, EscapedKeysAreFound) {
  std::vector<TarMember> members;
  for (const std::string stored : {"cat/a%2Ev2", "b%25", "c%2", "d%zz%2E", "plain"}) {
    members.push_back({stored + ".x", stored});
  }
  Column key;
  key.name = "key";
  key.type = Type::kUtf8;
  const Manifest origin{{.schema = Schema::Create({key}).value(), .metadata = {{"webdataset.keys", "escaped"}}}, {}};
  const std::vector<std::string> keys = {"cat/a.v2", "b%", "c%2", "d%zz.", "plain"};
  for (const std::string way : {"none", "own"}) {
    WriteTree(*files_, "/" + way, {{"x.tar", MakeTar(members)}, {"shardkit.json", FormatManifest(origin)}});
    const std::string tar = StrCat("/", way, "/x.tar");
    if (way == "own") {
      ASSERT_TRUE(BuildTarIndex(*files_, tar).ok());
    }
    const auto dataset = DatasetReader::Open(*files_, "/" + way);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    const auto rows = AllRows(**dataset);
    ASSERT_EQ(rows.size(), keys.size());
    EXPECT_EQ(AllRowsByValue(**dataset), rows);
    BlockBuffer buffer;
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(rows[i].at("key"), keys[i]) << way;
      EXPECT_EQ(*(*dataset)->FindKey(keys[i], &buffer), std::optional<uint64_t>(i)) << way << " " << keys[i];
    }
    for (const std::string missing : {"cat/a%2Ev2", "e", "e%"}) {
      EXPECT_EQ(*(*dataset)->FindKey(missing, &buffer), std::nullopt) << way << " " << missing;
    }
    EXPECT_TRUE(Problems("/" + way).empty()) << Problems("/" + way)[0];
  }
}

}  // namespace
}  // namespace shardkit::test
