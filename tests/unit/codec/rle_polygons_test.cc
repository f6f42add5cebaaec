// Masks of polygons: those that pycocotools makes (make_pycocotools_vectors.py), and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace {

using Polygons = std::vector<std::vector<double>>;

TEST(RlePolygons, AreThoseOfPycocotools) {
  std::ifstream file(SHARDKIT_CODEC_TEST_DIR "/pycocotools_polygons.json");
  const nlohmann::json shapes = nlohmann::json::parse(file, nullptr, false);
  ASSERT_GE(shapes.size(), 140u);
  for (const nlohmann::json& shape : shapes) {
    const auto polygons = shape["polygons"].get<Polygons>();
    const absl::StatusOr<Rle> mask = RleFromPolygons(polygons, shape["height"], shape["width"]);
    ASSERT_TRUE(mask.ok()) << mask.status();
    EXPECT_TRUE(ValidateRle(*mask).ok());
    std::string text;
    AppendCocoText(mask->runs, &text);
    EXPECT_EQ(text, shape["counts"].get<std::string>()) << shape;
  }
}

TEST(RlePolygons, WithoutPolygonsOrPixelsNothingIsForeground) {
  EXPECT_EQ(RleFromPolygons({}, 3, 4).value(), (Rle{3, 4, {12}}));
  const Polygons square = {{0, 0, 4, 0, 4, 4, 0, 4}};
  EXPECT_EQ(RleFromPolygons(square, 0, 4).value(), (Rle{0, 4, {0}}));
  EXPECT_EQ(RleFromPolygons(square, 4, 0).value(), (Rle{4, 0, {0}}));
  EXPECT_EQ(RleFromPolygons(Polygons{{}, {1, 1}, {1, 1, 3, 3}}, 4, 4).value(), (Rle{4, 4, {16}}));
}

TEST(RlePolygons, WhatIsNoPolygonIsRefusedByNumber) {
  const auto why = [](const Polygons& polygons, uint32_t height = 4, uint32_t width = 4) {
    const absl::Status status = RleFromPolygons(polygons, height, width).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status)) << status;
    return std::string(ToStd(status.message()));
  };
  EXPECT_EQ(why({{0, 0, 1, 1, 2, 2}, {0, 0, 1, 1, 2}}),
            "polygon 1: has 5 numbers, an odd count: corners are pairs of x and y");
  for (const double number : {std::nan(""), std::numeric_limits<double>::infinity(), -1e300, 2097152.5}) {
    EXPECT_EQ(why({{0, 0, 1, number, 2, 2}}),
              "polygon 0: number 3 is beyond 2,097,152 pixels, the limit of a coordinate");
  }
  EXPECT_NE(why({{0, 0, 1, 1, 2, 2}}, 1 << 16, 1 << 16).find("above the limit"), std::string::npos);
  std::vector<double> zigzag;
  for (int i = 0; i < 40; ++i) zigzag.insert(zigzag.end(), {i % 2 == 0 ? 0. : 1e6, double(i)});
  EXPECT_NE(why({zigzag}, 4000, 1000000).find("polygon 0: the polygons cross more than"), std::string::npos);
}

}  // namespace
}  // namespace shardkit
