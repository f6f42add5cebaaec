#include <random>

#include "base/strings.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"
#include "unit/operations/pack/convert_support.h"

namespace shardkit {
namespace {

using test::FindField;
using test::SmallSa1bJson;

// Converts, regenerates, and expects the same bytes. Says whether source_json was needed.
struct Converted {
  absl::Status status;
  bool has_source = false;
  std::vector<Field> fields;
  ByteArena arena;
};
void Convert(std::string_view json, Converted* out) {
  operations::Sa1bConverter converter;
  out->status = converter.Convert(json, &out->arena, &out->fields);
  if (!out->status.ok()) return;
  out->has_source = FindField(out->fields, "source_json") != nullptr;
  std::string text;
  const absl::Status status = operations::RegenerateSa1bJson(test::ValuesOf(out->fields), &text);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(text, json);
}

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Sa1bConvertTest, TheSchemaIsValid) {
  const auto schema = Schema::Create(operations::Sa1bColumns());
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_EQ(schema->key_column(), 0u);
  EXPECT_EQ(schema->blob_columns(), std::vector<size_t>{1});
}

TEST(Sa1bConvertTest, ThePublishedFormNeedsNoSource) {
  for (const int annotations : {0, 1, 2, 30}) {
    Converted converted;
    Convert(SmallSa1bJson(annotations), &converted);
    EXPECT_TRUE(converted.status.ok()) << converted.status;
    EXPECT_FALSE(converted.has_source) << annotations;
    EXPECT_EQ(converted.fields.size(), 12u);
  }
}

TEST(Sa1bConvertTest, ColumnsHoldTheNumbers) {
  Converted converted;
  Convert(SmallSa1bJson(2), &converted);
  ASSERT_TRUE(converted.status.ok());
  const auto array = [&](const char* name) {
    const Field* const field = FindField(converted.fields, name);
    return ParseNdarray(*field->column, field->value.bytes).value();
  };
  EXPECT_EQ(array("annotation_id").shape, std::vector<uint64_t>{2});
  EXPECT_EQ(array("bbox").shape, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(array("point_coords").shape, (std::vector<uint64_t>{2, 1, 2}));
  RleList masks;
  ASSERT_TRUE(ParseRleValue(FindField(converted.fields, "masks")->value.bytes, &masks).ok());
  ASSERT_EQ(masks.size(), 2u);
  EXPECT_EQ(masks.heights[1], 4u);
  EXPECT_EQ(masks.widths[1], 6u);
  EXPECT_EQ(std::vector<uint32_t>(masks.runs.begin(), masks.runs.begin() + 3), (std::vector<uint32_t>{5, 3, 16}));
}

TEST(Sa1bConvertTest, NoAnnotationsMakeEmptyArrays) {
  Converted converted;
  Convert(SmallSa1bJson(0), &converted);
  const Field* const field = FindField(converted.fields, "point_coords");
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(ParseNdarray(*field->column, field->value.bytes)->shape, (std::vector<uint64_t>{0, 0, 2}));
}

TEST(Sa1bConvertTest, OtherFormsKeepTheirSource) {
  const std::string json = SmallSa1bJson(2);
  const std::string others[] = {
      json + "\n",
      " " + json,
      Replace(json, ", ", ","),
      Replace(json, ": ", ":  "),
      Replace(json, "[1.0, 1.0", "[1, 1"),
      Replace(json, "0.953125", "9.53125e-1"),
      Replace(json, "0.953125", "0.9531250"),
      Replace(json, "\"area\": 3", "\"area\": 3.0"),
      Replace(json, "sa_1.jpg", "\\u0073a_1.jpg"),
      Replace(json, "sa_1.jpg", "s\xc3\xa9.jpg"),
      Replace(json, "\"53`0\"", "[5, 3, 16]"),
      Replace(json, "53`0", "53`\\u0030"),
      Replace(json, "53`0", "5S0`0"),
      Replace(json, "\"area\": 3", "\"area\": 3, \"extra\": null"),
      Replace(json, "\"width\": 6, \"height\": 4", "\"height\": 4, \"width\": 6"),
      Replace(json, "\"area\": 3", "\"area\": 9, \"area\": 3"),
      Replace(json, "]}", "], \"licence\": \"x\"}"),
  };
  for (const std::string& other : others) {
    Converted converted;
    Convert(other, &converted);
    EXPECT_TRUE(converted.status.ok()) << converted.status << "\n" << other;
    EXPECT_TRUE(converted.has_source) << other;
    EXPECT_NE(FindField(converted.fields, "masks"), nullptr) << other;
    EXPECT_EQ(converted.fields.size(), 13u) << other;
  }
}

TEST(Sa1bConvertTest, WhatDoesNotFitLeavesItsColumnOut) {
  const std::string json = SmallSa1bJson(2);
  struct Case {
    std::string json;
    const char* column;
  };
  const Case cases[] = {
      {Replace(json, "[[1.5, 2.0]]", "[[1.5, 2.0], [1.0, 1.0]]"), "point_coords"},
      {Replace(json, "[[1.5, 2.0]]", "[[1.5]]"), "point_coords"},
      {Replace(json, "[[1.5, 2.0]]", "null"), "point_coords"},
      {Replace(json, "\"area\": 3, ", ""), "area"},
      {Replace(json, "\"area\": 3", "\"area\": 3.5"), "area"},
      {Replace(json, "\"area\": 3", "\"area\": \"3\""), "area"},
      {Replace(json, "[1.0, 1.0, 0.0, 2.0]", "[1.0, 1.0, 0.0]"), "bbox"},
      {Replace(json, "\"id\": 100", "\"id\": null"), "annotation_id"},
      {Replace(json, "0.953125", "true"), "predicted_iou"},
      {Replace(json, "\"width\": 6, ", ""), "width"},
      {Replace(json, "\"sa_1.jpg\"", "7"), "file_name"},
      {Replace(json, "[4, 6]", "[4, -6]"), "masks"},
      {Replace(json, "[4, 6]", "[4]"), "masks"},
      {Replace(json, "{\"size\": [4, 6], \"counts\": \"53`0\"}", "[[0, 1, 2, 3]]"), "masks"},
      {Replace(json, "\"53`0\"", "null"), "masks"},
  };
  for (const Case& c : cases) {
    Converted converted;
    Convert(c.json, &converted);
    EXPECT_TRUE(converted.status.ok()) << converted.status << "\n" << c.json;
    EXPECT_TRUE(converted.has_source) << c.json;
    EXPECT_EQ(FindField(converted.fields, c.column), nullptr) << c.json;
    EXPECT_EQ(converted.fields.size(), 12u) << c.json;
  }
}

TEST(Sa1bConvertTest, AnnotationsThatAreNoObjectsLeaveOnlyTheImage) {
  Converted converted;
  Convert(Replace(SmallSa1bJson(1), "\"annotations\": [", "\"annotations\": [7, "), &converted);
  EXPECT_TRUE(converted.status.ok()) << converted.status;
  EXPECT_EQ(converted.fields.size(), 5u);
}

TEST(Sa1bConvertTest, DamageIsRefused) {
  const std::string json = SmallSa1bJson(3);
  const std::pair<std::string, const char*> cases[] = {
      {"", "invalid JSON"},
      {json.substr(0, json.size() - 1), "invalid JSON"},
      {json + "}", "invalid JSON"},
      {Replace(json, "sa_1", "s\xff"), "invalid JSON"},
      {Replace(json, "0.953125", "NaN"), "invalid JSON"},
      {"[]", "the JSON is not an object"},
      {"{\"annotations\": []}", "no \"image\" object"},
      {"{\"image\": 3, \"annotations\": []}", "no \"image\" object"},
      {"{\"image\": {}}", "no \"annotations\" list"},
      {"{\"image\": {}, \"annotations\": {}}", "no \"annotations\" list"},
      {Replace(json, "53`0", "54`0"), "annotation 0: "},
      {Replace(json, "53`0", "53`"), "annotation 0: "},
      {Replace(json, "53`0", "53 0"), "annotation 0: "},
      {Replace(json, "\"53`0\"", "[5, 3, 17]"), "annotation 0: "},
      {Replace(json, "\"53`0\"", "[5, -3, 16]"), "a count is not an integer from 0 to 2^32 - 1"},
      {Replace(json, "\"53`0\"", "[5, 3.5, 16]"), "a count is not an integer from 0 to 2^32 - 1"},
  };
  for (const auto& [text, message] : cases) {
    Converted converted;
    Convert(text, &converted);
    EXPECT_TRUE(absl::IsDataLoss(converted.status)) << converted.status << "\n" << text;
    EXPECT_NE(test::Message(converted.status).find(message), std::string::npos) << converted.status;
  }
}

TEST(Sa1bConvertTest, AWrongSumIsNamedByItsAnnotation) {
  std::string json = SmallSa1bJson(3);
  json.replace(json.rfind("53`0"), 4, "63`0");
  Converted converted;
  Convert(json, &converted);
  EXPECT_EQ(test::Message(converted.status).find("annotation 2: "), 0u) << converted.status;

  Converted with_misfit;  // the annotation at the front has no mask that fits
  Convert(Replace(json, "[4, 6]", "[4]"), &with_misfit);
  EXPECT_EQ(test::Message(with_misfit.status).find("annotation 2: "), 0u) << with_misfit.status;
}

TEST(Sa1bConvertTest, AConverterCanBeUsedAgainAfterAnError) {
  operations::Sa1bConverter converter;
  for (int i = 0; i < 3; ++i) {
    ByteArena arena;
    std::vector<Field> fields;
    EXPECT_FALSE(converter.Convert("{\"image\"", &arena, &fields).ok());
    fields.clear();
    const std::string json = SmallSa1bJson(3 - i);
    ASSERT_TRUE(converter.Convert(json, &arena, &fields).ok());
    std::string text;
    ASSERT_TRUE(operations::RegenerateSa1bJson(test::ValuesOf(fields), &text).ok());
    EXPECT_EQ(text, json);
  }
}

// Any change of one character is either refused or comes back unchanged.
TEST(Sa1bConvertTest, RandomChangesAreKeptOrRefused) {
  const std::string json = SmallSa1bJson(2);
  std::minstd_rand random(7);
  operations::Sa1bConverter converter;
  size_t kept = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = json;
    for (unsigned changes = 1 + random() % 2; changes > 0; --changes) {
      const size_t at = random() % changed.size();
      switch (random() % 3) {
        case 0:
          changed[at] = json[random() % json.size()];
          break;
        case 1:
          changed.erase(at, 1 + random() % 3);
          break;
        default:
          changed.insert(at, 1, json[random() % json.size()]);
      }
    }
    ByteArena arena;
    std::vector<Field> fields;
    if (const absl::Status status = converter.Convert(changed, &arena, &fields); !status.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      continue;
    }
    ++kept;
    std::string text;
    ASSERT_TRUE(operations::RegenerateSa1bJson(test::ValuesOf(fields), &text).ok());
    ASSERT_EQ(text, changed);
  }
  EXPECT_GT(kept, 1000u);
}

TEST(Sa1bRegenerateTest, ColumnsThatDoNotFitTogetherAreDataLoss) {
  Converted two;
  Converted three;
  Convert(SmallSa1bJson(2), &two);
  Convert(SmallSa1bJson(3), &three);
  std::string text;
  const operations::Sa1bValues good = test::ValuesOf(two.fields);
  const operations::Sa1bValues other = test::ValuesOf(three.fields);
  std::string_view operations::Sa1bValues::*const arrays[] = {&operations::Sa1bValues::annotation_id,
                                                              &operations::Sa1bValues::area,
                                                              &operations::Sa1bValues::bbox,
                                                              &operations::Sa1bValues::predicted_iou,
                                                              &operations::Sa1bValues::stability_score,
                                                              &operations::Sa1bValues::crop_box,
                                                              &operations::Sa1bValues::point_coords,
                                                              &operations::Sa1bValues::masks};
  for (const auto member : arrays) {
    operations::Sa1bValues values = good;
    values.*member = other.*member;
    EXPECT_TRUE(absl::IsDataLoss(operations::RegenerateSa1bJson(values, &text)));
    values.*member = {};
    EXPECT_TRUE(absl::IsDataLoss(operations::RegenerateSa1bJson(values, &text)));
    values.*member = (good.*member).substr(0, 9);
    EXPECT_TRUE(absl::IsDataLoss(operations::RegenerateSa1bJson(values, &text)));
  }
  for (const auto member :
       {&operations::Sa1bValues::image_id, &operations::Sa1bValues::width, &operations::Sa1bValues::height}) {
    operations::Sa1bValues values = good;
    values.*member = "1234567";
    EXPECT_TRUE(absl::IsDataLoss(operations::RegenerateSa1bJson(values, &text)));
  }
  operations::Sa1bValues values = good;
  values.bbox = good.area;
  EXPECT_TRUE(absl::IsDataLoss(operations::RegenerateSa1bJson(values, &text)));
  values = good;
  values.file_name = "\xff";
  EXPECT_TRUE(absl::IsDataLoss(operations::RegenerateSa1bJson(values, &text)));
}

TEST(Sa1bRealTest, RealFilesNeedNoSourceAndExcerptsComeBack) {
  const std::string folder = test::DataFolder();
  if (folder.empty()) GTEST_SKIP() << "no folder of real inputs";
  for (const bool excerpts : {false, true}) {
    const std::string directory = folder + (excerpts ? "/sa1b_excerpts" : "/sa1b");
    const auto entries = PosixFileSystem()->List(directory);
    ASSERT_TRUE(entries.ok());
    size_t files = 0;
    for (const DirectoryEntry& entry : *entries) {
      if (!entry.name.ends_with(".json")) continue;
      ++files;
      const std::string json = test::ReadAll(JoinPath(directory, entry.name));
      Converted converted;
      Convert(json, &converted);
      EXPECT_TRUE(converted.status.ok()) << entry.name << " " << converted.status;
      // The excerpts were written by hand: with line breaks, and integers for floats.
      EXPECT_EQ(converted.has_source, excerpts) << entry.name;
      EXPECT_EQ(converted.fields.size(), excerpts ? 13u : 12u) << entry.name;
      if (!excerpts) continue;
      // In the published form, without the line breaks, the genuine values need no source either.
      std::string joined = json;
      std::erase(joined, '\n');
      for (size_t at = 0; (at = joined.find("},{", at)) != std::string::npos;) joined.replace(at, 3, "}, {");
      Converted again;
      Convert(joined, &again);
      EXPECT_EQ(again.has_source, entry.name == "sa_560.excerpt.json") << entry.name;
    }
    EXPECT_EQ(files, excerpts ? 4u : 6u);
  }
}

}  // namespace
}  // namespace shardkit
