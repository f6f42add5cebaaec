#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "foreign/webdataset/webdataset_names.h"

namespace shardkit::foreign {
namespace {

using Parts = std::optional<WebDatasetName>;

struct Case {
  std::string_view name;
  Parts webdataset;
};

// The results of Python for the two regular expressions.
const Case kCases[] = {
    {"a.jpg", WebDatasetName{"a", "jpg"}},
    {"d/a.b.jpg", WebDatasetName{"d/a", "b.jpg"}},
    {"a/b.c/d.jpg", WebDatasetName{"a/b.c/d", "jpg"}},
    {"a.b/c", std::nullopt},
    {"x/a.b/c", std::nullopt},
    {".hidden", std::nullopt},
    {"a.b/.c.d", std::nullopt},
    {"dir/.hidden.jpg", WebDatasetName{"dir/", "hidden.jpg"}},
    {"a.b/dir/.hidden.jpg", WebDatasetName{"a.b/dir/", "hidden.jpg"}},
    {"/.x", WebDatasetName{"/", "x"}},
    {"//.x", WebDatasetName{"//", "x"}},
    {"a..b", WebDatasetName{"a", ".b"}},
    {"a.", WebDatasetName{"a", ""}},
    {"./a.jpg", WebDatasetName{"a", "jpg"}},  // not as webdataset
    {"././d/a.jpg", WebDatasetName{"d/a", "jpg"}},
    {"./__meta__/a.json", std::nullopt},
    {"../a.JPG", WebDatasetName{"../a", "JPG"}},
    {"a", std::nullopt},
    {"", std::nullopt},
    {"a.b/", std::nullopt},
    {"__meta__", std::nullopt},
    {"__a.b__", std::nullopt},
    {"__meta__/a.json", std::nullopt},
    {"__a.b__/c.d", std::nullopt},
    {"__k__.json", WebDatasetName{"__k__", "json"}},
    {"d/__k__/a.json", WebDatasetName{"d/__k__/a", "json"}},
    {"___/a.b", WebDatasetName{"___/a", "b"}},
    {"____/a.b", std::nullopt},
    {"a\nb/c.jpg", WebDatasetName{"a\nb/c", "jpg"}},
    {"a.x\nb/c.jpg", std::nullopt},
    {"a.x/b\nc.jpg", WebDatasetName{"a.x/b\nc", "jpg"}},
    {"__a.b__\n", std::nullopt},
};

TEST(WebDatasetNames, AreDividedAsWebdatasetDoes) {
  for (const Case& test : kCases) {
    EXPECT_EQ(SplitWebDatasetName(test.name), test.webdataset) << test.name;
  }
}

// Compares with the regular expressions themselves in std::regex, over names of the few important letters.
TEST(WebDatasetNames, AgreeWithTheExpressions) {
  const std::regex rule("^((?:.*/|)[^.]+)[.]([^/]*)$"), meta("^__[^/]*__($|/)");
  std::mt19937 random(7);
  for (int i = 0; i < 30000; ++i) {
    std::string name;
    for (size_t length = random() % 10; name.size() < length;) name += "a./_"[random() % 4];
    if (name.starts_with("./")) continue;
    const bool skipped = std::regex_search(name, meta) ||
                         (name.find('/') == name.npos && name.starts_with("__") && name.ends_with("__"));
    std::smatch match;
    Parts expected;
    if (!skipped && std::regex_match(name, match, rule)) {
      const std::string_view whole(name);
      expected = WebDatasetName{whole.substr(0, static_cast<size_t>(match.length(1))),
                                whole.substr(static_cast<size_t>(match.position(2)))};
    }
    EXPECT_EQ(SplitWebDatasetName(name), expected) << name;
    EXPECT_EQ(IsWebDatasetMeta(name), skipped) << name;
  }
}

TEST(WebDatasetNames, BecomeColumns) {
  EXPECT_EQ(WebDatasetColumn("Seg.PNG"), "seg.png");
  EXPECT_EQ(WebDatasetColumn(""), "/.");
  EXPECT_EQ(WebDatasetColumn("KEY"), "/key");
  EXPECT_EQ(WebDatasetColumn("\xc3\x84"), "\xc3\x84");
  for (const std::string_view name :
       {"a.tar", "a.tar.gz", "a.tgz", "a.tar.zst", "a.tar.bz2", "a.tar.xz", "a.tar.lz4", "a.tar.lzma", "a.tar.Z"})
    EXPECT_TRUE(IsTarName(name));
  for (const std::string_view name : {"a.tar.shardidx", "tar", "a.gz", "a.tar.7z"}) EXPECT_FALSE(IsTarName(name));
}

TEST(WebDatasetNames, EscapedKeysComeBack) {
  EXPECT_EQ(EscapeWebDatasetKey("cat.x/a.v2%.JPEG"), "cat.x/a%2Ev2%25%2EJPEG");
  EXPECT_EQ(EscapeWebDatasetKey("plain"), "plain");
  for (const std::string key : {"a.b/c.d", "%2E", "%252E.", "d.%/", ".hidden", "", "/", "%", "a%2"}) {
    EXPECT_EQ(UnescapeWebDatasetKey(EscapeWebDatasetKey(key)), key);
    EXPECT_EQ(EscapeWebDatasetKey(key).find('.', key.rfind('/') + 1), std::string::npos) << key;
  }
  EXPECT_EQ(UnescapeWebDatasetKey("a%2eb%2"), "a%2eb%2");
}

TEST(WebDatasetNames, NamesThatCannotBeUnpackedAreRefused) {
  for (const char* const name : {"a", "a/b", "a/..b", "...", "a/.x"}) EXPECT_TRUE(CheckMemberName(name).ok()) << name;
  for (const char* const name : {"", "/a", "../a", "a/../b", "a/..", "a//b", "a/./b", "a/"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckMemberName(name))) << name;
  }
}

}  // namespace
}  // namespace shardkit::foreign
