// Every valid golden shard and dataset, in every read mode and by every kind of access, compared with its JSON twin.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/validate.h"
#include "unit/container/shard_maker.h"
#include "unit/golden/twin.h"

namespace shardkit::container {
namespace {

using nlohmann::json;

std::string Valid(const std::string& name) { return JoinPath(JoinPath(GoldenFolder(), "valid"), name); }

class GoldenTest : public testing::TestWithParam<ReadMode> {};

std::string ModeName(const testing::TestParamInfo<ReadMode>& mode) {
  constexpr const char* kNames[] = {"Auto", "Buffered", "Mapped", "Direct"};
  return kNames[static_cast<int>(mode.param)];
}
INSTANTIATE_TEST_SUITE_P(AllModes, GoldenTest, testing::ValuesIn(kReadModes), ModeName);

// The value at each sample and column, read with every accessor except ReadBlock. Compares the dumped text, because
// equality of JSON values would not distinguish -0.0 from 0.0 or an integer from a float.
void CheckSingleValues(const NativeShardReader& shard, const json& samples) {
  BlockBuffer buffer, batch_buffer;
  const std::vector<Column>& columns = shard.schema().columns();
  for (uint64_t i = shard.sample_count(); i-- > 0;) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!IsKnownCodec(columns[c].codec)) {
        const absl::Status status = shard.ReadValue(i, c, &buffer).status();
        EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
        continue;
      }
      const std::string wanted = samples[i][columns[c].name].dump();
      const auto value = shard.ReadValue(i, c, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(ValueTwin(columns[c], *value).dump(), wanted) << "sample " << i << " column " << c;

      std::string copied;
      const auto present = shard.CopyValue(i, c, [&](std::string_view piece) {
        copied += piece;
        return absl::OkStatus();
      });
      ASSERT_TRUE(present.ok()) << present.status();
      EXPECT_EQ(ValueTwin(columns[c], *present ? std::optional<std::string_view>(copied) : std::nullopt).dump(),
                wanted);
    }
  }
}

void CheckKeys(const NativeShardReader& shard, const json& samples) {
  const auto key = shard.schema().key_column();
  BlockBuffer buffer;
  if (!key) {
    EXPECT_TRUE(absl::IsFailedPrecondition(shard.FindKey("a", &buffer).status()));
    return;
  }
  if (!IsKnownCodec(shard.schema()[*key].codec)) {
    EXPECT_TRUE(absl::IsUnimplemented(shard.FindKey("k0", &buffer).status()));
    return;
  }
  std::map<std::string, uint64_t> first;
  for (uint64_t i = 0; i < samples.size(); ++i) first.emplace(samples[i][shard.schema()[*key].name], i);
  for (const auto& [name, ordinal] : first) {
    const auto found = shard.FindKey(name, &buffer);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, ordinal) << name;
  }
  const auto found = shard.FindKey("there is no such key", &buffer);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::nullopt);
}

TEST_P(GoldenTest, ShardsEqualTheirTwins) {
  const std::vector<std::string> names = GoldenNames("valid", ".shard");
  ASSERT_GE(names.size(), 23u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    for (const bool verify : {true, false}) {
      const auto shard =
          NativeShardReader::Open(*PosixFileSystem(), Valid(name + ".shard"),
                                  {.verify = verify ? Verify::kEvery : Verify::kNever, .mode = GetParam()});
      ASSERT_TRUE(shard.ok()) << shard.status();
      const auto twin = ShardTwin(**shard);
      ASSERT_TRUE(twin.ok()) << twin.status();
      const json wanted = ParseTwin(name);
      EXPECT_EQ(twin->dump(1), wanted.dump(1));
      CheckSingleValues(**shard, wanted["samples"]);
      CheckKeys(**shard, wanted["samples"]);
    }
  }
}

TEST_P(GoldenTest, DatasetsEqualTheirTwins) {
  for (const std::string name :
       {"two-shards", "no-shards", "images", "sha256", "other-order", "tiny", "column-metadata-dataset", "storages",
        "segments", "segment-without-keys", "shard-list", "renamed-columns", "column-files", "compacted-columns",
        "bases", "bases-columns"}) {
    SCOPED_TRACE(name);
    DatasetOptions options;
    options.mode = GetParam();
    const auto dataset = DatasetReader::Open(*PosixFileSystem(), Valid(name), options);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->index_problem(), "") << (*dataset)->index_problem();
    const auto twin = DatasetTwin(**dataset);
    ASSERT_TRUE(twin.ok()) << twin.status();
    const json wanted = ParseTwin(name);
    EXPECT_EQ(twin->dump(1), wanted.dump(1));
  }
}

// Blobs one by one, many at once, and samples by their key.
TEST_P(GoldenTest, DatasetsThroughIndexAndKeys) {
  DatasetOptions options;
  options.mode = GetParam();
  options.max_open_shards = 1;
  const auto opened = DatasetReader::Open(*PosixFileSystem(), Valid("two-shards"), options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const DatasetReader& dataset = **opened;
  const json samples = ParseTwin("two-shards")["samples"];
  const std::vector<Column>& columns = dataset.columns();
  BlockBuffer buffer;
  std::vector<uint64_t> everything(dataset.sample_count());
  for (uint64_t i = 0; i < everything.size(); ++i) everything[i] = everything.size() - 1 - i;
  for (size_t c = 0; c < columns.size(); ++c) {
    for (const uint64_t i : everything) {
      const auto value = dataset.ReadValue(i, c, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(ValueTwin(columns[c], *value).dump(), samples[i][columns[c].name].dump())
          << i << " " << columns[c].name;
    }
    std::vector<std::string_view> values(everything.size());
    const absl::Status status = dataset.ReadValues(everything, c, &buffer, values);
    if (!columns[c].is_blob()) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      continue;
    }
    ASSERT_TRUE(status.ok()) << status;
    for (size_t k = 0; k < values.size(); ++k) {
      const std::optional<std::string_view> value =
          values[k].data() == nullptr ? std::nullopt : std::optional<std::string_view>(values[k]);
      EXPECT_EQ(ValueTwin(columns[c], value).dump(), samples[everything[k]][columns[c].name].dump());
    }
  }
  for (uint64_t i = 0; i < samples.size(); ++i) {
    const auto found = dataset.FindKey(samples[i]["key"].get<std::string>(), &buffer);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, i);
  }
}

// One by one, and the first sample that is seen by its key.
TEST_P(GoldenTest, ValuesThroughColumnFiles) {
  DatasetOptions options;
  options.mode = GetParam();
  const auto opened = DatasetReader::Open(*PosixFileSystem(), Valid("column-files"), options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const DatasetReader& dataset = **opened;
  const json samples = ParseTwin("column-files")["samples"];
  ASSERT_EQ(dataset.sample_count(), samples.size());
  const std::vector<Column>& columns = dataset.columns();
  BlockBuffer buffer;
  for (uint64_t i = 0; i < samples.size(); ++i) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto value = dataset.ReadValue(i, c, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(ValueTwin(columns[c], *value).dump(), samples[i][columns[c].name].dump()) << i << columns[c].name;
    }
    const auto found = dataset.FindKey(samples[i]["key"].get<std::string>(), &buffer);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, i);
  }
  const auto removed = dataset.FindKey("k2", &buffer);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(*removed, std::nullopt);
}

// Values of picture types are only as long as a twin may be, so they do not decode.
TEST_P(GoldenTest, ValidOnesHaveNoProblems) {
  std::vector<std::string> paths;
  for (const std::string& name : GoldenNames("valid", ".shard")) paths.push_back(Valid(name + ".shard"));
  for (const char* name : {"two-shards", "no-shards", "images", "sha256", "other-order", "tiny",
                           "column-metadata-dataset", "storages", "segments", "segment-without-keys", "shard-list",
                           "renamed-columns", "column-files", "compacted-columns", "bases", "bases-columns"})
    paths.push_back(Valid(name));
  for (const std::string& path : paths) {
    // Of formats other than JPEG and PNG, these have signatures alone, which a build that decodes them refuses.
    const bool signatures = path == Valid("image.shard") || path == Valid("images");
    const auto is_signature = [](const Problem& problem) {
      return std::ranges::any_of(std::array{": WebP: ", ": GIF: ", ": BMP: ", ": TIFF: ", ": AVIF: "},
                                 [&](const char* format) { return problem.message.find(format) != std::string::npos; });
    };
    for (const bool deep : {false, true}) {
      const auto report = Validate(*PosixFileSystem(), path, {.deep = deep, .mode = GetParam()});
      ASSERT_TRUE(report.ok()) << report.status();
      for (const Problem& problem : report->problems) {
        if (!deep || !signatures || !is_signature(problem)) ADD_FAILURE() << problem.message;
      }
      // None for a key that stands in two stored samples, of which one is removed.
      const std::map<std::string, size_t> warnings = {{Valid("unknown-codec.shard"), 5},
                                                      {Valid("unknown-codec-of-key.shard"), 1},
                                                      {Valid("unknown-statistics.shard"), 1}};
      EXPECT_EQ(report->warnings.size(), warnings.contains(path) ? warnings.at(path) : 0) << path;
    }
  }
}

// The index says where the records behind a column's chunk begin, whatever that chunk holds.
TEST(GoldenDataset, RecordsBehindAColumnOfUnknownCodec) {
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  WriteWhole(*files, "/d/a.shard", ReadWhole(*PosixFileSystem(), Valid("unknown-codec.shard")));
  const auto manifest = RebuildIndex(*files, "/d");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto report = Validate(*files, "/d");
  ASSERT_TRUE(report.ok()) << report.status();
  for (const Problem& problem : report->problems) ADD_FAILURE() << problem.message;
  const auto dataset = DatasetReader::Open(*files, "/d", {{}, {"blob", "behind"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->index_problem(), "");
  const auto shard = ShardReader::Open(*files, "/d/a.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  const size_t column = *(*shard)->schema().Find("behind");
  BlockBuffer buffer, other;
  for (uint64_t i = 0; i < (*shard)->sample_count(); ++i) {
    const auto value = (*dataset)->ReadValue(i, 1, &buffer);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, (*shard)->ReadValue(i, column, &other).value());
    EXPECT_TRUE(absl::IsUnimplemented((*dataset)->ReadValue(i, 0, &buffer).status()));
  }
}

}  // namespace
}  // namespace shardkit::container
