// Masks written by other programs: pycocotools' vectors beside this file, and real annotation files where the
// test data is present (environment variable SHARDKIT_TEST_DATA).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codec/rle/rle_kernels.h"
#include "codec_support.h"
#include "rle_model.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace {

using nlohmann::json;
using testing::Model;

json ReadJson(const std::filesystem::path& path) {
  std::ifstream file(path);
  json document = json::parse(file, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << path;
  return document;
}

std::vector<std::filesystem::path> DataFiles(std::string_view folder) {
  std::vector<std::filesystem::path> files;
  const char* root = std::getenv("SHARDKIT_TEST_DATA");
  std::error_code error;
  if (root == nullptr) return files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(root) / folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  return files;
}

TEST(RlePycocotools, Vectors) {
  const json vectors = ReadJson(std::filesystem::path(SHARDKIT_CODEC_TEST_DIR) / "pycocotools_vectors.json");
  ASSERT_GE(vectors.size(), 50u);
  for (const json& vector : vectors) {
    Model model{vector["height"], vector["width"], {}};
    const std::string packed = vector["packed"];  // row by row, 8 pixels a byte, most significant first
    const size_t row_digits = PackedRowBytes(model.width) * 2;
    ASSERT_EQ(packed.size(), row_digits * model.height);
    for (uint32_t y = 0; y < model.height; ++y) {
      for (uint32_t x = 0; x < model.width; ++x) {
        model.pixels.push_back(HexDigit(packed[y * row_digits + x / 4]) >> (3 - x % 4) & 1);
      }
    }
    const Rle rle = EncodeDense(model.pixels, model.height, model.width).value();
    std::string text;
    AppendCocoText(rle.runs, &text);
    EXPECT_EQ(text, vector["counts"].get<std::string>());
    Rle parsed{model.height, model.width, {}};
    ASSERT_TRUE(RunsFromCocoText(vector["counts"].get<std::string>(), &parsed.runs).ok());
    EXPECT_EQ(parsed, rle);
    std::vector<uint8_t> dense(model.pixels.size());
    ASSERT_TRUE(DecodeDense(parsed, dense).ok());
    EXPECT_EQ(dense, model.pixels);
    std::vector<uint8_t> bits(model.height * PackedRowBytes(model.width));
    ASSERT_TRUE(DecodePacked(parsed, bits).ok());
    EXPECT_EQ(bits, testing::PackedOf(model));
    EXPECT_EQ(Area(rle), vector["area"].get<uint64_t>());
    const auto box = vector["bbox"].get<std::array<double, 4>>();
    const auto own = BoundingBox(rle);
    EXPECT_TRUE(std::equal(box.begin(), box.end(), own.begin()));
  }
}

// Calls visit(object) for every object with "size" and "counts", and its annotation (the object around it).
template <typename Visit>
void ForEachRle(const json& node, const json& parent, Visit visit) {
  if (node.is_object() && node.contains("size") && node.contains("counts")) visit(node, parent);
  if (!node.is_structured()) return;
  for (const json& child : node) ForEachRle(child, node, visit);
}

// Checks that the runs give the same text again, also through a mask and a value. Returns the runs.
Rle CheckOne(const json& object) {
  const uint32_t height = object["size"][0].get<double>(), width = object["size"][1].get<double>();
  Rle rle{height, width, {}};
  if (object["counts"].is_array()) {
    rle.runs = object["counts"].get<std::vector<uint32_t>>();
  } else {
    const std::string counts = object["counts"];
    EXPECT_TRUE(RunsFromCocoText(counts, &rle.runs).ok());
    std::string text;
    AppendCocoText(rle.runs, &text);
    EXPECT_EQ(text, counts);
    std::vector<uint32_t> portable;
    EXPECT_TRUE(codec::RunsFromCocoTextPortable(counts, &portable).ok());
    EXPECT_EQ(portable, rle.runs);
  }
  EXPECT_TRUE(ValidateRle(rle).ok());
  return rle;
}

TEST(RleReal, CocoFiles) {
  const auto files = DataFiles("coco_rle");
  if (files.empty()) GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has coco_rle/";
  size_t count = 0;
  for (const auto& path : files) {
    RleList masks;
    const json document = ReadJson(path);
    ForEachRle(document, json(), [&](const json& object, const json&) {
      const Rle rle = CheckOne(object);
      masks.Append(rle);
      if (++count % 8 != 0) return;  // dense masks of all would take long under sanitizers
      std::vector<uint8_t> dense(size_t{rle.height} * rle.width);
      ASSERT_TRUE(DecodeDense(rle, dense).ok());
      const Rle again = EncodeDense(dense, rle.height, rle.width).value();
      EXPECT_EQ(Area(again), Area(rle));
      EXPECT_EQ(BoundingBox(again), BoundingBox(rle));
      EXPECT_EQ(again, rle);
    });
    std::string value;
    ASSERT_TRUE(AppendRleValue(masks, &value).ok());
    RleList parsed;
    ASSERT_TRUE(ParseRleValue(value, &parsed).ok());
    EXPECT_EQ(parsed, masks) << path;
  }
  EXPECT_GE(count, 2400u);
}

// Area as decoded; box with width = max - min, as Meta's files have it, where pycocotools adds 1.
TEST(RleReal, Sa1bFiles) {
  auto files = DataFiles("sa1b");
  const auto excerpts = DataFiles("sa1b_excerpts");
  files.insert(files.end(), excerpts.begin(), excerpts.end());
  if (files.empty()) GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has sa1b/";
  size_t count = 0;
  for (const auto& path : files) {
    RleList masks;
    const json document = ReadJson(path);
    ForEachRle(document, json(), [&](const json& object, const json& annotation) {
      const Rle rle = CheckOne(object);
      masks.Append(rle);
      ++count;
      EXPECT_EQ(Area(rle), annotation["area"].get<uint64_t>());
      const auto box = BoundingBox(rle);
      const auto expected = annotation["bbox"].get<std::array<double, 4>>();
      EXPECT_EQ((std::array<double, 4>{double(box[0]), double(box[1]), double(box[2]) - 1, double(box[3]) - 1}),
                expected);
      if (count % 40 != 0) return;
      std::vector<uint8_t> dense(size_t{rle.height} * rle.width);
      ASSERT_TRUE(DecodeDense(rle, dense).ok());
      EXPECT_EQ(EncodeDense(dense, rle.height, rle.width).value(), rle);
    });
    std::string value;
    ASSERT_TRUE(AppendRleValue(masks, &value).ok());
    RleList parsed;
    ASSERT_TRUE(codec::ParseRleValue(value, false, &parsed).ok());
    EXPECT_EQ(parsed, masks) << path;
    ASSERT_TRUE(ParseRleValue(value, &parsed).ok());
    EXPECT_EQ(parsed, masks) << path;
  }
  EXPECT_GE(count, 600u);
}

}  // namespace
}  // namespace shardkit
