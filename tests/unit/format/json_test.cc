// Reading JSON by tables of fields, and trees of any JSON.
#include "base/json.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "base/strings.h"

namespace shardkit::test {
namespace {

std::string Message(const absl::Status& status) { return std::string(ToStd(status.message())); }

struct Part {
  std::string name;
  uint64_t count = 0;
  std::optional<uint64_t> extra;
};

absl::Status ReadPart(JsonReader& json, Part* part) {
  return json.Object({{"name", &part->name},
                      {"count", &part->count, JsonField::kRequired, 100},
                      {"extra", &part->extra, JsonField::kOptional}});
}

struct Whole {
  bool flag = false;
  uint32_t small = 0;
  std::array<uint8_t, 2> bytes{};
  std::vector<std::string> texts;
  std::string nullable = "as before";
  std::vector<Part> parts;
};

absl::Status ReadWhole(std::string_view text, Whole* whole, JsonKeys keys = JsonKeys::kOnce, bool all = true) {
  return ReadJson(text, all, [&](JsonReader& json) {
    return json.Object({{"flag", &whole->flag},
                        {"small", &whole->small},
                        {"bytes", whole->bytes},
                        {"texts", &whole->texts},
                        {"nullable", &whole->nullable, JsonField::kOrNull},
                        {"parts", JsonInto(&whole->parts, &ReadPart)}},
                       keys);
  });
}

std::string Sound() {
  return R"({"flag": true, "small": 7, "bytes": "00ff", "texts": ["a", "\u00e9"], "nullable": null,)"
         R"( "parts": [{"name": "x", "count": 0}, {"count": 100, "extra": 5, "name": "y"}]})";
}

std::string Edited(std::string_view from, std::string_view to) {
  std::string text = Sound();
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

void ExpectRefused(std::string_view from, std::string_view to, const std::string& message) {
  Whole whole;
  const absl::Status status = ReadWhole(Edited(from, to), &whole);
  EXPECT_TRUE(absl::IsDataLoss(status)) << from << " -> " << to << ": " << status;
  EXPECT_EQ(Message(status), message) << from << " -> " << to;
}

TEST(JsonReader, FieldsInAnyOrderGoToTheirPlaces) {
  Whole whole;
  ASSERT_TRUE(ReadWhole(Sound(), &whole).ok());
  EXPECT_TRUE(whole.flag);
  EXPECT_EQ(whole.small, 7u);
  EXPECT_EQ(whole.bytes, (std::array<uint8_t, 2>{0, 255}));
  EXPECT_EQ(whole.texts, (std::vector<std::string>{"a", "\u00e9"}));
  EXPECT_EQ(whole.nullable, "as before");
  ASSERT_EQ(whole.parts.size(), 2u);
  EXPECT_EQ(whole.parts[1].name, "y");
  EXPECT_EQ(whole.parts[1].count, 100u);
  EXPECT_EQ(whole.parts[1].extra, 5u);
  EXPECT_FALSE(whole.parts[0].extra.has_value());
  Whole other;
  ASSERT_TRUE(ReadWhole(Edited("\"nullable\": null,", "\"new\": {\"a\": [1, {}]}, \"nullable\": \"z\","), &other).ok());
  EXPECT_EQ(other.nullable, "z");
  EXPECT_EQ(other.parts.size(), 2u);
}

TEST(JsonReader, ErrorsNameThePlace) {
  ExpectRefused("\"count\": 100", "\"count\": 101", "parts[1].count: is 101, which is more than 100");
  ExpectRefused("\"count\": 0", "\"count\": -1", "parts[0].count: is no number from 0 on");
  ExpectRefused("\"count\": 0", "\"count\": 0.5", "parts[0].count: is no number from 0 on");
  ExpectRefused("\"extra\": 5", "\"extra\": null", "parts[1].extra: is no number from 0 on");
  ExpectRefused("\"name\": \"x\", ", "", "parts[0]: lacks the key \"name\"");
  ExpectRefused("\"name\": \"x\"", "\"name\": null", "parts[0].name: is no text");
  ExpectRefused("{\"name\": \"x\", \"count\": 0}", "[]", "parts[0]: is no object");
  ExpectRefused("\"small\": 7", "\"small\": 4294967296", "small: is 4294967296, which is more than 4294967295");
  ExpectRefused("true", "1", "flag: is no truth value");
  ExpectRefused("00ff", "00fF", "bytes: is not 4 lower-case hexadecimal digits");
  ExpectRefused("00ff", "00ff0", "bytes: is not 4 lower-case hexadecimal digits");
  ExpectRefused("[\"a\", ", "[null, ", "texts[0]: is no text");
  ExpectRefused("[\"a\", \"\\u00e9\"]", "\"a\"", "texts: is no list");
  ExpectRefused("\"flag\": true, ", "", "lacks the key \"flag\"");
}

TEST(JsonReader, DuplicateKeys) {
  const std::string twice = Edited("\"small\": 7", "\"small\": 7, \"sm\\u0061ll\": 8");
  const std::string unknown = Edited("\"small\": 7", "\"small\": 7, \"new\": 1, \"new\": 1");
  Whole once, first;
  EXPECT_EQ(Message(ReadWhole(twice, &once)), "has the key \"small\" twice");
  EXPECT_EQ(Message(ReadWhole(unknown, &once)), "has the key \"new\" twice");
  ASSERT_TRUE(ReadWhole(twice, &first, JsonKeys::kFirst).ok());
  EXPECT_EQ(first.small, 7u);
  EXPECT_EQ(first.parts.size(), 2u);
}

TEST(JsonReader, TheWholeTextIsJson) {
  Whole whole;
  for (const std::string& text : {Sound() + "x", Sound() + "{}", Edited("7", "7, \"new\": tru"), std::string(),
                                  Edited("7", "7, \"new\": \"\\ud800\""), Edited("7", "7, \"new\": 1e999")}) {
    EXPECT_FALSE(ReadWhole(text, &whole).ok()) << text;
  }
  // What no field asks for need not be JSON, but nothing follows the end.
  EXPECT_TRUE(ReadWhole(Edited("7", "7, \"new\": tru"), &whole, JsonKeys::kOnce, /*all=*/false).ok());
  EXPECT_FALSE(ReadWhole(Sound() + "{}", &whole, JsonKeys::kOnce, /*all=*/false).ok());
  for (size_t length = 0; length < Sound().size(); ++length) {
    for (const bool all : {true, false}) {
      EXPECT_FALSE(ReadWhole(Sound().substr(0, length), &whole, JsonKeys::kOnce, all).ok()) << length;
    }
  }
}

// Reading ends at the last field that is wanted, also within objects; what follows them is read all the same.
TEST(JsonReader, FirstKeysEndEarly) {
  std::vector<uint64_t> numbers;
  std::string last;
  const auto read_a = [](JsonReader& json, uint64_t* number) { return json.Object({{"a", number}}, JsonKeys::kFirst); };
  const absl::Status status =
      ReadJson(R"([{"list": [{"a": 1, "b": [{}, {"c": 2}]}, {"b": 3, "a": 4, "a": 5}], "z": [1]}])",
               /*all=*/false, [&](JsonReader& json) {
                 return json.List([&](JsonReader& object) {
                   return object.Object({{"list", JsonInto(&numbers, read_a)}}, JsonKeys::kFirst);
                 });
               });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 4}));
}

TEST(JsonReader, TheWholeIsReadAgain) {
  std::string version;
  Whole whole;
  const absl::Status status = ReadJson(Sound(), /*all=*/false, [&](JsonReader& json) -> absl::Status {
    bool flag = false;
    if (absl::Status early = json.Object({{"flag", &flag}}, JsonKeys::kFirst); !early.ok()) return early;
    if (absl::Status early = json.Object({{"parts", JsonInto(&whole.parts, &ReadPart)}}, JsonKeys::kFirst);
        !early.ok()) {
      return early;
    }
    return json.Object({{"flag", &whole.flag}, {"small", &whole.small}});
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(whole.flag);
  EXPECT_EQ(whole.parts.size(), 2u);
  EXPECT_EQ(whole.small, 7u);
}

TEST(JsonReader, MembersOfAnyName) {
  const auto read = [](std::string_view text, std::vector<std::pair<std::string, int64_t>>* members) {
    members->clear();
    return ReadJson(text, /*all=*/true, [&](JsonReader& json) {
      return json.Members([&](std::string_view name, JsonReader& value) {
        return value.Read(&members->emplace_back(name, int64_t{}).second);
      });
    });
  };
  std::vector<std::pair<std::string, int64_t>> members;
  ASSERT_TRUE(read(R"({"b": -5, "a": 9223372036854775807})", &members).ok());
  EXPECT_EQ(members, (std::vector<std::pair<std::string, int64_t>>{{"b", -5}, {"a", INT64_MAX}}));
  EXPECT_EQ(Message(read(R"({"b": 1, "a": 2, "b": 3})", &members)), "has the key \"b\" twice");
  EXPECT_EQ(Message(read(R"({"b": 1.5})", &members)), "b: is no integer of 64 bits");
}

TEST(JsonTree, ValuesOfEveryKind) {
  JsonTree tree;
  const auto root = tree.Parse(R"([null, true, -3, 18446744073709551615, 2.5, "t", [1, 2], {"a": 1, "b": 2}])");
  ASSERT_TRUE(root.ok()) << root.status();
  std::vector<JsonElement> elements;
  ASSERT_TRUE(root->ForEach([&](JsonElement element) { return elements.push_back(element), true; }));
  ASSERT_EQ(elements.size(), 8u);
  const JsonKind kinds[] = {JsonKind::kNull,     JsonKind::kBool, JsonKind::kInteger, JsonKind::kLargeInteger,
                            JsonKind::kFraction, JsonKind::kText, JsonKind::kList,    JsonKind::kObject};
  for (size_t i = 0; i < elements.size(); ++i) EXPECT_EQ(elements[i].kind(), kinds[i]) << i;
  bool truth = false;
  int64_t number = 0;
  uint64_t large = 0;
  double fraction = 0;
  std::string_view text;
  EXPECT_TRUE(elements[1].Get(&truth) && truth);
  EXPECT_TRUE(elements[2].Get(&number) && number == -3);
  EXPECT_FALSE(elements[2].Get(&large));
  EXPECT_TRUE(elements[2].Get(&fraction) && fraction == -3);
  EXPECT_TRUE(elements[3].Get(&large) && large == UINT64_MAX);
  EXPECT_FALSE(elements[3].Get(&number));
  EXPECT_TRUE(elements[4].Get(&fraction) && fraction == 2.5);
  EXPECT_FALSE(elements[4].Get(&number));
  EXPECT_TRUE(elements[5].Get(&text) && text == "t");
  int seen = 0;
  EXPECT_TRUE(elements[6].ForEach([&](JsonElement) { return ++seen < 1; }));
  EXPECT_TRUE(elements[7].ForEachMember([&](std::string_view name, JsonElement) { return ++seen, name != "a"; }));
  EXPECT_EQ(seen, 2);
  EXPECT_FALSE(elements[6].ForEachMember([](std::string_view, JsonElement) { return true; }));
  EXPECT_FALSE(elements[7].ForEach([](JsonElement) { return true; }));
  EXPECT_EQ(elements[7].Format(), R"({"a":1,"b":2})");
}

TEST(JsonTree, DepthIsBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  JsonTree tree(8);
  EXPECT_TRUE(tree.Parse(nested(7)).ok());
  EXPECT_TRUE(absl::IsDataLoss(tree.Parse(nested(9)).status()));
  EXPECT_TRUE(absl::IsDataLoss(tree.Parse(nested(1000)).status()));
  EXPECT_TRUE(absl::IsDataLoss(JsonTree().Parse("").status()));
}

}  // namespace
}  // namespace shardkit::test
