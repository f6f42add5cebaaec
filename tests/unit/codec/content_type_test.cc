#include "codec/content_type.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <random>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "shardkit/image.h"

namespace shardkit::codec {
namespace {

const std::string kJpegBytes = "\xff\xd8\xff\xe0 rest";
const std::string kPngBytes = "\x89PNG\r\n\x1a\n rest";

TEST(ContentType, Signatures) {
  using namespace std::string_literals;
  const std::pair<std::string, ImageFormat> heads[] = {
      {"\xff\xd8\xff", ImageFormat::kJpeg},
      {"\x89PNG\r\n\x1a\n", ImageFormat::kPng},
      {"RIFF\1\2\3\4WEBP", ImageFormat::kWebp},
      {"GIF87a", ImageFormat::kGif},
      {"GIF89a", ImageFormat::kGif},
      {"BM", ImageFormat::kBmp},
      {"II*\0"s, ImageFormat::kTiff},
      {"MM\0*"s, ImageFormat::kTiff},
      {"II+\0"s, ImageFormat::kTiff},
      {"MM\0+"s, ImageFormat::kTiff},
      {"\0\0\0\x10"
       "ftypavif"s,
       ImageFormat::kAvif},
      {"\0\0\0\x10"
       "ftypavis"s,
       ImageFormat::kAvif},
      {"\0\0\0\x14"
       "ftypmif1\0\0\0\0avif"s,
       ImageFormat::kAvif},
      {"\xff\n", ImageFormat::kJpegXl},
      {"P6\n", ImageFormat::kPnm},
      {"P1 ", ImageFormat::kPnm},
      {"\0\0\0\x0cJXL \r\n\x87\n"s, ImageFormat::kJpegXl},
  };
  for (const auto& [head, format] : heads) {
    SCOPED_TRACE(ImageFormatName(format));
    EXPECT_EQ(DetectImageFormat(head), format);
    EXPECT_EQ(DetectImageFormat(head + "and more of it"), format);
    EXPECT_EQ(DetectImageFormat(" " + head), ImageFormat::kUnknown);
    for (size_t length = 0; length < head.size(); ++length) {
      EXPECT_EQ(DetectImageFormat(head.substr(0, length)), ImageFormat::kUnknown) << length;
    }
  }
  // Brands outside of the box, the version in place of a brand, and other files of this kind.
  for (const std::string& other :
       {"\0\0\0\x14"
        "ftypheic\0\0\0\0mif1avif"s,
        "\0\0\0\x10"
        "ftypheicavif"s,
        "P7\nWIDTH"s, "P0\n1"s, "PNG 1"s, "\0\0\0\0ftypavif"s, "\0\0\0\x10moovavif"s, "RIFF\1\2\3\4WAVE"s}) {
    EXPECT_EQ(DetectImageFormat(other), ImageFormat::kUnknown) << other;
  }
  // Only the first bytes count, so that files and values in memory are judged in the same way.
  std::string brands = "\0\0\1\0ftypmif1\0\0\0\0"s;
  while (brands.size() < 60) brands += "heic";
  EXPECT_EQ(DetectImageFormat(brands + "avif"), ImageFormat::kAvif);
  EXPECT_EQ(DetectImageFormat(brands + "heicavif"), ImageFormat::kUnknown);
  EXPECT_EQ(ImageFormatName(ImageFormat::kUnknown), "unknown");
}

TEST(ContentType, Utf8) {
  EXPECT_TRUE(ValidUtf8(""));
  EXPECT_TRUE(
      ValidUtf8("Gr\xc3\xbc\xc3\x9f"
                "e \xf0\x9f\x98\x80"));
  EXPECT_TRUE(ValidUtf8(std::string_view("a\0b", 3)));
  EXPECT_FALSE(ValidUtf8("\xc3"));
  EXPECT_FALSE(ValidUtf8("\xc0\x80"));          // overlong
  EXPECT_FALSE(ValidUtf8("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(ValidUtf8("\xf4\x90\x80\x80"));  // beyond U+10FFFF
}

TEST(ContentType, Json) {
  for (const char* good :
       {"{}", " [1, 2.5e3, \"x\", null, true] ", "3", "\"a\"", "{\"a\": {\"b\": []}}", "-0", "-0.0E+00", "1e999",
        "123456789012345678901234567890", R"("\ud800")", R"(["\udc00\uD83D\uDE00"])", R"("\u0000\"\\\/\b\f\n\r\t")",
        "\"\x7f\xe2\x80\xa8\"", "{\"a\": 1, \"a\": 2, \"\": {}}", "\t\r\n [ ] \t\r\n", "[[],[{}],{\"\":[]}]"}) {
    EXPECT_TRUE(IsValidJson(good)) << good;
  }
  for (const char* bad : {"",          " ",         "{",
                          "[1,]",      "{} {}",     "{\"a\": 01}",
                          "nul",       "[1 2]",     "\"\xff\"",
                          "'a'",       "{1}",       "{\"a\"}",
                          "{,}",       "{\"a\":}",  "{\"a\":1,}",
                          "[,]",       "]",         "[}",
                          "{]",        "1.",        ".5",
                          "+1",        "-",         "1e",
                          "1e+",       "00",        "-01",
                          "0x1",       "NaN",       "Infinity",
                          "True",      "nulll",     "\"",
                          "\"\\\"",    "\"\\x\"",   "\"\\u12g4\"",
                          "\"\n\"",    "\"\\u123",  "\xef\xbb\xbf{}",
                          "[1]\f",     "[1]\v",     "\"\xed\xa0\x80\"",
                          "{\"a\" 1}", "[\"a\":1]", "{\"a\": 1, \"b\": [tru]}"}) {
    EXPECT_FALSE(IsValidJson(bad)) << bad;
  }
  EXPECT_FALSE(IsValidJson(std::string_view("[1]\0", 4)));
  EXPECT_FALSE(IsValidJson(std::string_view("\"\0\"", 3)));
}

TEST(ContentType, JsonNesting) {
  const auto nested = [](size_t depth, std::string_view open, std::string_view inside, std::string_view close) {
    std::string text;
    for (size_t i = 0; i < depth; ++i) text += open;
    text += inside;
    for (size_t i = 0; i < depth; ++i) text += close;
    return IsValidJson(text);
  };
  for (const std::string_view inside : {"", "1"}) {
    EXPECT_TRUE(nested(kMaxJsonDepth, "[", inside, "]"));
    EXPECT_FALSE(nested(kMaxJsonDepth + 1, "[", inside, "]"));
  }
  EXPECT_TRUE(nested(kMaxJsonDepth, "{\"a\":", "0", "}"));
  EXPECT_FALSE(nested(kMaxJsonDepth + 1, "{\"a\":", "0", "}"));
  EXPECT_FALSE(nested(kMaxJsonDepth / 2, "[{\"a\":", "[]", "}]"));
  EXPECT_FALSE(nested(1 << 20, "[", "", ""));
  // Depth counts what is open, not what was opened.
  std::string wide = "[";
  for (int i = 0; i < 5000; ++i) wide += "[],{},";
  EXPECT_TRUE(IsValidJson(wide + "0]"));
}

// Texts changed at random. A parser refuses more, but never less than the grammar.
TEST(ContentType, JsonAgreesWithAParser) {
  const std::string text = R"({"a": [1, -2.5e+3, "x\u00e9\n", null], "b": {"c": true, "d": [[], {}]}, "e": "\"\\"})";
  const std::string_view pieces = "{}[],:\"\\0123456789.eE+-tfnul \n";
  std::mt19937_64 random(1);
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  int good = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = text;
    for (uint64_t i = 1 + random() % 2; i-- > 0;) {
      const size_t at = random() % changed.size();
      if (random() % 2 == 0) {
        changed.erase(at, 1);
      } else {
        changed[at] = pieces[random() % pieces.size()];
      }
    }
    const simdjson::error_code parsed = parser.parse(changed).get(document);
    const bool valid = IsValidJson(changed);
    good += valid ? 1 : 0;
    if (parsed == simdjson::SUCCESS) {
      ASSERT_TRUE(valid) << changed;
    } else if (valid) {
      // Only escapes of lone surrogates and numbers that do not fit.
      ASSERT_TRUE(parsed == simdjson::STRING_ERROR || parsed == simdjson::NUMBER_ERROR) << changed << parsed;
    }
  }
  EXPECT_GT(good, 1000);
}

TEST(ContentType, Guess) {
  EXPECT_EQ(GuessType(kJpegBytes, "jpg"), Type::kJpeg);
  EXPECT_EQ(GuessType(kJpegBytes, "png"), Type::kJpeg);
  EXPECT_EQ(GuessType(kPngBytes, "JPEG"), Type::kPng);
  EXPECT_EQ(GuessType(kPngBytes, "txt"), Type::kPng);
  EXPECT_EQ(GuessType("not an image", "jpg"), Type::kBytes);
  EXPECT_EQ(GuessType("GIF89a", "jpg"), Type::kImage);
  EXPECT_EQ(GuessType("GIF89a", "WEBP"), Type::kImage);
  EXPECT_EQ(GuessType("GIF89a", ""), Type::kBytes);
  EXPECT_EQ(GuessType("BMW", "txt"), Type::kUtf8);
  EXPECT_EQ(GuessType("{\"a\": 1}", "json"), Type::kJson);
  EXPECT_EQ(GuessType("{\"a\": 1}", "JSON"), Type::kJson);
  EXPECT_EQ(GuessType("{\"a\": 1", "json"), Type::kUtf8);
  EXPECT_EQ(GuessType("\xff", "json"), Type::kBytes);
  EXPECT_EQ(GuessType("{\"a\": 1}", "txt"), Type::kUtf8);
  EXPECT_EQ(GuessType("{\"a\": 1}", ""), Type::kBytes);
  for (const char* extension :
       {"txt", "cls", "caption", "csv", "tsv", "md", "xml", "html", "yaml", "yml", "log", "jsonl", "ndjson", "TXT"}) {
    EXPECT_EQ(GuessType("7", extension), Type::kUtf8) << extension;
    EXPECT_EQ(GuessType("\xff", extension), Type::kBytes) << extension;
    EXPECT_EQ(GuessType("", extension), Type::kUtf8) << extension;
  }
  for (const char* extension : {"jpg", "JPEG", "jpe", "jfif"}) EXPECT_EQ(GuessType("", extension), Type::kJpeg);
  EXPECT_EQ(GuessType("", "png"), Type::kPng);
  for (const char* extension : {"webp", "gif", "BMP", "tif", "tiff", "avif", "jxl"}) {
    EXPECT_EQ(GuessType("", extension), Type::kImage) << extension;
  }
  EXPECT_EQ(GuessType("", "json"), Type::kUtf8);
  EXPECT_EQ(GuessType("", "npy"), Type::kBytes);
}

TEST(ContentType, Fits) {
  EXPECT_TRUE(FitsType("\xff", Type::kBytes));
  EXPECT_TRUE(FitsType("", Type::kBytes));
  EXPECT_TRUE(FitsType("", Type::kUtf8));
  EXPECT_FALSE(FitsType("\xff", Type::kUtf8));
  EXPECT_TRUE(FitsType("[]", Type::kJson));
  EXPECT_FALSE(FitsType("", Type::kJson));
  EXPECT_TRUE(FitsType("", Type::kJpeg));
  EXPECT_TRUE(FitsType("", Type::kPng));
  EXPECT_TRUE(FitsType(kJpegBytes, Type::kJpeg));
  EXPECT_FALSE(FitsType(kJpegBytes, Type::kPng));
  EXPECT_TRUE(FitsType(kPngBytes, Type::kPng));
  for (const std::string& image : {std::string(), kJpegBytes, kPngBytes, std::string("BM")}) {
    EXPECT_TRUE(FitsType(image, Type::kImage));
  }
  EXPECT_FALSE(FitsType("<!DOCTYPE html>", Type::kImage));
  EXPECT_FALSE(FitsType("abcd", Type::kI32));
  EXPECT_FALSE(FitsType("", Type::kRle));
}

}  // namespace
}  // namespace shardkit::codec
