// What the server answers, without a network: of datasets with values of all kinds, hostile ones and damaged ones.
#include "view/api.h"

#include <gtest/gtest.h>

#include <cstring>

#include "shardkit/change.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"
#include "unit/dataset/select/select_support.h"

namespace shardctl {
namespace {

using shardkit::test::Bytes;

std::string Jpeg(uint32_t width, uint32_t height) {
  const std::vector<uint8_t> pixels(size_t{3} * width * height, 128);
  std::string bytes;
  EXPECT_TRUE(shardkit::EncodeJpeg(pixels.data(), width, height, {}, &bytes).ok());
  return bytes;
}

std::string Masks() {
  shardkit::RleList masks;
  masks.Append(shardkit::Rle{2, 3, {1, 2, 3}});
  masks.Append(shardkit::Rle{2, 3, {0, 6}});
  std::string value;
  EXPECT_TRUE(shardkit::AppendRleValue(masks, &value).ok());
  return value;
}

class ApiTest : public testing::Test {
 protected:
  ApiTest() : files_(shardkit::NewMemoryFileSystem()) {
    const std::vector<int32_t> numbers = {3, -1, 7};
    shardkit::test::WriteGiven(*files_, "/d",
                               {{{"i", Bytes(int64_t{-5})},
                                 {"f", Bytes(0.5F)},
                                 {"b", Bytes(true)},
                                 {"t", "<img src=x onerror=alert(1)>"},
                                 {"js", R"({"a": [1]})"},
                                 {"img", Jpeg(300, 200)},
                                 {"a", shardkit::test::Array("a", numbers)},
                                 {"m", Masks()}},
                                {{"t", "\"quoted\" \xe2\x80\xae"}, {"img", "<svg onload=alert(1)>"}},
                                {{"key", "../../etc/passwd"}, {"img", Jpeg(40, 30).substr(0, 300)}}});
    Reopen();
  }

  // Serves what is at `path` now, and a dataset that is missing.
  void Reopen(const std::string& path = "/d") {
    std::vector<Entry> entries(2);
    entries[0].path = path;
    auto opened = ViewedDataset::Open(*files_, path);
    EXPECT_TRUE(opened.ok()) << opened.status();
    entries[0].dataset = *std::move(opened);
    entries[1] = {"/missing", absl::NotFoundError("/missing: is not there"), nullptr};
    api_ = std::make_unique<ViewApi>(std::move(entries));
  }

  void Replace(const std::string& path, const std::string& bytes) {
    EXPECT_TRUE(files_->RemoveFile(path).ok());
    auto file = files_->Create(path);
    EXPECT_TRUE(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok());
  }

  Reply Get(const std::string& path, std::multimap<std::string, std::string> parameters = {}) {
    return api_->Answer({path, std::move(parameters)});
  }
  Json Document(const std::string& path, std::multimap<std::string, std::string> parameters = {}) {
    const Reply reply = Get(path, std::move(parameters));
    EXPECT_EQ(reply.status, 200) << path << ": " << reply.body;
    EXPECT_EQ(reply.type, "application/json");
    return Json::parse(reply.body);
  }
  std::string Error(int status, const std::string& path, std::multimap<std::string, std::string> parameters = {}) {
    const Reply reply = Get(path, std::move(parameters));
    EXPECT_EQ(reply.status, status) << path << ": " << reply.body;
    return Json::parse(reply.body)["error"];
  }
  // Of a sample's columns the one with this name.
  Json Shown(int sample, const std::string& name) {
    const Json document = Document("/api/0/sample/" + std::to_string(sample));
    for (const Json& column : document["columns"]) {
      if (column["name"] == name) return column;
    }
    return nullptr;
  }

  std::unique_ptr<shardkit::FileSystem> files_;
  std::unique_ptr<ViewApi> api_;
};

TEST_F(ApiTest, ListsDatasetsAndSaysWhichCannotBeOpened) {
  const Json datasets = Document("/api/datasets")["datasets"];
  ASSERT_EQ(datasets.size(), 2);
  EXPECT_EQ(datasets[0]["container"], "shard");
  EXPECT_EQ(datasets[1]["error"], "/missing: is not there");
  EXPECT_EQ(Error(404, "/api/1/overview"), "/missing: is not there");
}

TEST_F(ApiTest, OtherPathsAreNotThere) {
  for (const char* path :
       {"", "x", "/x", "/api", "/api/", "/api/2/overview", "/api/-1/overview", "/api/0", "/api/0/", "/api/0/sample",
        "/api/0/sample/", "/api/0/sample/x", "/api/0/sample/1/2", "/api/0/nothing/1", "/page/", "/page/../view.cc",
        "/page//etc/passwd", "/api/0/value/0/../../../d/dataset.json"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
}

TEST_F(ApiTest, ThePageIsPartOfTheProgram) {
  const Reply page = Get("/");
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("page/main.js"), std::string::npos);
  EXPECT_EQ(Get("/page/main.js").type, "text/javascript; charset=utf-8");
  EXPECT_EQ(Get("/page/style.css").type, "text/css; charset=utf-8");
}

TEST_F(ApiTest, TheOverviewHasColumnsAndGenerations) {
  const Json overview = Document("/api/0/overview");
  EXPECT_EQ(overview["samples"], 3);
  EXPECT_EQ(overview["columns"].size(), 13);
  EXPECT_EQ(overview["columns"][8]["kind"], "image");  // bytes, of which the first are those of a JPEG
  EXPECT_EQ(overview["generations"].size(), 1);
}

TEST_F(ApiTest, StatisticsComeFromAThread) {
  Json statistics;
  do {
    statistics = Document("/api/0/statistics");
  } while (statistics["state"] == "running");
  EXPECT_EQ(statistics["state"], "done");
  EXPECT_TRUE(statistics["exact"]);
  EXPECT_EQ(statistics["columns"][1]["present"], 1);
  EXPECT_EQ(statistics["columns"][1]["absent"], 2);
  EXPECT_EQ(statistics["columns"][1]["numbers"]["minimum"], -5);
}

TEST_F(ApiTest, StatisticsThatCountRemovedSamplesSaySo) {
  ASSERT_TRUE(shardkit::RemoveSamples(*files_, "/d", {.ranges = {{1, 2}}}).ok());
  Reopen();
  Json statistics;
  do {
    statistics = Document("/api/0/statistics");
  } while (statistics["state"] == "running");
  EXPECT_FALSE(statistics["exact"]);
  EXPECT_NE(statistics["source"].get<std::string>().find("count removed samples"), std::string::npos);
}

TEST_F(ApiTest, RowsHaveCaptions) {
  const Json rows =
      Document("/api/0/samples",
               {{"first", "0"}, {"count", "10"}, {"captions", "i"}, {"captions", "t"}, {"image", "img"}})["rows"];
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0]["key"], "k0");
  EXPECT_EQ(rows[0]["captions"][0], (Json{{"column", "i"}, {"text", "-5"}}));
  EXPECT_EQ(rows[0]["captions"][1]["text"], "<img src=x onerror=alert(1)>");
  EXPECT_EQ(rows[2]["key"], "../../etc/passwd");
  EXPECT_TRUE(Document("/api/0/samples", {{"first", "18446744073709551615"}})["rows"].empty());
  Error(404, "/api/0/samples", {{"captions", "nope"}});
  Error(400, "/api/0/samples", {{"count", "501"}});
  Error(400, "/api/0/samples", {{"first", "-1"}});
}

TEST_F(ApiTest, EachValueIsShownAsWhatItIs) {
  EXPECT_EQ(Shown(0, "i")["value"], -5);
  EXPECT_EQ(Shown(0, "b")["value"], true);
  EXPECT_EQ(Shown(0, "t")["text"], "<img src=x onerror=alert(1)>");
  EXPECT_EQ(Shown(0, "js")["kind"], "json");
  EXPECT_EQ(Shown(0, "a")["shape"], Json::array({3}));
  EXPECT_EQ(Shown(0, "m")["masks"], 2);
  EXPECT_EQ(Shown(0, "img")["kind"], "image");
  EXPECT_EQ(Shown(0, "img")["width"], 300);
  EXPECT_TRUE(Shown(0, "img")["warning"].is_null());
  EXPECT_FALSE(Shown(1, "i")["present"]);
  EXPECT_EQ(Error(404, "/api/0/sample/3"), "there is no sample 3: there are 3");
}

TEST_F(ApiTest, ADamagedImageIsShownWithAWarning) {
  const Json image = Shown(2, "img");
  EXPECT_EQ(image["width"], 40);
  EXPECT_NE(image["warning"].get<std::string>().find("JPEG"), std::string::npos);
  EXPECT_NE(Error(422, "/api/0/thumbnail/2", {{"column", "img"}}).find("JPEG"), std::string::npos);
}

TEST_F(ApiTest, MarkupInAValueIsNeverADocument) {
  const Reply value = Get("/api/0/value/1", {{"column", "img"}});
  EXPECT_EQ(value.type, "application/octet-stream");
  EXPECT_EQ(value.file_name, "1.img");
  EXPECT_EQ(value.body, "<svg onload=alert(1)>");
  EXPECT_EQ(Get("/api/0/value/0", {{"column", "t"}}).type, "application/octet-stream");
  EXPECT_EQ(Get("/api/0/value/0", {{"column", "img"}}).type, "image/jpeg");
  EXPECT_EQ(Get("/api/0/value/0", {{"column", "img"}, {"download", "1"}}).type, "application/octet-stream");
  EXPECT_EQ(Get("/api/0/value/1", {{"column", "js"}}).status, 404);
}

TEST_F(ApiTest, ThumbnailsFitAndAreNotEnlarged) {
  const auto size = [&](const char* wanted) {
    const Reply reply = Get("/api/0/thumbnail/0", {{"column", "img"}, {"size", wanted}});
    const auto info = shardkit::ProbeJpeg(reply.body);
    EXPECT_TRUE(info.ok()) << reply.body;
    return std::pair(info->width, info->height);
  };
  EXPECT_EQ(size("96"), std::pair(96U, 64U));
  EXPECT_EQ(size("1024"), std::pair(300U, 200U));
  Error(400, "/api/0/thumbnail/0", {{"column", "img"}, {"size", "100000"}});
  Error(400, "/api/0/thumbnail/0", {{"column", "i"}});
  Error(404, "/api/0/thumbnail/0", {{"column", "nope"}});
}

TEST_F(ApiTest, ArraysAndMasksAreGivenWhole) {
  const Json array = Document("/api/0/array/0", {{"column", "a"}});
  EXPECT_EQ(array["values"], Json::array({3, -1, 7}));
  EXPECT_EQ(array["mean"], 3.0);
  const Reply masks = Get("/api/0/masks/0", {{"column", "m"}});
  std::vector<uint32_t> words(masks.body.size() / 4);
  std::memcpy(words.data(), masks.body.data(), masks.body.size());
  EXPECT_EQ(words, (std::vector<uint32_t>{2, 2, 3, 3, 2, 3, 2, 1, 2, 3, 0, 6}));
  Error(400, "/api/0/masks/0", {{"column", "a"}});
  Error(400, "/api/0/array/0", {{"column", "m"}});
}

// A few KB of masks would keep a processor busy for minutes.
TEST_F(ApiTest, OfManyMasksTheLargestArePainted) {
  const auto painted = [&](size_t large, bool small) {
    shardkit::RleList masks;
    for (size_t i = 0; i < large; ++i) masks.Append(shardkit::Rle{30, 40, {0, 600, 600}});
    if (small) masks.Append(shardkit::Rle{30, 40, {900, 300}});
    std::string value;
    EXPECT_TRUE(shardkit::AppendRleValue(masks, &value).ok());
    EXPECT_TRUE(files_->CreateDirectory("/masks").ok());
    const std::string path = "/masks/" + std::to_string(large) + (small ? "s" : "");
    shardkit::test::WriteGiven(*files_, path, {{{"img", Jpeg(40, 30)}, {"m", value}}});
    Reopen(path);
    return Get("/api/0/thumbnail/0", {{"column", "img"}, {"masks", "m"}}).body;
  };
  EXPECT_NE(painted(999, true), painted(999, false));
  EXPECT_EQ(painted(1000, true), painted(1000, false));
}

TEST_F(ApiTest, HostileClassNames) {
  std::string many = "[\"c\"";
  for (size_t i = 1; i < 70000; ++i) many += ",\"c\"";
  const std::vector<std::pair<std::string, size_t>> texts = {{"[\"cat\", \"dog\"]", 2},
                                                             {many + "]", 65536},
                                                             {many, 0},
                                                             {"[1, \"dog\"]", 0},
                                                             {"", 0},
                                                             {std::string(100000, '[') + std::string(100000, ']'), 0},
                                                             {"[\"" + std::string(5 << 20, 'x') + "\"]", 0}};
  for (size_t i = 0; i < texts.size(); ++i) {
    shardkit::Column label{.name = "label", .type = shardkit::Type::kI32, .codec = shardkit::Codec::kZstd};
    label.metadata[shardkit::kClassNames] = texts[i].first;
    const std::string path = "/classes" + std::to_string(i), one(4, '\0');
    auto writer = shardkit::DatasetWriter::Create(*files_, path,
                                                  shardkit::test::MakeSchema({shardkit::test::KeyColumn(), label}));
    ASSERT_TRUE(writer.ok()) << writer.status();
    shardkit::Sample sample{.key = "k", .fields = {{&label, shardkit::Value(one)}}};
    ASSERT_TRUE((*writer)->Append(sample).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    Reopen(path);
    const Json column = Document("/api/0/overview")["columns"][1];
    EXPECT_EQ(column["class_names"].size(), texts[i].second) << i;
    EXPECT_LE(column["metadata"]["class_names"].get<std::string>().size(), (64 << 10) + 3) << i;
    Document("/api/0/sample/0");
    Document("/api/0/samples", {{"first", "0"}, {"count", "1"}});
  }
}

TEST_F(ApiTest, FindsByConditionAndByKey) {
  const Json found = Document("/api/0/find", {{"where", "i < 0"}, {"captions", "i"}});
  ASSERT_EQ(found["matches"].size(), 1);
  EXPECT_EQ(found["matches"][0]["ordinal"], 0);
  EXPECT_TRUE(found["next"].is_null());
  EXPECT_EQ(found["scanned"], 3);
  EXPECT_EQ(Document("/api/0/find", {{"where", "i is null"}, {"from", "2"}})["matches"].size(), 1);
  EXPECT_EQ(Document("/api/0/find", {{"key", "k1"}})["ordinal"], 1);
  EXPECT_TRUE(Document("/api/0/find", {{"key", "k9"}})["ordinal"].is_null());
  const Reply wrong = Get("/api/0/find", {{"where", "i < < 3"}});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(Json::parse(wrong.body)["position"], 4);
}

TEST_F(ApiTest, WhatWasFoundBeforeDamageIsGiven) {
  shardkit::DatasetWriterOptions options;
  options.shard_samples = 2;
  shardkit::test::WriteGiven(*files_, "/e", std::vector<shardkit::test::Given>(6), options);
  ASSERT_TRUE(files_->RemoveFile("/e/00000001.shard").ok());
  Reopen("/e");
  const Json found = Document("/api/0/find", {{"where", "u = 0"}});
  EXPECT_EQ(found["matches"].size(), 2);
  EXPECT_EQ(found["next"], 2);
  EXPECT_NE(Error(404, "/api/0/find", {{"where", "u = 0"}, {"from", "2"}}).find("00000001.shard"), std::string::npos);
}

TEST_F(ApiTest, FindingDoesNotReadBlocksThatCannotMatch) {
  std::vector<shardkit::test::Given> samples;
  for (uint64_t i = 0; i < 40; ++i) samples.push_back({{"u", Bytes(i)}, {"t", "text " + std::to_string(i)}});
  shardkit::DatasetWriterOptions options;
  options.shard_samples = 2;
  shardkit::test::WriteGiven(*files_, "/e", samples, options);
  const std::string path = "/e/00000001.shard";
  std::string shard = *files_->ReadFile(path, 1 << 20);
  const size_t text = shard.find("text 2");
  ASSERT_NE(text, shard.npos);
  shard[text] ^= 1;
  Replace(path, shard);
  Reopen("/e");
  const Json found = Document("/api/0/find", {{"where", "u in (1, 38) and t ~ 'text*'"}});
  ASSERT_EQ(found["matches"].size(), 2) << found;
  EXPECT_EQ(found["matches"][1]["ordinal"], 38);
  EXPECT_EQ(found["scanned"], 40);
  EXPECT_TRUE(found["next"].is_null());
  Error(422, "/api/0/find", {{"where", "u in (2, 38) and t ~ 'text*'"}, {"from", "2"}});
}

TEST_F(ApiTest, RandomSamplesAreThoseOfTheSeed) {
  const Json drawn = Document("/api/0/random", {{"seed", "7"}, {"count", "10"}})["ordinals"];
  EXPECT_EQ(drawn.size(), 3);
  EXPECT_EQ(drawn, Document("/api/0/random", {{"seed", "7"}, {"count", "10"}})["ordinals"]);
}

TEST_F(ApiTest, TheOrderIsTheLoaders) {
  const Json step = Document("/api/0/order", {{"batch_size", "2"}, {"step", "1"}, {"order", "sequential"}});
  EXPECT_EQ(step["steps"], 2);
  ASSERT_EQ(step["rows"].size(), 1);
  EXPECT_EQ(step["rows"][0]["ordinal"], 2);
  Error(400, "/api/0/order", {{"step", "2"}, {"batch_size", "2"}});
  Error(400, "/api/0/order", {{"rank", "1"}});
  Error(400, "/api/0/order", {{"order", "backwards"}});
  const Json shuffle = Document("/api/0/shuffle", {{"order", "sequential"}});
  EXPECT_EQ(shuffle["points"], (Json{{0, 0}, {1, 1}, {2, 2}}));
}

TEST_F(ApiTest, ADamagedValueLeavesTheOthersReadable) {
  auto shard = files_->ReadFile("/d/00000000.shard", 1 << 20);
  ASSERT_TRUE(shard.ok());
  const size_t image = shard->find("\xff\xd8\xff");
  ASSERT_NE(image, shard->npos);
  (*shard)[image + 200] ^= 1;
  Replace("/d/00000000.shard", *shard);
  Reopen();
  const Json damaged = Shown(0, "img");
  EXPECT_NE(damaged["error"].get<std::string>().find("checksum"), std::string::npos) << damaged;
  EXPECT_FALSE(damaged.contains("width"));
  EXPECT_EQ(Shown(0, "i")["value"], -5);
}

}  // namespace
}  // namespace shardctl
