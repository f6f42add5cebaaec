// Shardkit's own container. A flipped bit or a missing byte in a shard, a manifest or an offset index always gives an
// error with its place. All other values read are the original's.
#include <algorithm>

#include "base/named_hash.h"
#include "base/strings.h"
#include "shardkit/rle.h"
#include "unit/container/shard_maker.h"
#include "unit/damage/observe.h"

namespace shardkit::test {
namespace {

constexpr std::string_view kPlaces[] = {"header",     "block",          "trailer",  "section table", "block directory",
                                        "statistics", "key index",      "metadata", "manifest",      "index",
                                        "key table",  "list of shards", "segment"};

bool NamesAPlace(const Problem& problem) {
  return problem.message.starts_with(problem.path) && std::ranges::any_of(kPlaces, [&](std::string_view place) {
           return problem.message.find(place, problem.path.size()) != std::string::npos;
         });
}

void ExpectFound(const Observation& observation, const std::string& file) {
  ExpectNothingElse(observation);
  EXPECT_TRUE(std::ranges::any_of(observation.problems, [&](const Problem& problem) {
    return problem.path == "/data/" + file && NamesAPlace(problem);
  }));
}

Subject MakeShard(std::string name, std::vector<Column> columns, Values rows, ShardOptions options) {
  const auto files = NewMemoryFileSystem();
  options.alignment = 64;
  const auto written = WriteShard(*files, "/s.shard", *Schema::Create(std::move(columns)), rows, options);
  EXPECT_TRUE(written.ok()) << written.status();
  return MakeSubject(std::move(name), {{"s.shard", ReadWhole(*files, "/s.shard")}}, "s.shard", std::move(rows));
}

void ExpectEveryDamageFound(const Subject& subject) {
  for (const auto& entry : subject.files) {
    const std::string& file = entry.first;
    FlipEveryBit(subject, file, [&](uint64_t, const Observation& seen) { ExpectFound(seen, file); });
    CutAtEveryLength(subject, file, [&](uint64_t, const Observation& seen) { ExpectFound(seen, file); });
  }
}

// The second of its two blocks has no blob.
TEST(ShardDamage, WithAKeyAndMetadata) {
  ExpectEveryDamageFound(MakeShard("keyed",
                                   {{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
                                    {.name = "blob", .type = Type::kBytes, .nullable = true}},
                                   {{"a/1", "first value"}, {"a/2", ""}, {"b", std::nullopt}},
                                   {.max_block_samples = 2, .metadata = {{"made", "here"}}}));
}

TEST(ShardDamage, WithoutAKey) {
  std::string masks;
  RleList list;
  list.Append({3, 4, std::vector<uint32_t>{2, 3, 7}});
  ASSERT_TRUE(AppendRleValue(list, &masks).ok());
  ExpectEveryDamageFound(MakeShard("masks and arrays",
                                   {{.name = "masks", .type = Type::kRle, .codec = Codec::kZstd},
                                    {.name = "array",
                                     .type = Type::kNdarray,
                                     .nullable = true,
                                     .dtype = Type::kU8,
                                     .shape = std::vector<uint64_t>{2, 2}}},
                                   {{masks, std::nullopt}, {masks, "abcd"}}, {}));
}

TEST(ShardDamage, WithADictionary) {
  Values rows;
  for (int i = 0; i < 24; ++i) {
    std::string text;
    for (int word = 0; word < 4; ++word) text += StrCat("the same words, number ", (i * 7 + word) % 13, "; ");
    rows.push_back({text});
  }
  const Subject subject = MakeShard("dictionary", {{.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd}}, rows,
                                    {.dictionaries = {{"text", 256}}});
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/", subject.files);
  const auto shard = ShardReader::Open(*files, "/s.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  ASSERT_FALSE((*shard)->dictionary_columns().empty());
  ExpectEveryDamageFound(subject);
}

// Of a dataset: the shards are as above.
TEST(DatasetDamage, OfManifestAndTables) {
  const Column blob{.name = "blob", .type = Type::kBytes, .nullable = true};
  const Column label{.name = "label", .type = Type::kI32, .metadata = {{"unit", "m"}}};
  const std::string number("\1\0\0\0", 4);
  const std::vector<OwnedSample> samples = {{"a", {{&blob, "first value"}, {&label, number}}},
                                            {"b", {{&label, number}}},
                                            {"c", {{&blob, ""}, {&label, number}}}};
  DatasetWriterOptions options = SmallShards(2, 1);
  options.shard.alignment = 64;
  options.shard.metadata = {{"made", "here"}};
  options.sha256 = NamedHash::Create("sha256").ok();  // not without OpenSSL
  const auto files = NewMemoryFileSystem();
  const auto written = WriteDataset(*files, "/d", samples, options);
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_EQ(written->manifest.shards.size(), 2u);
  const auto dataset = DatasetReader::Open(*files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->index_problem(), "");
  Values values(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto row = RowOf(samples[i]);
    for (const Column& column : (*dataset)->columns()) {
      const auto value = row.find(column.name);
      values[i].push_back(value == row.end() ? std::nullopt : std::optional<std::string>(value->second));
    }
  }
  const Subject subject = MakeSubject("dataset", ReadDataset(*files, "/d"), "", std::move(values));
  for (const std::string file : {"dataset.json", "dataset.segment"}) {
    FlipEveryBit(subject, file, [&](uint64_t, const Observation& seen) { ExpectFound(seen, file); });
    CutAtEveryLength(subject, file, [&](uint64_t, const Observation& seen) {
      ExpectNothingElse(seen);
      // The shards contain everything that the segment says, too.
      EXPECT_EQ(seen.error.ok(), file != "dataset.json");
    });
  }

  // Nothing else tells what a list does.
  ListShardsApart(*files, "/d");
  const Subject listed = MakeSubject("dataset", ReadDataset(*files, "/d"), "", subject.values);
  for (const std::string file : {"dataset.json", "dataset.segment"}) {
    FlipEveryBit(listed, file, [&](uint64_t, const Observation& seen) { ExpectFound(seen, file); });
    CutAtEveryLength(listed, file, [&](uint64_t, const Observation& seen) {
      ExpectNothingElse(seen);
      EXPECT_FALSE(seen.error.ok());
    });
  }
}

// No reader uses it; who resumes a job that has ended refuses a dataset of which this is not known.
TEST(DatasetDamage, OfTheJobRecord) {
  const Column label{.name = "label", .type = Type::kI32};
  const std::string number("\1\0\0\0", 4);
  const auto files = NewMemoryFileSystem();
  DatasetWriterOptions options = SmallShards(2, 1);
  ASSERT_TRUE(WriteDataset(*files, "/data", {{"0", {{&label, number}}}}, options).ok());
  options.resume = true;
  const std::string path = "/data/.shardkit/job.json", record = ReadAll(*files, path);
  const auto rows = ScanRows(*files, "/data");
  const auto resume = [&] { return WriteDataset(*files, "/data", {}, options).status(); };
  const auto expect_refused = [&](const std::string& damaged) {
    WriteFile(*files, path, damaged);
    const absl::Status refused = resume();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << damaged << refused;
    EXPECT_EQ(ScanRows(*files, "/data"), rows);
    EXPECT_EQ(ValidateText(*files, "/data"), "");
  };
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    std::string damaged = record;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    expect_refused(damaged);
  }
  for (size_t length = 0; length < record.size(); ++length) expect_refused(record.substr(0, length));
  WriteFile(*files, path, record);
  EXPECT_TRUE(resume().ok()) << resume();
}

}  // namespace
}  // namespace shardkit::test
