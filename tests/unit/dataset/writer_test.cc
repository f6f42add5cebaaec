#include <algorithm>
#include <array>

#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "support/fault_filesystem.h"

namespace shardkit::test {
namespace {

class DatasetWriterTest : public testing::Test {
 protected:
  std::unique_ptr<DatasetWriter> Create(const std::string& directory, std::vector<Column> columns,
                                        const DatasetWriterOptions& options = {}) {
    auto writer = DatasetWriter::Create(*files_, directory, MakeSchema(std::move(columns)), options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return writer.ok() ? *std::move(writer) : nullptr;
  }
  std::string CreateError(const std::string& directory, const DatasetWriterOptions& options = {}) {
    return DatasetWriter::Create(*files_, directory, MakeSchema({KeyColumn()}), options).status().ToString();
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(DatasetWriterTest, RollsOverBySamples) {
  const auto samples = MakeSamples(30);
  const auto summary = WriteDataset(*files_, "/data", samples, SmallShards(7, 3));
  ASSERT_TRUE(summary.ok()) << summary.status();
  std::vector<uint64_t> counts, blocks;
  for (const ManifestShard& shard : summary->manifest.shards) {
    counts.push_back(shard.samples);
    blocks.push_back(shard.blocks);
  }
  EXPECT_EQ(counts, (std::vector<uint64_t>{7, 7, 7, 7, 2}));
  EXPECT_EQ(blocks, (std::vector<uint64_t>{3, 3, 3, 3, 1}));
  EXPECT_EQ(summary->manifest.shards[4].name, "00000004.shard");
  const Tree tree = ReadTree(*files_, "/data");
  EXPECT_EQ(tree.size(), 9u) << Describe(tree);  // five shards, segment, manifest, folder, job: no record, no lock
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(samples));
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
}

TEST_F(DatasetWriterTest, RollsOverByBytes) {
  const auto samples = MakeSamples(200);
  DatasetWriterOptions options = SmallShards(0, 4);
  options.shard_size = 4000;
  const auto summary = WriteDataset(*files_, "/data", samples, options);
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_GT(summary->manifest.shards.size(), 5u);
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (size_t i = 0; i < summary->manifest.shards.size(); ++i) {
    const auto shard = *(*dataset)->OpenShard(i);
    const BlockInfo& last = shard->blocks().back();
    EXPECT_LE(last.offset + last.length, options.shard_size);
    if (i + 1 == summary->manifest.shards.size()) break;
    // The first block of the next shard would not have fitted.
    const auto next = *(*dataset)->OpenShard(i + 1);
    const uint64_t end = (last.offset + last.length + 63) / 64 * 64;
    EXPECT_GT(end + next->blocks()[0].length, options.shard_size);
  }
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(samples));
}

TEST_F(DatasetWriterTest, ASampleLargerThanAShardHasOneOfItsOwn) {
  auto samples = MakeSamples(9);
  samples[4].fields[0].second.resize(20000, 'z');
  DatasetWriterOptions options = SmallShards(0, 100);
  options.shard_size = 4000;
  options.shard.block_size = 1000;
  const auto summary = WriteDataset(*files_, "/data", samples, options);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_TRUE(std::ranges::any_of(
      summary->manifest.shards, [](const ManifestShard& shard) { return shard.samples == 1 && shard.bytes > 20000; }));
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(samples));
}

// The bytes and the names are the same, and nothing is flushed, when a dataset is made or appended to.
TEST_F(DatasetWriterTest, WithoutSync) {
  const auto samples = MakeSamples(30);
  const auto write = [&](const std::string& directory, DatasetWriterOptions options) {
    FaultFileSystem counting(files_.get());
    uint64_t syncs = 0;
    for (const bool append : {false, true}) {
      options.append = append;
      options.existing_keys = ExistingKeys::kAdd;
      const auto summary = WriteDataset(counting, directory, samples, options);
      EXPECT_TRUE(summary.ok()) << summary.status();
    }
    for (const FileSystemCall& call : counting.calls())
      syncs += call.operation.find("sync") == std::string::npos ? 0 : 1;
    return syncs;
  };
  DatasetWriterOptions options = SmallShards(7, 3);
  EXPECT_GT(write("/synced", options), 10u);
  options.sync = false;
  EXPECT_EQ(write("/unsynced", options), 0u);
  EXPECT_TRUE(ReadTree(*files_, "/synced") == ReadTree(*files_, "/unsynced"));
}

// In any order of the types, and at the cost of one more shard.
TEST_F(DatasetWriterTest, ImagesOfSeveralFormatsMakeAColumnOfImages) {
  std::array<Column, 3> columns;
  constexpr std::array kTypes = {Type::kJpeg, Type::kPng, Type::kImage};
  for (size_t i = 0; i < 3; ++i) columns[i] = {.name = "a", .type = kTypes[i], .nullable = true};
  std::array<size_t, 3> order = {0, 1, 2};
  do {
    const std::string path = StrCat("/", order[0], order[1], order[2]);
    auto writer = Create(path, {KeyColumn(), columns[order[0]]});
    for (size_t i = 0; i < 9; ++i) {
      const OwnedSample sample{StrCat(i), {{&columns[order[i < 2 ? 0 : i % 3]], "x"}}};
      ASSERT_TRUE(writer->Append(sample.View(), i + 1).ok());
    }
    const auto summary = writer->Finish();
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->manifest.schema[1].type, Type::kImage);
    EXPECT_EQ(summary->manifest.shards.size(), order[0] == 2 ? 1u : 2u);
    EXPECT_EQ(ValidateText(*files_, path), "");
  } while (std::next_permutation(order.begin(), order.end()));
  for (const Type type : kTypes) {
    EXPECT_EQ(CommonType(type, Type::kBytes), Type::kBytes);
    EXPECT_EQ(CommonType(Type::kUtf8, type), Type::kBytes);
    EXPECT_EQ(CommonType(type, type), type);
    EXPECT_EQ(CommonType(type, Type::kI32), std::nullopt);
  }
}

// The table of dataset.md, section 9.1, and that neither the order of shards nor how they are grouped changes a type.
TEST(CommonType, IsThatOfTheSpecification) {
  constexpr std::array kTypes = {Type::kBytes, Type::kUtf8, Type::kJson, Type::kImage,
                                 Type::kJpeg,  Type::kPng,  Type::kI32,  Type::kNdarray};
  constexpr std::array<std::string_view, 6> kRows = {
      "bytes bytes bytes bytes bytes bytes", "bytes utf8 utf8 bytes bytes bytes",  "bytes utf8 json bytes bytes bytes",
      "bytes bytes bytes image image image", "bytes bytes bytes image jpeg image", "bytes bytes bytes image image png"};
  for (size_t i = 0; i < kRows.size(); ++i) {
    std::string row;
    for (size_t k = 0; k < kRows.size(); ++k)
      row += StrCat(k == 0 ? "" : " ", TypeName(*CommonType(kTypes[i], kTypes[k])));
    EXPECT_EQ(row, kRows[i]);
  }
  const auto common = [](std::optional<Type> a, std::optional<Type> b) -> std::optional<Type> {
    return a && b ? CommonType(*a, *b) : std::nullopt;
  };
  for (const Type a : kTypes) {
    EXPECT_EQ(CommonType(a, a), a);
    for (const Type b : kTypes) {
      EXPECT_EQ(CommonType(a, b), CommonType(b, a));
      for (const Type c : kTypes) EXPECT_EQ(common(a, CommonType(b, c)), common(CommonType(a, b), c));
    }
  }
}

TEST(MergeSchemas, ColumnsKeepTheirOrderAndNewOnesFollow) {
  const auto column = [](std::string name, Type type, bool nullable = false) {
    return Column{.name = std::move(name), .type = type, .nullable = nullable};
  };
  const Schema a = MakeSchema({column("z", Type::kJson), column("b", Type::kI32), column("a", Type::kPng, true)});
  const Schema b =
      MakeSchema({column("c", Type::kU8), column("a", Type::kJpeg), column("y", Type::kRle), column("z", Type::kUtf8)});
  const auto merged = MergeSchemas(a, b);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(*merged ==
              MakeSchema({column("z", Type::kUtf8), column("b", Type::kI32, true), column("a", Type::kImage, true),
                          column("c", Type::kU8, true), column("y", Type::kRle, true)}));
}

// A type that is not known unifies with itself alone.
TEST(MergeSchemas, TypesOfLaterVersions) {
  const auto one = [](Column column) {
    column.name = "a";
    return MakeSchema({std::move(column)});
  };
  const Column later{.type = Type{77}, .dtype = Type{5}, .shape = {{2}}, .storage = Storage::kFixed, .value_size = 3};
  EXPECT_TRUE(*MergeSchemas(one(later), one(later)) == one(later));
  std::vector<Column> others(5, later);
  others[0].type = Type{78};
  others[1].dtype = Type{6};
  others[2].shape = {{3}};
  others[3].value_size = 4;
  others[4] = {.type = Type::kBytes};
  for (const Column& other : others) {
    EXPECT_TRUE(absl::IsInvalidArgument(MergeSchemas(one(later), one(other)).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(MergeSchemas(one(other), one(later)).status()));
  }
  const Column array{
      .type = Type::kNdarray, .dtype = Type{300}, .shape = {{2}}, .storage = Storage::kFixed, .value_size = 3};
  Column wider = array;
  wider.value_size = 4;
  EXPECT_TRUE(MergeSchemas(one(array), one(array)).ok());
  EXPECT_FALSE(MergeSchemas(one(array), one(wider)).ok());
  // Where a shard puts the values of a codec is its own business.
  const Column inside{.codec = Codec{9}, .storage = Storage::kInline},
      outside{.codec = Codec{9}, .storage = Storage::kBlob};
  EXPECT_TRUE(*MergeSchemas(one(inside), one(outside)) == *MergeSchemas(one(outside), one(inside)));
}

TEST(MergeSchemas, KeepsTheMetadataInWhichAllAgree) {
  const auto one = [](Metadata metadata) { return MakeSchema({{.name = "a", .metadata = std::move(metadata)}}); };
  const std::vector<Schema> schemas = {one({{"x", "1"}, {"y", "1"}, {"z", "1"}}), one({{"x", "1"}, {"y", "2"}}),
                                       MakeSchema({{.name = "b"}}), one({{"w", ""}, {"x", "1"}, {"y", "1"}})};
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    Schema merged = schemas[order[0]];
    for (size_t i = 1; i < order.size(); ++i) merged = *MergeSchemas(merged, schemas[order[i]]);
    EXPECT_EQ(merged[*merged.Find("a")].metadata, (Metadata{{"x", "1"}}));
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(DatasetWriterTest, WidensTheSchemaAndStartsAShard) {
  const Column jpeg = {.name = "a", .type = Type::kJpeg, .nullable = true};
  const Column bytes = {.name = "a", .type = Type::kBytes, .nullable = true};
  const Column json = {.name = "b", .type = Type::kJson, .codec = Codec::kZstd, .nullable = true};
  const Column text = {.name = "b", .type = Type::kUtf8, .codec = Codec::kZstd, .nullable = true};
  const Column late = {.name = "late", .type = Type::kBytes};
  std::vector<OwnedSample> samples = {{"1", {{&jpeg, "j1"}, {&json, "{}"}}},
                                      {"2", {{&jpeg, "j2"}}},
                                      {"3", {{&bytes, "b3"}}},
                                      {"4", {{&jpeg, "j4"}}},  // fits the wider column: no new shard
                                      {"5", {{&text, "t5"}}},
                                      {"6", {{&late, "l6"}, {&json, "[]"}}}};
  auto writer = Create("/data", {KeyColumn(), jpeg, json});
  for (size_t i = 0; i < samples.size(); ++i) {
    const absl::Status status = writer->Append(samples[i].View(), i + 1);
    ASSERT_TRUE(status.ok()) << status;
  }
  const auto summary = writer->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  const Schema& schema = summary->manifest.schema;
  ASSERT_EQ(schema.size(), 4u);
  EXPECT_EQ(schema[1].type, Type::kBytes);
  EXPECT_EQ(schema[2].type, Type::kUtf8);
  EXPECT_EQ(schema[3].name, "late");
  EXPECT_TRUE(schema[3].nullable);  // the samples before lack it
  std::vector<uint64_t> counts;
  for (const ManifestShard& shard : summary->manifest.shards) counts.push_back(shard.samples);
  EXPECT_EQ(counts, (std::vector<uint64_t>{2, 2, 1, 1}));
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(samples));
  EXPECT_EQ(ValidateText(*files_, "/data"), "");

  // Values of a column that the shard does not have are absent, with and without the index.
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  EXPECT_EQ(*(*dataset)->ReadValue(0, 3, &buffer), std::nullopt);
  EXPECT_EQ(*(*dataset)->ReadValue(5, 3, &buffer), "l6");
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
  const auto plain = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*(*plain)->ReadValue(0, 3, &buffer), std::nullopt);
  EXPECT_EQ(*(*plain)->ReadValue(5, 3, &buffer), "l6");
}

TEST_F(DatasetWriterTest, ARefusedSampleWidensNothing) {
  const Column jpeg = {.name = "a", .type = Type::kJpeg, .nullable = true};
  const Column bytes = {.name = "a", .type = Type::kBytes, .nullable = true};
  Column number = {.name = "late", .type = Type::kI32};
  number.SetCodec(Codec::kZstd);
  auto writer = Create("/data", {KeyColumn(), jpeg});
  const std::vector<OwnedSample> samples = {{"1", {{&jpeg, "j1"}}}, {"2", {{&jpeg, "j2"}}}};
  const std::vector<OwnedSample> refused = {{"a", {{&bytes, "b"}, {&number, "123"}}},  // no i32
                                            {"b", {{&number, "1234"}, {&number, "1234"}}}};
  ASSERT_TRUE(writer->Append(samples[0].View()).ok());
  for (const OwnedSample& sample : refused) {
    const absl::Status status = writer->Append(sample.View());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Message(status).find("\"late\""), std::string::npos) << status;
  }
  ASSERT_TRUE(writer->Append(samples[1].View()).ok());
  const auto summary = writer->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->manifest.schema, MakeSchema({KeyColumn(), jpeg}));
  EXPECT_EQ(summary->manifest.shards.size(), 1u);
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(samples));
}

TEST_F(DatasetWriterTest, CodecsReplaceThoseOfKnownAndOfNewColumns) {
  DatasetWriterOptions options;
  options.codecs = {{"image", Codec::kZstd}, {"text", Codec::kNone}};
  auto writer = Create("/data", {KeyColumn(), ImageColumn()}, options);
  const auto samples = MakeSamples(10);
  for (size_t i = 0; i < samples.size(); ++i) ASSERT_TRUE(writer->Append(samples[i].View(), i + 1).ok());
  const auto summary = writer->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  const Schema& schema = summary->manifest.schema;
  EXPECT_EQ(schema[*schema.Find("image")].codec, Codec::kZstd);
  EXPECT_EQ(schema[*schema.Find("text")].codec, Codec::kNone);
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(samples));
}

TEST_F(DatasetWriterTest, TheSameBytesForAnyNumberOfThreads) {
  const auto samples = MakeSamples(700);
  for (const bool dictionaries : {false, true}) {
    DatasetWriterOptions options = SmallShards(dictionaries ? 0 : 90, 8);
    options.shard_size = 9000;
    if (dictionaries) options.shard.dictionaries = {{"text", 1024}};
    std::optional<Tree> expected;
    for (const int threads : {1, 2, 7}) {
      options.threads = threads;
      const std::string directory = "/" + std::to_string(dictionaries) + std::to_string(threads);
      const auto summary = WriteDataset(*files_, directory, samples, options);
      ASSERT_TRUE(summary.ok()) << summary.status();
      EXPECT_GT(summary->manifest.shards.size(), 3u);
      const Tree tree = ReadTree(*files_, directory);
      if (!expected) expected = tree;
      EXPECT_TRUE(tree == *expected) << Describe(tree) << " is not " << Describe(*expected);
      EXPECT_EQ(ScanRows(*files_, directory), RowsOf(samples));
    }
  }
}

// Values grow and shrink from shard to shard, and where a shard begins is known only when its first block is written.
// So blocks are encoded for the storage of the shard before and once more for that of their own.
TEST_F(DatasetWriterTest, EachShardChoosesItsStorageForAnyNumberOfThreads) {
  std::vector<OwnedSample> samples;
  for (int i = 0; i < 900; ++i) {
    const size_t length = i / 60 % 2 == 0 ? 40 + i % 50 : 1500 + i % 700;
    samples.push_back({std::to_string(10000 + i), {{&ImageColumn(), std::string(length, static_cast<char>(i))}}});
    if (i % 11 == 5) samples.back().fields.clear();
  }
  for (const bool by_samples : {false, true}) {
    DatasetWriterOptions options = SmallShards(by_samples ? 40 : 0, 4);
    if (!by_samples) options.shard_size = 30000;
    std::optional<Tree> expected;
    for (const int threads : {1, 2, 7}) {
      options.threads = threads;
      const std::string directory = "/" + std::to_string(by_samples) + std::to_string(threads);
      auto writer = Create(directory, {KeyColumn(), ImageColumn()}, options);
      for (size_t i = 0; i < samples.size(); ++i) ASSERT_TRUE(writer->Append(samples[i].View(), i + 1).ok());
      const auto summary = writer->Finish();
      ASSERT_TRUE(summary.ok()) << summary.status();
      const Tree tree = ReadTree(*files_, directory);
      if (!expected) expected = tree;
      EXPECT_TRUE(tree == *expected) << Describe(tree) << " is not " << Describe(*expected);
      EXPECT_EQ(ScanRows(*files_, directory), RowsOf(samples));
      EXPECT_EQ(ValidateText(*files_, directory), "");

      const auto dataset = DatasetReader::Open(*files_, directory);
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      EXPECT_EQ((*dataset)->index_problem(), "");
      size_t paged = 0;
      for (size_t s = 0; s < summary->manifest.shards.size(); ++s) {
        const auto shard = (*dataset)->OpenShard(s);
        ASSERT_TRUE(shard.ok()) << shard.status();
        uint64_t present = 0, bytes = 0;
        for (uint32_t i = 0; i < (*shard)->blocks()[0].sample_count; ++i) {
          BlockBuffer buffer;
          const auto value = *(*shard)->ReadValue(i, 1, &buffer);
          present += value ? 1 : 0;
          bytes += value ? value->size() : 0;
        }
        EXPECT_EQ((*shard)->schema()[1].is_paged(), bytes < 1024 * present) << s;
        paged += (*shard)->schema()[1].is_paged() ? 1 : 0;
      }
      EXPECT_GT(paged, 2u);
      EXPECT_LT(paged, summary->manifest.shards.size() - 2);

      // Through the index and through pages alike, alone and many at once.
      std::vector<uint64_t> ordinals(samples.size());
      for (size_t i = 0; i < ordinals.size(); ++i) ordinals[i] = (i * 7) % samples.size();
      std::vector<std::string_view> values(ordinals.size());
      BlockBuffer many, one;
      const absl::Status read = (*dataset)->ReadValues(ordinals, 1, &many, values);
      ASSERT_TRUE(read.ok()) << read;
      for (size_t i = 0; i < ordinals.size(); ++i) {
        const OwnedSample& sample = samples[ordinals[i]];
        const auto value = (*dataset)->ReadValue(ordinals[i], 1, &one);
        ASSERT_TRUE(value.ok()) << value.status();
        EXPECT_EQ(value->has_value(), !sample.fields.empty());
        EXPECT_EQ(values[i].data() != nullptr, !sample.fields.empty());
        if (value->has_value()) {
          EXPECT_EQ(**value, sample.fields[0].second);
          EXPECT_EQ(values[i], sample.fields[0].second);
        }
      }
      ASSERT_TRUE(RebuildIndex(*files_, directory).ok());
      EXPECT_TRUE(ReadTree(*files_, directory) == *expected);
    }
  }
}

// A job goes on in a shard whose storage is another than that of the shards before.
TEST_F(DatasetWriterTest, StoragesAreThoseOfAnUninterruptedJob) {
  std::vector<OwnedSample> samples;
  for (int i = 0; i < 300; ++i) {
    samples.push_back({std::to_string(1000 + i), {{&ImageColumn(), std::string(i / 50 % 2 == 0 ? 60 : 2000, 'v')}}});
  }
  DatasetWriterOptions options = SmallShards(0, 4);
  options.shard_size = 20000;
  options.threads = 3;
  options.resume = true;
  const auto append = [&](DatasetWriter& writer, size_t end) {
    for (size_t i = writer.resume_position(); i < end; ++i) {
      ASSERT_TRUE(writer.Append(samples[i].View(), i + 1).ok());
    }
  };
  auto whole = Create("/whole", {KeyColumn(), ImageColumn()}, options);
  append(*whole, samples.size());
  ASSERT_TRUE(whole->Finish().ok());
  const Tree expected = ReadTree(*files_, "/whole");
  for (size_t stop = 20; stop < samples.size(); stop += 37) {
    const std::string directory = "/" + std::to_string(stop);
    auto writer = Create(directory, {KeyColumn(), ImageColumn()}, options);
    append(*writer, stop);
    ASSERT_TRUE(writer->Suspend().ok());
    writer = Create(directory, {KeyColumn(), ImageColumn()}, options);
    append(*writer, samples.size());
    ASSERT_TRUE(writer->Finish().ok());
    EXPECT_TRUE(ReadTree(*files_, directory) == expected) << stop;
  }
}

TEST_F(DatasetWriterTest, MetadataIsInManifestAndShards) {
  DatasetWriterOptions options = SmallShards(2, 2);
  options.shard.metadata = {{"who", "tests"}, {"", "empty name"}, {"quote\"\\\t", "\xe2\x82\xac\n"}};
  const auto summary = WriteDataset(*files_, "/data", MakeSamples(4), options);
  ASSERT_TRUE(summary.ok()) << summary.status();
  const auto manifest = ReadManifest(*files_, "/data");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->metadata, options.shard.metadata);
  const auto shard = ShardReader::Open(*files_, "/data/00000001.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(*(*shard)->ReadMetadata(), options.shard.metadata);
}

TEST_F(DatasetWriterTest, ADatasetWithoutSamples) {
  const auto summary = WriteDataset(*files_, "/data", {});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->manifest.shards.size(), 0u);
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
  EXPECT_TRUE(ScanRows(*files_, "/data").empty());
  const auto dataset = DatasetReader::Open(*files_, "/data");
  BlockBuffer buffer;
  EXPECT_TRUE(absl::IsOutOfRange((*dataset)->ReadValue(0, 1, &buffer).status()));
  EXPECT_EQ(*(*dataset)->FindKey("k", &buffer), std::nullopt);
  EXPECT_EQ((*dataset)->ReadStatistics()->size(), 4u);
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
}

TEST_F(DatasetWriterTest, ASampleThatBreaksTheRulesIsPassedOver) {
  const Column other_type = {.name = "label", .type = Type::kF32, .nullable = true};
  const auto good = MakeSamples(3);
  auto writer = Create("/data", {KeyColumn(), ImageColumn(), LabelColumn()});
  ASSERT_TRUE(writer->Append(good[0].View(), 1).ok());
  const std::vector<OwnedSample> bad = {
      {"\xff", {}},
      {"short", {{&LabelColumn(), "abc"}}},
      {"twice", {{&LabelColumn(), "abcd"}, {&LabelColumn(), "abcd"}}},
      {"type", {{&other_type, "abcd"}}},
      {"new twice", {{&TextColumn(), "a"}, {&TextColumn(), "b"}}},
      {"new and wrong", {{&TextColumn(), "a"}, {&other_type, "abcd"}}},
      {"key", {{&KeyColumn(), "a"}}},
  };
  for (const OwnedSample& sample : bad) {
    const absl::Status status = writer->Append(sample.View(), 2);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << sample.key << ": " << status;
  }
  ASSERT_TRUE(writer->Append(good[1].View(), 2).ok());
  ASSERT_TRUE(writer->Append(good[2].View(), 3).ok());
  const auto summary = writer->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(good));
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
}

// The writer remembers columns by address. Another column may later have the same address.
TEST_F(DatasetWriterTest, ColumnsMayBeMadeAnewForEverySample) {
  auto writer = Create("/data", {KeyColumn()});
  std::vector<Row> expected;
  Column column;
  for (int i = 0; i < 12; ++i) {
    column = {.name = i % 2 == 0 ? "even" : "odd", .type = Type::kBytes, .nullable = true};
    const OwnedSample sample = {std::to_string(i), {{&column, "v" + std::to_string(i)}}};
    ASSERT_TRUE(writer->Append(sample.View(), 1).ok());
    expected.push_back(RowOf(sample));
  }
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(ScanRows(*files_, "/data"), expected);
}

TEST_F(DatasetWriterTest, AbortAndDroppingLeaveNothing) {
  ASSERT_TRUE(files_->CreateDirectory("/empty").ok());
  const auto samples = MakeSamples(50);
  for (const bool drop : {false, true}) {
    for (const std::string directory : {"/empty", "/new", "/deep/er"}) {
      auto writer = Create(directory, {KeyColumn(), ImageColumn()}, SmallShards(5, 2));
      for (const OwnedSample& sample : samples) ASSERT_TRUE(writer->Append(sample.View(), 1).ok());
      EXPECT_TRUE(Exists(*files_, directory + "/00000000.shard")) << "there is something to remove";
      if (!drop) {
        EXPECT_TRUE(writer->Abort().ok());
        EXPECT_TRUE(writer->Abort().ok());
        EXPECT_TRUE(absl::IsFailedPrecondition(writer->Append(samples[0].View(), 1)));
        EXPECT_TRUE(absl::IsFailedPrecondition(writer->Finish().status()));
      }
      writer.reset();
      EXPECT_EQ(Exists(*files_, directory), directory == "/empty");
      EXPECT_EQ(Describe(ReadTree(*files_, directory)), "");
    }
  }
}

TEST_F(DatasetWriterTest, CreateRefusesWhatIsNotItsOwn) {
  ASSERT_TRUE(WriteDataset(*files_, "/data", MakeSamples(3)).ok());
  const Tree before = ReadTree(*files_, "/data");
  EXPECT_NE(CreateError("/data").find("ALREADY_EXISTS: /data: already holds a dataset"), std::string::npos);

  for (const std::string name : {"notes.txt", "00000000.shard", "dataset.segment", ".hidden", "sub/"}) {
    const Tree foreign = {{name, ""}};
    WriteTree(*files_, "/foreign" + name.substr(0, 4), foreign);
    const std::string error = CreateError("/foreign" + name.substr(0, 4));
    EXPECT_NE(error.find("ALREADY_EXISTS"), std::string::npos) << error;
    EXPECT_NE(error.find("is not empty"), std::string::npos) << error;
    EXPECT_TRUE(ReadTree(*files_, "/foreign" + name.substr(0, 4)) == foreign);
  }

  auto writer = Create("/busy", {KeyColumn()});
  EXPECT_NE(CreateError("/busy").find("UNAVAILABLE: /busy: another run is writing"), std::string::npos);
  DatasetWriterOptions resume;
  resume.resume = true;
  EXPECT_NE(CreateError("/busy", resume).find("another run is writing"), std::string::npos);
  ASSERT_TRUE(writer->Append({"k", {}}, 1).ok());
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(ReadTree(*files_, "/data") == before);

  // A run that died at once leaves only a lock. The directory may still be used, and a missing directory may be made.
  WriteFile(*files_, "/died/.shardkit/lock", "");
  EXPECT_TRUE(WriteDataset(*files_, "/died", MakeSamples(3)).ok());
  EXPECT_EQ(ReadTree(*files_, "/died").size(), 5u);
  // The same holds for the record of a dataset whose other files were removed.
  for (const auto& [name, bytes] : ReadDataset(*files_, "/died")) ASSERT_TRUE(files_->RemoveFile("/died/" + name).ok());
  EXPECT_TRUE(WriteDataset(*files_, "/died", MakeSamples(3)).ok());
}

TEST_F(DatasetWriterTest, RefusesOptionsThatMeanNothing) {
  DatasetWriterOptions options;
  options.shard_size = 0;
  EXPECT_NE(CreateError("/a", options).find("INVALID_ARGUMENT"), std::string::npos);
  options = {};
  options.shard.alignment = 100;
  EXPECT_NE(CreateError("/a", options).find("INVALID_ARGUMENT"), std::string::npos);
  options = {};
  options.shard.max_block_samples = 0;
  EXPECT_NE(CreateError("/a", options).find("INVALID_ARGUMENT"), std::string::npos);
  EXPECT_FALSE(Exists(*files_, "/a"));
}

}  // namespace
}  // namespace shardkit::test
