#include "operations/sources/source_names.h"

#include "unit/operations/pack/convert_support.h"

namespace shardkit::operations {
namespace {

struct Rule {
  const char* path;
  const char* key;
  const char* column;
};

TEST(SourceNamesTest, DividesAtTheFirstDotOfTheBaseName) {
  const Rule rules[] = {
      {"a.jpg", "a", "jpg"},
      {"a/b.jpg", "a/b", "jpg"},
      {"a.b/c.jpg", "a.b/c", "jpg"},
      {"a/b.seg.png", "a/b", "seg.png"},
      {"a.JPG", "a", "JPG"},
      {"README", "README", "/"},
      {"a.", "a", "/."},
      {"a.key", "a", "/key"},
      {"a.key.txt", "a", "key.txt"},
      {".x", "", "x"},
      {"d/.x", "d/", "x"},
      {".", "", "/."},
      {"a..b", "a", ".b"},
  };
  for (const Rule& rule : rules) {
    const std::string_view path = rule.path;
    const NameParts parts = DivideName(BasePart(path), NameSplit::kFirstDot);
    const std::string key = std::string(DirectoryPart(path)) + std::string(parts.stem);
    EXPECT_EQ(key, rule.key) << path;
    EXPECT_EQ(ColumnOfName(parts), rule.column) << path;
    EXPECT_EQ(key + SuffixOfColumn(ColumnOfName(parts)), path);
  }
}

TEST(SourceNamesTest, DividesAtTheLastDotOrNowhere) {
  EXPECT_EQ(DivideName("sa_1.excerpt.json", NameSplit::kLastDot).stem, "sa_1.excerpt");
  EXPECT_EQ(DivideName("sa_1.excerpt.json", NameSplit::kLastDot).rest, "json");
  EXPECT_EQ(DivideName("a.b", NameSplit::kNever).stem, "a.b");
  EXPECT_FALSE(DivideName("a.b", NameSplit::kNever).has_dot);
}

TEST(SourceNamesTest, RefusesColumnNamesTheFormatCannotHold) {
  EXPECT_TRUE(CheckExtension(std::string(255, 'x')).ok());
  EXPECT_FALSE(CheckExtension(std::string(256, 'x')).ok());
  EXPECT_FALSE(CheckExtension("\xff").ok());
  EXPECT_FALSE(CheckKey("\xff").ok());
}

}  // namespace
}  // namespace shardkit::operations
