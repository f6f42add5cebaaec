// What is no predicate is refused before any value is read, with the place in the text.
#include "unit/dataset/select/select_support.h"

namespace shardkit::test {
namespace {

std::string Parsed(const std::string& text) {
  const Schema schema = SelectSchema();
  const auto predicate = Predicate::Parse(text, schema.columns());
  if (predicate.ok()) {
    std::string columns;
    for (const std::string& name : predicate->columns()) columns += (columns.empty() ? "" : ",") + name;
    return columns;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(predicate.status())) << predicate.status();
  return Message(predicate.status());
}

TEST(PredicateParseTest, NamesTheColumnsItNeeds) {
  EXPECT_EQ(Parsed("u > 1 and i < u or len(m) = 1"), "u,i,m");
  EXPECT_EQ(Parsed("mean(a)<max(d)"), "a,d");
}

TEST(PredicateParseTest, SaysWhere) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "predicate: at its end, character 1: a value is expected here"},
      {"u >", "predicate: at its end, character 4: a value is expected here"},
      {"u > 1 i < 2",
       "predicate: at character 7, `i`: the condition before it is complete; join two with \"and\" or \"or\""},
      {"u", "predicate: at character 1, `u`: a predicate is a condition, not column \"u\" of type u64"},
      {"u > 1 and t", "predicate: at character 11, `t`: \"and\" joins conditions, not column \"t\" of type utf8"},
      {"t = 1", "predicate: at character 3, `=`: column \"t\" of type utf8 cannot be compared with a number"},
      {"u = 'a'", "predicate: at character 3, `=`: column \"u\" of type u64 cannot be compared with text"},
      {"u > 'a'", "predicate: at character 3, `>`: column \"u\" of type u64 cannot be compared with text"},
      {"a > 1",
       "predicate: at character 1, `a`: a predicate is a condition, not a condition on each element of an array: "
       "write any(…) or all(…)"},
      {"m = 1",
       "predicate: at character 3, `=`: column \"m\" of type rle, which only len() and \"is null\" take, cannot be "
       "compared with a number"},
      {"b < true", "predicate: at character 3, `<`: conditions have no order"},
      {"u = null", "predicate: at character 5, `null`: no value is compared with null; write \"is null\""},
      {"1 < u < 3", "predicate: at character 7, `<`: a comparison is not compared; join two with \"and\""},
      {"u in ()", "predicate: at character 7, `)`: a value is expected here"},
      {"u in (1, i)",
       "predicate: at character 10, `i`: a list holds numbers or texts as they are, nothing that is "
       "computed"},
      {"u in (1, 'a')", "predicate: at character 10, `'a'`: the list is compared with a number, not text"},
      {"t ~ u", "predicate: at character 5, `u`: text in quotes is expected here"},
      {"u ~ 'a'", "predicate: at character 1, `u`: \"~\" takes text, not column \"u\" of type u64"},
      {"t = 'abc", "predicate: at character 5, `'abc`: the closing quote is missing"},
      {"t = '\xc3\xa9\xc3\xa9' ; u", "predicate: at character 10, `;`: has no meaning here; text is written in quotes"},
      {"median(a) > 1",
       "predicate: at character 1, `median`: is no function; there are len, count, min, max, mean, sum, any, all, "
       "starts_with"},
      {"max(u) > 1", "predicate: at character 5, `u`: max takes an array of numbers, not column \"u\" of type u64"},
      {"count(m) > 1",
       "predicate: at character 7, `m`: count takes a column of arrays, not column \"m\" of type rle, which only len() "
       "and \"is null\" take"},
      {"any(u > 1)",
       "predicate: at character 5, `u`: any takes a condition on each element, as any(scores > 0.5), not a condition"},
      {"len(u) > 1",
       "predicate: at character 5, `u`: len takes a column of byte strings, arrays or masks, not column \"u\" of type "
       "u64"},
      {"u > 1x", "predicate: at character 5, `1`: a number ends in other characters"},
      {"u > 18446744073709551616",
       "predicate: at character 5, `18446744073709551616`: is above the largest integer of a column, "
       "18446744073709551615; as a floating-point number it ends in .0"},
      {"u > 1e999",
       "predicate: at character 5, `1e999`: is no number that a 64-bit floating-point number can be close "
       "to"},
      {"1 = 1", "predicate: at character 1, `1`: names no column, so that it says nothing about samples"},
      {"-t = 1", "predicate: at character 2, `t`: \"-\" takes a number, not column \"t\" of type utf8"},
      {"not u", "predicate: at character 5, `u`: \"not\" takes a condition, not column \"u\" of type u64"},
      {"u + t > 1", "predicate: at character 5, `t`: \"+\" takes numbers, not column \"t\" of type utf8"},
      {"u > 1 and not", "predicate: at its end, character 14: a value is expected here"},
      {"and > 1", "predicate: at character 1, `and`: a value is expected here"},
      {"u > \xff", "predicate: is not valid UTF-8"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(Parsed(text), message) << text;
  EXPECT_NE(Parsed("nix > 1").find("at character 1, `nix`: there is no column \"nix\"; there are: key, i, u"),
            std::string::npos);
}

TEST(PredicateParseTest, HasLimits) {
  const auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), '(') + "u > 1" + std::string(static_cast<size_t>(levels), ')');
  };
  EXPECT_EQ(Parsed(nested(90)), "u");
  EXPECT_NE(Parsed(nested(101)).find("more than 100 levels are nested here"), std::string::npos);
  for (const std::string part : {"not ", "-", "(", "len(", "u + "}) {
    std::string text;
    for (int i = 0; i < 10000; ++i) text += part;
    EXPECT_NE(Parsed(text + "u").find("more than 100 levels"), std::string::npos) << part;
  }
  // What is joined is not nested.
  std::string many = "u = 0";
  for (int i = 0; i < 5000; ++i) many += " or u = 1";
  EXPECT_EQ(Parsed(many), "u");
  EXPECT_NE(Parsed("t = '" + std::string(70000, 'x') + "'").find("more than the limit of 65536"), std::string::npos);
}

}  // namespace
}  // namespace shardkit::test
