#include "shardkit/manifest.h"

#include <malloc.h>

#include <functional>

#include "base/hash.h"
#include "base/strings.h"
#include "dataset/dataset_support.h"

namespace shardkit::test {
namespace {

Manifest MakeManifest() {
  Manifest manifest;
  Column array = {.name = "a\"rray", .type = Type::kNdarray, .nullable = true, .dtype = Type::kF32};
  Column shaped = {.name = "shaped", .type = Type::kNdarray, .dtype = Type::kU8};
  shaped.shape = {2, 3};
  Column point = {.name = "point", .type = Type::kNdarray, .dtype = Type::kU8};
  point.shape.emplace();
  const Column later{.name = "later",
                     .type = Type{77},
                     .codec = Codec{9},
                     .dtype = Type{300},
                     .shape = {{2, uint64_t{1} << 63}},
                     .storage = Storage::kFixed,
                     .value_size = 7,
                     .metadata = {{"unit", "m"}, {"\xe2\x82\xac", "line\nbreak"}}};
  const Column inside{.name = "inside", .type = Type{78}, .codec = Codec{9}, .storage = Storage::kInline};
  manifest.schema = MakeSchema({KeyColumn(), ImageColumn(), array, shaped, point, later, inside});
  manifest.metadata = {{"a", "1"}, {"\xe2\x82\xac", "line\nbreak"}};
  for (uint8_t i = 0; i < 3; ++i) {
    ManifestShard shard{"dir/" + std::to_string(i) + ".shard", 1000u + i, 10, 2, {}};
    shard.content_hash.fill(static_cast<uint8_t>(i * 17));
    if (i == 2) shard.sha256.emplace().fill(0xab);
    manifest.AddShard(shard);
  }
  manifest.generation = 6;
  manifest.BeginGeneration(
      {.name = "columns", .arguments = {{"add", {"a", "\xe2\x82\xac"}}, {"drop", {}}, {"rename", {"b", "c"}}}});
  manifest.segments = {
      {.shards = 2, .samples = 20, .blocks = 4, .table = {"dataset.segment", 1000, 200, 0x123456789abcdef}},
      {.shards = 1, .samples = 10, .blocks = 2, .table = {"dataset-7.segment", 100, 100, 0xfedcba9876543210}}};
  return manifest;
}

// Of the columns above one renamed, one dropped, one added in two files, and one in the place of another.
Manifest MakeChanged() {
  Manifest manifest = MakeManifest();
  const auto& stored = manifest.schema.columns();
  Column picture = stored[1];
  picture.name = "picture";
  picture.metadata = {{"classes", "cat,dog"}};
  Column score{.name = "score", .type = Type::kF32, .nullable = true};
  score.SetCodec(Codec::kZstd);
  Column shaped = stored[3];
  shaped.nullable = true;
  const std::string dropped = stored[2].name;
  manifest.schema = MakeSchema({stored[0], picture, score, shaped});
  manifest.stored_names = {{"picture", "image"}, {"shaped", "shaped@5"}};
  manifest.dropped = {dropped, "shaped"};
  std::ranges::sort(manifest.dropped);
  manifest.column_files = {{{"dataset-3.columns", 100, 11, 2, {3}, {}}, {"score"}, {{0, 5, 0}, {6, 4, 6}}},
                           {{"dataset-5.columns", 200, 20, 4, {5}, Sha256{6}}, {"score", "shaped@5"}, {{10, 20, 0}}}};
  manifest.removed = RemovedSamples{3, {"dataset-6.removed", 100, 96, 7}};
  return manifest;
}

// Replaces a piece of the text and repairs the checksum, so that the checks behind it are reached.
std::string Edited(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  if (at != text.npos) text.replace(at, from.size(), to);
  constexpr std::string_view kKey = "  \"checksum\": \"";
  const size_t line = text.rfind(kKey);
  if (line == text.npos) return text;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(Hash64(std::string_view(text).substr(0, line))));
  return text.replace(line + kKey.size(), 16, digits);
}

TEST(ManifestTest, RoundTrip) {
  const Manifest manifest = MakeManifest();
  const std::string text = FormatManifest(manifest);
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->schema.columns(), manifest.schema.columns());
  EXPECT_EQ(parsed->metadata, manifest.metadata);
  EXPECT_EQ(parsed->shards, manifest.shards);
  EXPECT_EQ(parsed->segments, manifest.segments);
  EXPECT_EQ(parsed->generation, 7u);
  EXPECT_EQ(parsed->sample_count, 30u);
  EXPECT_EQ(parsed->bytes, 3003u);
  EXPECT_EQ(parsed->block_count, 6u);
  EXPECT_EQ(parsed->dataset_hash(), manifest.dataset_hash());
  EXPECT_EQ(FormatManifest(*parsed), text);
  Manifest swapped = manifest;
  std::swap(swapped.shards[0], swapped.shards[1]);
  EXPECT_NE(swapped.dataset_hash(), manifest.dataset_hash());  // the order matters

  const auto empty = ParseManifest(FormatManifest(Manifest{{.schema = MakeSchema({KeyColumn()})}, {}}));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->sample_count, 0u);
  EXPECT_EQ(empty->generation, 1u);
  Manifest without = manifest;
  without.segments.clear();
  EXPECT_TRUE(absl::IsDataLoss(ParseManifest(FormatManifest(without)).status()));
}

TEST(ManifestTest, RoundTripOfChangedColumnsAndRemovedSamples) {
  const Manifest manifest = MakeChanged();
  const std::string text = FormatManifest(manifest);
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->schema, manifest.schema);
  EXPECT_EQ(parsed->stored_names, manifest.stored_names);
  EXPECT_EQ(parsed->dropped, manifest.dropped);
  EXPECT_EQ(parsed->column_files, manifest.column_files);
  EXPECT_EQ(parsed->removed, manifest.removed);
  EXPECT_EQ(parsed->StoredSchema()[1].name, "image");
  EXPECT_EQ(parsed->sample_count, 30u);
  EXPECT_EQ(parsed->seen_samples(), 27u);
  EXPECT_EQ(FormatManifest(*parsed), text);
}

TEST(ManifestTest, ChangedColumnsThatCannotBeAreDataLoss) {
  const std::string text = FormatManifest(MakeChanged());
  const std::pair<std::string_view, std::string_view> edits[] = {
      {"\"removed\": {\"samples\": 3", "\"removed\": {\"samples\": 0"},
      {"\"removed\": {\"samples\": 3", "\"removed\": {\"samples\": 31"},
      {"dataset-6.removed", "../removed"},
      {"dataset-6.removed", "dataset.segment"},
      {"\"stored\": \"image\"", "\"stored\": \"picture\""},
      {"\"stored\": \"image\"", "\"stored\": \"score\""},
      {"\"stored\": \"image\"", "\"stored\": \"shaped\""},
      {"\"stored\": \"image\"", "\"stored\": \"\""},
      {"\"stored\": \"image\"", "\"stored\": \"im\\nage\""},
      {", \"shaped\"]", ", \"shaped\", \"shaped\"]"},
      {", \"shaped\"]", ", \"\"]"},
      {", \"shaped\"]", ", \"score\"]"},
      {"\"name\": \"dataset-3.columns\"", "\"name\": \"dataset-5.columns\""},
      {"\"name\": \"dataset-3.columns\"", "\"name\": \"dataset.segment\""},
      {"\"name\": \"dataset-3.columns\"", "\"name\": \"/columns\""},
      {"\"columns\": [\"score\"]", "\"columns\": []"},
      {"\"columns\": [\"score\"]", "\"columns\": [\"score\", \"score\"]"},
      {"\"columns\": [\"score\"]", "\"columns\": [\"other\"]"},
      {"\"columns\": [\"score\"]", "\"columns\": [\"picture\"]"},
      {"\"columns\": [\"score\"]", "\"columns\": [\"key\"]"},
      {"\"columns\": [\"score\"]", "\"others\": [\"score\"]"},
      {"{\"sample\": 6, \"samples\": 4, \"begin\": 6}", "{\"sample\": 4, \"samples\": 4, \"begin\": 6}"},
      {"{\"sample\": 6, \"samples\": 4, \"begin\": 6}", "{\"sample\": 6, \"samples\": 5, \"begin\": 6}"},
      {"{\"sample\": 6, \"samples\": 4, \"begin\": 6}", "{\"sample\": 6, \"samples\": 4, \"begin\": 8}"},
      {"{\"sample\": 6, \"samples\": 4, \"begin\": 6}", "{\"sample\": 6, \"samples\": 0, \"begin\": 6}"},
      {"{\"sample\": 6, \"samples\": 4, \"begin\": 6}", "{\"sample\": 6, \"samples\": 4}"},
      {"{\"sample\": 10, \"samples\": 20", "{\"sample\": 11, \"samples\": 20"},
      {"{\"sample\": 10, \"samples\": 20", "{\"sample\": 9, \"samples\": 20"},
      {"{\"sample\": 10, \"samples\": 20", "{\"sample\": 4611686018427387904, \"samples\": 20"},
      {"\"runs\": [{\"sample\": 10, \"samples\": 20, \"begin\": 0}]", "\"runs\": []"},
      {"\"name\": \"picture\"", "\"name\": \"score\""},
  };
  for (const auto& [from, to] : edits) {
    const auto parsed = ParseManifest(Edited(text, from, to));
    EXPECT_TRUE(absl::IsDataLoss(parsed.status())) << from << " -> " << to << ": " << parsed.status();
  }
}

TEST(ManifestTest, EveryChangedOrMissingByteIsNoticed) {
  const std::string text = FormatManifest(MakeManifest());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    EXPECT_FALSE(ParseManifest(damaged).ok()) << i;
    EXPECT_FALSE(ParseManifest(std::string_view(text).substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(ParseManifest(text + " ").ok());
  EXPECT_FALSE(ParseManifest(text + text).ok());
}

TEST(ManifestTest, MalformedOnesAreDataLoss) {
  const std::string text = FormatManifest(MakeManifest());
  const std::pair<std::string_view, std::string_view> edits[] = {
      {"shardkit-dataset", "other"},
      {"\"format\": \"shardkit-dataset\",", ""},
      {"\"format\": \"shardkit-dataset\"", "\"format\": 1"},
      {"\"samples\": 30", "\"samples\": 31"},
      {"\"samples\": 30", "\"samples\": -30"},
      {"\"samples\": 30", "\"samples\": 30.5"},
      {"\"samples\": 30", "\"samples\": \"30\""},
      {"\"samples\": 30,", ""},
      {"\"bytes\": 3003", "\"bytes\": 3004"},
      {"\"blocks\": 6", "\"blocks\": 7"},
      {"\"bytes\": 1000", "\"bytes\": 99999999999999999999999"},
      {"dir/0.shard", "../0.shard"},
      {"dir/0.shard", "/0.shard"},
      {"dir/0.shard", "dir//0.shard"},
      {"dir/0.shard", "dir/./0.shard"},
      {"dir/0.shard", "dir/.."},
      {"dir/0.shard", "dir/"},
      {"dir/0.shard", ""},
      {"dir/0.shard", "a\\u0000b"},
      {"\"type\": \"jpeg\"", "\"type\": 4"},
      {"\"type\": \"jpeg\", ", ""},
      {"\"nullable\": false, ", ""},
      {"\"shape\": [2, 3]", "\"form\": [2, 3]"},
      {"\"blocks\": 2, \"content_hash\"", "\"content_hash\""},
      {"\"dtype\": \"f32\"", "\"dtype\": \"jpeg\""},
      {"\"shape\": [2, 3]", "\"shape\": [2, -3]"},
      {"\"shape\": [2, 3]", "\"shape\": [1,1,1,1,1,1,1,1,1]"},
      {"\"shape\": [2, 3]", "\"shape\": {}"},
      {"\"nullable\": false, \"key\": true", "\"nullable\": true, \"key\": true"},
      {"\"key\": true", "\"key\": 1"},
      {"\"name\": \"image\"", "\"name\": \"key\""},
      {"\"name\": \"image\"", "\"name\": \"\""},
      {"\"columns\": [", "\"columns\": [[],"},
      {"\"columns\": [", "\"columns\": [{},"},
      {"\n  \"metadata\": {", "\n  \"metadata\": {\"x\": 1,"},
      {"\"shards\": [", "\"shards\": [{},"},
      {"\"shards\": [", "\"shards\": [null,"},
      {"00000000000000000000000000000000", "0000000000000000000000000000000"},
      {"00000000000000000000000000000000", "0000000000000000000000000000000G"},
      {"11111111111111111111111111111111", "1111111111111111111111111111111A"},
      {"11111111111111111111111111111111", "111111111111111111111111111111111"},
      {"\"version\": 1", "\"version\": 1.0"},
      {"\"version\": 1", "\"version\": true"},
      {"\"version\": 1,", ""},
      {"\"features\": [],", ""},
      {"\"features\": []", "\"features\": {}"},
      {"\"features\": []", "\"features\": [1]"},
      {"\"features\": []", "\"features\": [\"b\", \"a\"]"},
      {"\"features\": []", "\"features\": [\"a\", \"a\"]"},
      {"\"features\": []", "\"features\": [\"\u00e9\", \"z\"]"},
      {"\"features\": [],", "\"features\": [], \"features\": [],"},
      {"\"features\": [],", "\"features\": [], \"f\\u0065atures\": [\"x\"],"},
      {"\n  \"metadata\": {", "\n  \"metadata\": {\"a\": \"2\","},
      {"\"name\": \"image\",", "\"name\": \"image\", \"name\": \"picture\","},
      {"\"name\": \"image\",", "\"name\": \"image\", \"new\": 1, \"new\": 1,"},
      {"\"name\": \"dir/1.shard\",", "\"name\": \"dir/1.shard\", \"name\": \"dir/1.shard\","},
      {"\n  \"metadata\": {", "\n  \"more\": {"},
      {", \"metadata\": {", ", \"metadata\": {\"x\": 1, "},
      {", \"metadata\": {", ", \"metadata\": {\"a\\nb\": \"\", "},
      {"\"value_size\": 7", "\"value_size\": -7"},
      {"\"value_size\": 7", "\"value_size\": 1099511627777"},
      {"\"codec_number\": 9", "\"codec_number\": 256"},
      {"\"codec_number\": 9", "\"codec_number\": 1"},
      {"\"codec_number\": 9, ", ""},
      {"\"type_number\": 77", "\"type_number\": 65536"},
      {"\"type_number\": 77", "\"type_number\": 16"},
      {"\"type_number\": 77", "\"type_number\": \"77\""},
      {"\"type\": \"jpeg\", \"type_number\": 4", "\"type\": \"png\", \"type_number\": 4"},
      {"\"type\": \"jpeg\", \"type_number\": 4", "\"type_number\": 4"},
      {"\"dtype_number\": 300", "\"dtype_number\": 65536"},
      {"\"dtype_number\": 300, ", ""},
      {"\"operation\": ", "\"more\": "},
      {"{\"name\": \"columns\", \"arguments\": {", "{\"arguments\": {"},
      {"{\"name\": \"columns\", \"arguments\": {", "{\"name\": 1, \"arguments\": {"},
      {"\"arguments\": {", "\"arguments\": [], \"more\": {"},
      {"\"add\": [\"a\", \"\u20ac\"]", "\"add\": \"a\""},
      {"\"add\": [\"a\", \"\u20ac\"]", "\"add\": [1]"},
      {"\"columns\": [", "\"more\": ["},
      {"\"type_number\": 4,", "\"type_number\": 4, \"dtype\": \"u8\","},
      {"\"type_number\": 4,", "\"type_number\": 4, \"dtype_number\": 20,"},
      {"\"type_number\": 4,", "\"type_number\": 4, \"shape\": null,"},
      {"\"version\": 1", "\"version\": 4611686018427387905"},
      {"\"samples\": 10, \"blocks\": 2, \"content", "\"samples\": 10, \"blocks\": 11, \"content"},
      {"dir/1.shard", "dir/0.shard"},
      {"dir/1.shard", "dataset.segment"},
      {"\"generation\": 7", "\"generation\": 0"},
      {"\"generation\": 7", "\"generation\": 4611686018427387905"},
      {"\"generation\": 7,", ""},
      {"\"segments\": [", "\"more\": ["},
      {"\"segments\": [", "\"segments\": [{},"},
      {"{\"shards\": 2,", "{\"shards\": 1,"},
      {"{\"shards\": 2,", "{\"shards\": 0,"},
      {"{\"shards\": 1,", "{\"shards\": 2,"},
      {"{\"shards\": 2, \"samples\": 20", "{\"shards\": 2, \"samples\": 21"},
      {"\"samples\": 20, \"blocks\": 4", "\"samples\": 20, \"blocks\": 5"},
      {"\"samples\": 20, \"blocks\": 4,", "\"samples\": 20,"},
      {"{\"shards\": 2,", "{\"shards\": 2, \"shards\": 2,"},
      {"\"table\": {\"name\": \"dataset.segment\"", "\"index\": {\"name\": \"dataset.segment\""},
      {"\"name\": \"dataset.segment\"", "\"name\": \"../dataset.segment\""},
      {"\"name\": \"dataset-7.segment\"", "\"name\": \"dataset.segment\""},
      {"\"name\": \"dataset.segment\", ", ""},
      {"\"root\": 200", "\"root\": 1001"},
      {"\"root\": 200", "\"root\": 63"},
      {"\"root\": 200, ", ""},
      {"0123456789abcdef", "0123456789abcdeF"},
      {"0123456789abcdef", "0123456789abcde"},
      {"\"root\": 200, \"checksum\": \"0123456789abcdef\"", "\"root\": 200"},
      {"\"samples\": 10", "\"samples\": 4611686018427387905"},
      {"  ],\n  \"checksum\"", "  \n  \"checksum\""},
      {"\"checksum\"", "\"sum\""},
  };
  for (const auto& [from, to] : edits) {
    const auto parsed = ParseManifest(Edited(text, from, to));
    EXPECT_TRUE(absl::IsDataLoss(parsed.status())) << from << " -> " << to << ": " << parsed.status();
  }
  for (const std::string_view other :
       {"", "{}", "[]", "null", "{", "\"\"", "\xff", "{\"format\": \"shardkit-dataset\"}"}) {
    EXPECT_FALSE(ParseManifest(other).ok()) << other;
  }
  EXPECT_FALSE(ParseManifest(std::string(100000, '[')).ok());
  EXPECT_FALSE(ParseManifest(std::string(1000, '\0')).ok());
}

TEST(ManifestTest, TheSha256OfAShardIsListedWhereItIsKnown) {
  const std::string text = FormatManifest(MakeManifest());
  std::string digits;
  for (int i = 0; i < 32; ++i) digits += "ab";
  const std::string listed = ", \"sha256\": \"" + digits + "\"}";
  EXPECT_EQ(text.find("sha256"), text.find(listed) + 3);
  EXPECT_EQ(text.find("sha256"), text.rfind("sha256"));
  for (const std::string& wrong : {digits.substr(1), digits + "0", "A" + digits.substr(1), std::string()}) {
    const auto parsed = ParseManifest(Edited(text, digits, wrong));
    EXPECT_TRUE(absl::IsDataLoss(parsed.status())) << parsed.status();
    EXPECT_NE(Message(parsed.status()).find("shards[2].sha256: is not 64 "), std::string::npos) << parsed.status();
  }
  EXPECT_TRUE(absl::IsDataLoss(ParseManifest(Edited(text, "\"" + digits + "\"", "null")).status()));
}

TEST(ManifestTest, ALaterVersionIsSaidToBeOne) {
  const std::string text = FormatManifest(MakeManifest());
  for (const std::string_view version : {"2", "0", "4611686018427387904"}) {
    const auto parsed = ParseManifest(Edited(text, "\"version\": 1", StrCat("\"version\": ", version)));
    EXPECT_TRUE(absl::IsUnimplemented(parsed.status())) << parsed.status();
  }
  // The checksum comes first: a version that it does not cover is damage.
  std::string damaged = text;
  damaged[damaged.find("\"version\": 1") + 11] = '2';
  EXPECT_TRUE(absl::IsDataLoss(ParseManifest(damaged).status()));
}

// What counts of a type, dtype or codec is its number. A name that a later version has for it is ignored.
TEST(ManifestTest, UnknownNumbersMayHaveNames) {
  const std::string text = FormatManifest(MakeManifest());
  for (const std::string key : {"type", "dtype", "codec"}) {
    const std::string number = StrCat("\"", key, "_number\": ", key == "type" ? "77" : key == "dtype" ? "300" : "9");
    for (const std::string_view name : {"gif", "utf8", "zstd"}) {
      const auto parsed = ParseManifest(Edited(text, number, StrCat("\"", key, "\": \"", name, "\", ", number)));
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(FormatManifest(*parsed), text);
    }
  }
}

TEST(ManifestTest, TheOperationComesBack) {
  Manifest manifest = MakeManifest();
  const std::string line =
      "\n  \"operation\": {\"name\": \"columns\", \"arguments\": {\"add\": [\"a\", \"\xe2\x82\xac\"], \"rename\": "
      "[\"b\", \"c\"]}},\n";
  EXPECT_NE(FormatManifest(manifest).find(line), std::string::npos) << FormatManifest(manifest);
  manifest.operation = {.name = "of others", .arguments = {{"", {}}, {"x", {""}}}};
  const auto parsed = ParseManifest(FormatManifest(manifest));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->operation, manifest.operation);
}

TEST(ManifestTest, AnUnknownFeatureIsNamedBeforeTheRestIsLookedAt) {
  const std::string text = FormatManifest(MakeManifest());
  const auto refused = [](const std::string& edited) {
    const absl::Status status = ParseManifest(edited).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    return Message(status);
  };
  const std::string unknown = Edited(text, "\"features\": []", "\"features\": [\"a\\nb\", \"remapped\"]");
  EXPECT_NE(refused(unknown).find("manifest: feature \"a\\nb\" is not known"), std::string::npos);
  // Neither the columns nor the shards are what this version knows.
  const std::string later =
      Edited(Edited(unknown, "\"columns\": [", "\"columns\": [7,"), "\"shards\": [", "\"shards\": [7,");
  EXPECT_EQ(refused(later), refused(unknown));
  // Also where it stands after them.
  const std::string features = "  \"features\": [\"a\\nb\", \"remapped\"],\n";
  EXPECT_EQ(refused(Edited(Edited(later, features, ""), "  \"checksum\"", features + "  \"checksum\"")),
            refused(unknown));
  // A version is more than a feature.
  EXPECT_NE(refused(Edited(unknown, "\"version\": 1", "\"version\": 2")).find("version 2"), std::string::npos);
}

TEST(ManifestTest, TheOrderOfKeysDoesNotMatter) {
  const Manifest manifest = MakeManifest();
  const std::string text = FormatManifest(manifest);
  const auto move_last = [](const std::string& from, const std::string& line) {
    return Edited(Edited(from, line, ""), "  \"checksum\"", line + "  \"checksum\"");
  };
  std::string moved = move_last(text, "  \"version\": 1,\n");
  moved = move_last(moved, "  \"samples\": 30,\n");
  moved = move_last(moved, "  \"features\": [],\n");
  moved = move_last(moved, "  \"format\": \"shardkit-dataset\",\n");
  moved = Edited(moved, "\"bytes\"", "\"later\": {\"x\": 1, \"x\": [{}]}, \"bytes\"");
  const auto parsed = ParseManifest(moved);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(FormatManifest(*parsed), text);
}

TEST(ManifestTest, ReadNamesTheFile) {
  auto files = NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  EXPECT_TRUE(absl::IsNotFound(ReadManifest(*files, "/d").status()));
  WriteFile(*files, "/d/dataset.json", "{}");
  const absl::Status status = ReadManifest(*files, "/d").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(Message(status).rfind("/d/dataset.json: ", 0), 0u) << status;
}

// Memory is proportional to the number of shards: a few hundred bytes for each.
}  // namespace
}  // namespace shardkit::test
