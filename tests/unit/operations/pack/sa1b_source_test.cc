#include "base/strings.h"
#include "unit/operations/pack/convert_support.h"

namespace shardkit {
namespace {

using test::LoadAll;
using test::MakeTar;
using test::Message;
using test::SmallSa1bJson;
using test::TarItem;

const std::string kJpeg(test::kJpegBytes);

std::string Regenerated(const test::LoadedSample& sample) {
  const auto get = [&sample](const char* name) {
    const auto found = sample.fields.find(name);
    return found != sample.fields.end() ? std::string_view(found->second.bytes) : std::string_view();
  };
  operations::Sa1bValues values{get("image_id"),      get("width"),           get("height"),   get("file_name"),
                                get("masks"),         get("annotation_id"),   get("area"),     get("bbox"),
                                get("predicted_iou"), get("stability_score"), get("crop_box"), get("point_coords"),
                                get("source_json")};
  std::string text;
  EXPECT_TRUE(operations::RegenerateSa1bJson(values, &text).ok());
  return text;
}

class Sa1bSourceTest : public testing::Test {
 protected:
  void Add(const std::string& path, std::string_view bytes) { test::WriteFile(*file_system_, path, bytes); }
  test::Loaded Load(const std::string& input = "/in", SourceOptions options = {}) {
    return LoadAll(file_system_.get(), "sa1b", {input}, options);
  }
  test::Loaded LoadTar(const std::vector<TarItem>& entries, SourceOptions options = {}) {
    file_system_ = NewMemoryFileSystem();
    Add("/t.tar", MakeTar(entries));
    return Load("/t.tar", options);
  }
  std::unique_ptr<FileSystem> file_system_ = NewMemoryFileSystem();
};

TEST_F(Sa1bSourceTest, PairsAnywhereBelowInKeyOrder) {
  Add("/in/sub/sa_3.jpg", kJpeg);
  Add("/in/sub/sa_3.json", SmallSa1bJson(2, 3));
  Add("/in/sa_2.jpg", kJpeg);
  Add("/in/sa_2.json", SmallSa1bJson(1, 2) + "\n");
  Add("/in/a.b.jpg", std::string(test::kPngBytes));
  Add("/in/a.b.json", SmallSa1bJson(0, 9));
  const test::Loaded loaded = Load();
  ASSERT_TRUE(loaded.failures.empty()) << loaded.failures[0].status;
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"a.b", "sa_2", "sub/sa_3"}));
  EXPECT_EQ(loaded.samples[0].fields.at("image").type, Type::kPng);
  EXPECT_EQ(loaded.samples[1].fields.at("image").type, Type::kJpeg);
  EXPECT_EQ(loaded.samples[1].fields.at("image").bytes, kJpeg);
  EXPECT_EQ(Regenerated(loaded.samples[0]), SmallSa1bJson(0, 9));
  EXPECT_EQ(Regenerated(loaded.samples[1]), SmallSa1bJson(1, 2) + "\n");
  EXPECT_EQ(Regenerated(loaded.samples[2]), SmallSa1bJson(2, 3));
}

TEST_F(Sa1bSourceTest, WhatIsNoWholePairFails) {
  Add("/in/1.jpg", kJpeg);
  Add("/in/2.json", SmallSa1bJson(1));
  Add("/in/3.jpg", "");
  Add("/in/3.json", SmallSa1bJson(1));
  Add("/in/4.jpg", "no image");
  Add("/in/4.json", SmallSa1bJson(1));
  Add("/in/5.jpg", kJpeg);
  Add("/in/5.json", "");
  Add("/in/6.jpg", kJpeg);
  Add("/in/6.jpga", "stray");
  Add("/in/6.json", SmallSa1bJson(1));
  Add("/in/6.txt", "stray");
  Add("/in/7.JPG", kJpeg);
  Add("/in/LICENSE", "text");
  const test::Loaded loaded = Load();
  ASSERT_TRUE(loaded.status.ok());
  EXPECT_EQ(loaded.Keys(), std::vector<std::string>{"6"});
  std::vector<std::string> messages;
  for (const auto& failure : loaded.failures) messages.push_back(Message(failure.status));
  ASSERT_EQ(messages.size(), 9u);
  EXPECT_EQ(messages[0], "/in/1.jpg: there is no '1.json' to go with it");
  EXPECT_EQ(messages[1], "/in/2.json: there is no '2.jpg' to go with it");
  EXPECT_EQ(messages[2], "/in/3.jpg: an empty file is not an image; remove it, or pack with --on-error skip");
  EXPECT_EQ(messages[3], "/in/4.jpg: neither a JPEG nor a PNG image");
  EXPECT_EQ(messages[4].find("/in/5.json: invalid JSON"), 0u) << messages[4];
  EXPECT_EQ(messages[5], "/in/6.jpga: neither .jpg nor .json: not a file of SA-1B");
  EXPECT_EQ(messages[6], "/in/6.txt: neither .jpg nor .json: not a file of SA-1B");
  EXPECT_EQ(messages[7], "/in/7.JPG: neither .jpg nor .json: not a file of SA-1B");
  EXPECT_EQ(messages[8], "/in/LICENSE: neither .jpg nor .json: not a file of SA-1B");
}

TEST_F(Sa1bSourceTest, HalvesInATarNeedNotBeNeighbours) {
  const test::Loaded loaded = LoadTar({{"./", "", 'd'},
                                       {"./sa_1.jpg", kJpeg},
                                       {"./sa_2.json", SmallSa1bJson(1, 2)},
                                       {"./sa_3.jpg", kJpeg + "3"},
                                       {"./sa_3.json", SmallSa1bJson(3, 3)},
                                       {"./sa_2.jpg", kJpeg + "2"},
                                       {"./sa_1.json", SmallSa1bJson(2, 1)}});
  ASSERT_TRUE(loaded.failures.empty()) << loaded.failures[0].status;
  ASSERT_EQ(loaded.Keys(), (std::vector<std::string>{"sa_3", "sa_2", "sa_1"}));
  EXPECT_EQ(loaded.samples[0].fields.at("image").bytes, kJpeg + "3");
  EXPECT_EQ(Regenerated(loaded.samples[0]), SmallSa1bJson(3, 3));
  EXPECT_EQ(loaded.samples[1].fields.at("image").bytes, kJpeg + "2");
  EXPECT_EQ(Regenerated(loaded.samples[2]), SmallSa1bJson(2, 1));
}

TEST_F(Sa1bSourceTest, LargeImagesOfATarStayInIt) {
  SourceOptions options;
  options.stream_above = 2000;
  const std::string image = kJpeg + std::string(3000, 'x');
  const test::Loaded loaded = LoadTar({{"sa_1.jpg", image}, {"sa_1.json", SmallSa1bJson(20)}}, options);
  ASSERT_EQ(loaded.samples.size(), 1u);
  EXPECT_TRUE(loaded.samples[0].fields.at("image").file);
  EXPECT_EQ(loaded.samples[0].fields.at("image").bytes, image);
  EXPECT_EQ(Regenerated(loaded.samples[0]), SmallSa1bJson(20));
}

TEST_F(Sa1bSourceTest, LeftoverHalvesOfATarFailAtItsEnd) {
  const test::Loaded loaded = LoadTar(
      {{"sa_2.jpg", kJpeg}, {"sa_1.json", "{}"}, {"sa_3.jpg", kJpeg}, {"sa_3.json", SmallSa1bJson(1)}, {"x.txt", "x"}});
  EXPECT_EQ(loaded.Keys(), std::vector<std::string>{"sa_3"});
  ASSERT_EQ(loaded.failures.size(), 3u);
  EXPECT_EQ(Message(loaded.failures[0].status), "/t.tar: member 'x.txt': neither .jpg nor .json: not a file of SA-1B");
  EXPECT_EQ(Message(loaded.failures[1].status), "/t.tar: member 'sa_2.jpg': the tar has no 'sa_2.json' to go with it");
  EXPECT_EQ(Message(loaded.failures[2].status), "/t.tar: member 'sa_1.json': the tar has no 'sa_1.jpg' to go with it");
}

TEST_F(Sa1bSourceTest, MembersThatComeTwiceFail) {
  const test::Loaded loaded = LoadTar(
      {{"sa_1.jpg", kJpeg}, {"sa_1.jpg", kJpeg}, {"sa_1.json", SmallSa1bJson(1)}, {"sa_1.json", SmallSa1bJson(1)}});
  EXPECT_EQ(loaded.Keys(), std::vector<std::string>{"sa_1"});
  ASSERT_EQ(loaded.failures.size(), 2u);
  EXPECT_EQ(Message(loaded.failures[0].status),
            "/t.tar: member 'sa_1.jpg' (number 2) appears twice, first as number 1");
  EXPECT_EQ(Message(loaded.failures[1].status),
            "/t.tar: member 'sa_1.json' (number 4) belongs to a pair that was complete before; it began with "
            "member "
            "number 1");
}

TEST_F(Sa1bSourceTest, TooManyWaitingHalvesEndTheListing) {
  SourceOptions options;
  options.pending_pair_bytes = 10000;
  std::vector<TarItem> entries;
  for (int i = 0; i < 5; ++i) entries.push_back({StrCat("sa_", i, ".jpg"), kJpeg + std::string(3000, 'x')});
  const test::Loaded loaded = LoadTar(entries, options);
  EXPECT_TRUE(absl::IsResourceExhausted(loaded.status)) << loaded.status;
  EXPECT_NE(Message(loaded.status).find("the first being 'sa_0': extract the tar and pack the directory"),
            std::string::npos)
      << loaded.status;
}

TEST_F(Sa1bSourceTest, HalvesOfWholePairsDoNotWait) {
  SourceOptions options;
  options.pending_pair_bytes = 10000;
  std::vector<TarItem> entries;
  for (int i = 0; i < 20; ++i) {
    entries.push_back({StrCat("sa_", i, ".jpg"), kJpeg + std::string(3000, 'x')});
    entries.push_back({StrCat("sa_", i, ".json"), "{}"});
  }
  const test::Loaded loaded = LoadTar(entries, options);
  EXPECT_TRUE(loaded.status.ok()) << loaded.status;
  EXPECT_EQ(loaded.samples.size() + loaded.failures.size(), 20u);
}

TEST_F(Sa1bSourceTest, RealPairsGoThroughDirectoryAndTarAlike) {
  const std::string folder = test::DataFolder();
  if (folder.empty()) GTEST_SKIP() << "no folder of real inputs";
  const test::Loaded tree = LoadAll(PosixFileSystem(), "auto", {folder + "/sa1b"});
  ASSERT_TRUE(tree.failures.empty()) << tree.failures[0].status;
  ASSERT_EQ(tree.samples.size(), 6u);
  std::vector<TarItem> entries;
  for (const test::LoadedSample& sample : tree.samples) {
    const std::string base = folder + "/sa1b/" + sample.key;
    EXPECT_EQ(sample.fields.at("image").bytes, test::ReadAll(base + ".jpg"));
    EXPECT_EQ(Regenerated(sample), test::ReadAll(base + ".json"));
    EXPECT_FALSE(sample.fields.contains("source_json"));
    entries.insert(entries.begin(), {sample.key + ".jpg", test::ReadAll(base + ".jpg")});
    entries.push_back({sample.key + ".json", test::ReadAll(base + ".json")});
  }
  file_system_ = NewMemoryFileSystem();
  Add("/t.tar.zst", MakeTar(entries, "zstd"));
  const test::Loaded tar = LoadAll(file_system_.get(), "auto", {"/t.tar.zst"});
  ASSERT_EQ(tar.Keys(), tree.Keys());
  for (size_t i = 0; i < tree.samples.size(); ++i) {
    for (const auto& [name, field] : tree.samples[i].fields) {
      EXPECT_TRUE(tar.samples[i].fields.at(name).bytes == field.bytes) << name;
    }
  }
}

}  // namespace
}  // namespace shardkit
