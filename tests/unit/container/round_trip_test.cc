// Every way of reading gives back what the writer was given.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/strings.h"
#include "container/read/record_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard.h"
#include "shardkit/validate.h"
#include "support/effort.h"
#include "support/read_in_parts.h"
#include "unit/container/shard_maker.h"

namespace shardkit::container {
namespace {

constexpr std::string_view kPath = "/s.shard";

std::unique_ptr<ShardReader> OpenShard(FileSystem& file_system, const ReadOptions& options = {}) {
  auto shard = ShardReader::Open(file_system, std::string(kPath), options);
  EXPECT_TRUE(shard.ok()) << shard.status();
  return shard.ok() ? *std::move(shard) : nullptr;
}

void ExpectRow(const ShardRow& wanted, const BlockView& view, uint32_t i, std::span<const size_t> columns) {
  for (const size_t c : columns) {
    const std::optional<std::string_view> value = view.column(c).value(i);
    ASSERT_EQ(value.has_value(), wanted[c].has_value()) << "sample " << view.first_sample() + i << " column " << c;
    if (value) {
      ASSERT_EQ(*value, *wanted[c]) << "sample " << view.first_sample() + i << " column " << c;
    }
  }
}

// Block by block, with all columns and with some.
void CheckBlocks(const ShardReader& shard, const std::vector<ShardRow>& rows, Random& random) {
  std::vector<size_t> all, some;
  for (size_t c = 0; c < shard.schema().size(); ++c) {
    all.push_back(c);
    if (random.Chance(2)) some.push_back(c);
  }
  if (some.empty()) some.push_back(0);
  BlockBuffer buffer;
  BlockView view;
  uint64_t sample = 0;
  for (size_t k = 0; k < shard.blocks().size(); ++k) {
    for (const bool projected : {false, true}) {
      const absl::Status status =
          shard.ReadBlock(k, projected ? std::span<const size_t>(some) : std::span<const size_t>(), &buffer, &view);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(view.first_sample(), sample);
      for (uint32_t i = 0; i < view.sample_count(); ++i) ExpectRow(rows[sample + i], view, i, projected ? some : all);
      for (const size_t c : all) {
        if (projected && std::ranges::find(some, c) == some.end()) {
          ASSERT_FALSE(view.column(c).loaded());
        }
      }
    }
    sample += view.sample_count();
  }
  ASSERT_EQ(sample, rows.size());
}

// Values one by one, out of order, read and copied, and keys.
void CheckSingles(const ShardReader& shard, const std::vector<ShardRow>& rows, Random& random) {
  BlockBuffer buffer;
  const size_t count = std::min<size_t>(rows.size(), 40);
  for (size_t round = 0; round < count; ++round) {
    const uint64_t sample = random.Below(rows.size());
    for (size_t c = 0; c < shard.schema().size(); ++c) {
      const std::optional<std::string>& wanted = rows[sample][c];
      const auto value = shard.ReadValue(sample, c, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      ASSERT_EQ(value->has_value(), wanted.has_value());
      if (wanted) {
        ASSERT_EQ(**value, *wanted);
      }
      std::string copy;
      const auto present = shard.CopyValue(sample, c, [&](std::string_view piece) {
        copy += piece;
        return absl::OkStatus();
      });
      ASSERT_TRUE(present.ok()) << present.status();
      ASSERT_EQ(*present, wanted.has_value());
      ASSERT_EQ(copy, wanted.value_or(""));
      const auto parts = test::ReadInParts(shard.OpenValue(sample, c));
      ASSERT_TRUE(parts.ok()) << parts.status();
      ASSERT_EQ(*parts, wanted);
    }
    if (const auto key = shard.schema().key_column()) {
      const auto found = shard.FindKey(*rows[sample][*key], &buffer);
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(*found, sample);
    }
  }
}

void CheckShard(FileSystem& file_system, const std::vector<ShardRow>& rows, Random& random) {
  for (const ReadMode mode : kReadModes) {
    for (const bool verify : {true, false}) {
      const auto shard = OpenShard(file_system, {.verify = verify ? Verify::kEvery : Verify::kNever, .mode = mode});
      ASSERT_NE(shard, nullptr);
      ASSERT_EQ(shard->sample_count(), rows.size());
      CheckBlocks(*shard, rows, random);
      if (!rows.empty()) CheckSingles(*shard, rows, random);
    }
  }
  const auto report = Validate(file_system, std::string(kPath));
  ASSERT_TRUE(report.ok()) << report.status();
  for (const Problem& problem : report->problems) ADD_FAILURE() << problem.message;
}

// Without options, masks are compressed with level 1 and all else with level 3.
TEST(RoundTrip, DefaultLevels) {
  Random random(110);
  const auto column = [](const char* name, Type type) {
    Column made;
    made.name = name;
    made.type = type;
    made.codec = Codec::kZstd;
    return made;
  };
  const Schema schema = Schema::Create({column("masks", Type::kRle), column("text", Type::kBytes)}).value();
  std::vector<ShardRow> rows(200);
  for (ShardRow& row : rows) {
    // Phrases of an alphabet that repeat, because levels differ in how many repetitions they find.
    for (int i = 0; i < 2; ++i) {
      std::string bytes;
      for (int word = 0; word < 50; ++word) bytes += StrCat("a", random.Below(100), "bcd", random.Below(3));
      row.emplace_back(std::move(bytes));
    }
  }
  const auto write = [&](std::map<std::string, int> levels) {
    const auto file_system = NewMemoryFileSystem();
    const auto summary = WriteShard(*file_system, std::string(kPath), schema, rows, {.zstd_levels = std::move(levels)});
    EXPECT_TRUE(summary.ok()) << summary.status();
    return ReadWhole(*file_system, std::string(kPath));
  };
  const std::string shard = write({});
  EXPECT_EQ(shard, write({{"masks", 1}, {"text", 3}}));
  EXPECT_NE(shard, write({{"masks", 3}}));
  EXPECT_NE(shard, write({{"text", 1}}));
}

TEST(RoundTrip, RandomShards) {
  Random random(100);
  for (int round = 0; round < test::Thinned(150); ++round) {
    SCOPED_TRACE(round);
    const auto file_system = NewMemoryFileSystem();
    const Schema schema = RandomSchema(random, 8);
    const std::vector<ShardRow> rows = RandomRows(random, schema, random.Chance(10) ? 0 : 1 + random.Below(200), 150);
    ShardOptions options{.block_size = uint64_t{1} << random.Below(16),
                         .max_block_samples = static_cast<uint32_t>(1 + random.Below(100)),
                         .alignment = uint32_t{64} << random.Below(8),
                         .metadata = {{"round", StrCat(round)}}};
    for (const Column& column : schema.columns()) {
      if (column.codec == Codec::kZstd && random.Chance(2))
        options.zstd_levels[column.name] = 1 + static_cast<int>(random.Below(5));
      if (column.codec == Codec::kZstd && random.Chance(4)) options.dictionaries[column.name] = 1024;
      if (column.has_values_chunk() && random.Chance(2)) {
        options.storage[column.name] = random.Chance(2) ? Storage::kPaged : Storage::kBlob;
      }
    }
    const auto summary = WriteShard(*file_system, std::string(kPath), schema, rows, options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    const auto shard = OpenShard(*file_system);
    ASSERT_NE(shard, nullptr);
    for (size_t c = 0; c < schema.size(); ++c) {
      Column written = schema[c], read = shard->schema()[c];
      const auto chosen = options.storage.find(read.name);
      if (chosen != options.storage.end()) {
        EXPECT_EQ(read.storage, chosen->second);
      }
      written.SetCodec(written.codec);
      read.SetCodec(read.codec);
      EXPECT_TRUE(read == written);
    }
    EXPECT_EQ(shard->content_hash(), summary->content_hash);
    EXPECT_EQ(shard->blocks().size(), summary->block_count);
    EXPECT_EQ(*shard->ReadMetadata(), options.metadata);
    CheckShard(*file_system, rows, random);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(RoundTrip, HugeCountOfSmallSamples) {
  Random random(101);
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
                                         {.name = "x", .type = Type::kU16, .nullable = true},
                                         {.name = "b", .type = Type::kBytes, .nullable = true}});
  const std::vector<ShardRow> rows = RandomRows(random, schema, 150000, 3);
  ASSERT_TRUE(WriteShard(*file_system, std::string(kPath), schema, rows, {}).ok());
  EXPECT_EQ(OpenShard(*file_system)->blocks().size(), 3u);
  CheckShard(*file_system, rows, random);
}

// More than the first read of a file's end has.
TEST(RoundTrip, ManyBlocks) {
  Random random(103);
  const Schema schema = *Schema::Create({{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
                                         {.name = "x", .type = Type::kU16, .nullable = true}});
  for (const size_t count : {300, 340, 700}) {
    const auto file_system = NewMemoryFileSystem();
    const std::vector<ShardRow> rows = RandomRows(random, schema, count, 3);
    const auto summary =
        WriteShard(*file_system, std::string(kPath), schema, rows, {.max_block_samples = 1, .alignment = 64});
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(OpenShard(*file_system)->blocks().size(), count);
    CheckShard(*file_system, rows, random);
  }
}

// So many keys that their table is checked in pieces.
TEST(RoundTrip, KeysOfManySamples) {
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true}});
  std::vector<ShardRow> rows;
  for (int i = 0; i < 600000; ++i) rows.push_back({StrCat("k", i)});
  ASSERT_TRUE(WriteShard(*file_system, std::string(kPath), schema, rows, {}).ok());
  const auto report = Validate(*file_system, std::string(kPath));
  ASSERT_TRUE(report.ok()) << report.status();
  for (const Problem& problem : report->problems) ADD_FAILURE() << problem.message;
  BlockBuffer buffer;
  const auto shard = OpenShard(*file_system);
  for (const uint64_t sample : {0, 65536, 299999, 599999}) {
    const auto found = shard->FindKey(*rows[sample][0], &buffer);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, sample);
  }
}

TEST(RoundTrip, ASampleOfTheSizeOfABlockStandsAlone) {
  const Schema schema = *Schema::Create({{.name = "b", .type = Type::kBytes, .codec = Codec::kZstd}});
  for (const auto& [size, blocks] : {std::pair(99, 2u), std::pair(100, 3u), std::pair(101, 3u)}) {
    const auto file_system = NewMemoryFileSystem();
    const std::vector<ShardRow> rows = {{std::string(10, 'a')}, {std::string(size, 'b')}, {std::string(10, 'c')}};
    ASSERT_TRUE(WriteShard(*file_system, std::string(kPath), schema, rows, {.block_size = 100}).ok());
    EXPECT_EQ(OpenShard(*file_system)->blocks().size(), blocks) << size;
  }
}

// Pages of the same places hold other values.
TEST(RoundTrip, ABufferServesTwoShardsInTurn) {
  Random random(105);
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "small", .type = Type::kBytes}});
  std::vector<ShardRow> rows[2];
  std::unique_ptr<ShardReader> shards[2];
  for (int s : {0, 1}) {
    for (int i = 0; i < 3000; ++i) rows[s].push_back({random.Bytes(100)});
    const std::string path = StrCat("/", s);
    ASSERT_TRUE(WriteShard(*file_system, path, schema, rows[s], {.storage = {{"small", Storage::kPaged}}}).ok());
    shards[s] = *ShardReader::Open(*file_system, path);
  }
  BlockBuffer buffer;
  for (const uint64_t i : {0, 0, 2999, 1500, 1501}) {
    for (int s : {0, 1}) {
      const auto value = shards[s]->ReadValue(i, 0, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(**value, *rows[s][i][0]) << s << ": " << i;
    }
  }
}

// Blocks far smaller than a sample, values that are files, and values that take several pieces to copy.
void CheckLargeValues(Storage storage) {
  Random random(102);
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "small", .type = Type::kUtf8, .codec = Codec::kZstd},
                                         {.name = "large", .type = Type::kBytes, .nullable = true},
                                         {.name = "second", .type = Type::kBytes, .nullable = true}});
  std::vector<ShardRow> rows;
  auto writer = ShardWriter::Create(*file_system, std::string(kPath), schema,
                                    {.block_size = 1000, .storage = {{"large", storage}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const size_t size : {0, 10, 999, 1000, 1001, 70000, 4 << 20, (9 << 20) + 5, 3}) {
    for (const int files : {0, 1, 2, 3}) {  // bits: of the large value, of the second
      rows.push_back({StrCat("row ", rows.size()), random.Bytes(size), random.Bytes(size / 3)});
      std::optional<Value> values[] = {Value(*rows.back()[0]), Value(*rows.back()[1]), Value(*rows.back()[2])};
      for (const size_t column : {1, 2}) {
        if ((files & column) == 0) continue;
        const std::string path = StrCat("/value", rows.size(), "-", column);
        WriteWhole(*file_system, path, *rows.back()[column]);
        auto file = file_system->OpenForReading(path);
        ASSERT_TRUE(file.ok()) << file.status();
        values[column]->bytes = {};
        values[column]->file = *std::move(file);
      }
      const absl::Status status = (*writer)->Append(values);
      ASSERT_TRUE(status.ok()) << status;
    }
    rows.push_back({StrCat("row ", rows.size()), std::nullopt, std::nullopt});
    const std::optional<Value> values[] = {Value(*rows.back()[0]), std::nullopt, std::nullopt};
    ASSERT_TRUE((*writer)->Append(values).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  CheckShard(*file_system, rows, random);
}

TEST(RoundTrip, SamplesLargerThanABlockAndFiles) {
  CheckLargeValues(Storage::kBlob);
  CheckLargeValues(Storage::kPaged);
}

// The checksum of such a value is written before it.
TEST(RoundTrip, AFileThatChangesWhileItIsCopiedIsAnError) {
  class ChangingFile final : public ForwardingFile {
   public:
    using ForwardingFile::ForwardingFile;
    absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
      const absl::Status status = ForwardingFile::ReadAt(offset, buffer);
      if (offset + buffer.size() == size()) buffer.back() = static_cast<char>(ends_read_++);
      return status;
    }

   private:
    mutable int ends_read_ = 0;
  };
  const auto file_system = NewMemoryFileSystem();
  WriteWhole(*file_system, "/value", std::string(size_t{5} << 20, 'v'));
  const Schema schema = *Schema::Create({{.name = "large", .type = Type::kBytes}});
  auto writer = ShardWriter::Create(*file_system, std::string(kPath), schema, {.block_size = 1000});
  ASSERT_TRUE(writer.ok()) << writer.status();
  Value value;
  value.file = std::make_shared<ChangingFile>(*file_system->OpenForReading("/value"));
  const std::optional<Value> values[] = {value};
  absl::Status status = (*writer)->Append(values);
  if (status.ok()) status = (*writer)->Finish().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("/value: changed"), status.message().npos) << status;
}

TEST(RoundTrip, StorageIsThatOfTheFirstBlock) {
  const Schema schema = *Schema::Create({{.name = "v", .type = Type::kBytes, .nullable = true}});
  const auto storage = [&](const std::vector<ShardRow>& rows, ShardOptions options = {}) {
    Random random(105);
    const auto file_system = NewMemoryFileSystem();
    options.alignment = 64;
    options.max_block_samples = 2;
    EXPECT_TRUE(WriteShard(*file_system, std::string(kPath), schema, rows, options).ok());
    CheckShard(*file_system, rows, random);
    return OpenShard(*file_system)->schema()[0].storage;
  };
  const auto value = [](size_t length) { return ShardRow{std::string(length, 'v')}; };
  const ShardRow absent{std::nullopt};
  EXPECT_EQ(storage({}), Storage::kBlob);
  EXPECT_EQ(storage({absent, absent, value(1)}), Storage::kBlob);
  EXPECT_EQ(storage({value(0)}), Storage::kPaged);
  EXPECT_EQ(storage({value(1024)}), Storage::kBlob);
  EXPECT_EQ(storage({value(1023)}), Storage::kPaged);
  EXPECT_EQ(storage({value(1023), value(1025)}), Storage::kBlob);
  EXPECT_EQ(storage({value(1023), value(1024), value(100000)}), Storage::kPaged);
  EXPECT_EQ(storage({absent, value(1024)}), Storage::kBlob);
  EXPECT_EQ(storage({absent, value(1023), value(100000)}), Storage::kPaged);
  EXPECT_EQ(storage({value(100000), value(100000), value(1)}), Storage::kBlob);
  EXPECT_EQ(storage({value(3)}, {.storage = {{"v", Storage::kBlob}}}), Storage::kBlob);
  EXPECT_EQ(storage({value(100000), value(200000)}, {.storage = {{"v", Storage::kPaged}}}), Storage::kPaged);
  // A dictionary holds blocks back, but the first alone decides.
  const Schema two = *Schema::Create({{.name = "v", .type = Type::kBytes, .nullable = true},
                                      {.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd}});
  const auto file_system = NewMemoryFileSystem();
  const ShardOptions options{.max_block_samples = 1, .dictionaries = {{"text", 1024}}};
  const std::vector<ShardRow> rows = {{"small", "text"}, {std::string(100000, 'v'), "text"}};
  ASSERT_TRUE(WriteShard(*file_system, std::string(kPath), two, rows, options).ok());
  EXPECT_TRUE(OpenShard(*file_system)->schema()[0].is_paged());
}

TEST(RoundTrip, StorageCannotBeChosenForOtherColumns) {
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "zstd", .type = Type::kBytes, .codec = Codec::kZstd},
                                         {.name = "fixed", .type = Type::kI32},
                                         {.name = "blob", .type = Type::kBytes}});
  const auto create = [&](const std::string& column, Storage storage) {
    return ShardWriter::Create(*file_system, std::string(kPath), schema, {.storage = {{column, storage}}}).status();
  };
  EXPECT_TRUE(create("blob", Storage::kPaged).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(create("blob", Storage::kFixed)));
  EXPECT_TRUE(absl::IsInvalidArgument(create("blob", Storage::kDerived)));
  EXPECT_TRUE(absl::IsInvalidArgument(create("zstd", Storage::kPaged)));
  EXPECT_TRUE(absl::IsInvalidArgument(create("fixed", Storage::kPaged)));
  EXPECT_TRUE(absl::IsInvalidArgument(create("none", Storage::kPaged)));
}

// What a value costs beside its bytes.
TEST(RoundTrip, CostOfSmallValues) {
  Random random(106);
  const Schema schema = *Schema::Create({{.name = "v", .type = Type::kBytes}});
  std::vector<ShardRow> rows;
  for (int i = 0; i < 100000; ++i) rows.push_back({random.Bytes(100)});
  const auto stored = [&](Storage storage) {
    const auto file_system = NewMemoryFileSystem();
    EXPECT_TRUE(WriteShard(*file_system, std::string(kPath), schema, rows, {.storage = {{"v", storage}}}).ok());
    const auto statistics = OpenShard(*file_system)->ReadStatistics();
    EXPECT_EQ((*statistics)[0].value_bytes, 100 * rows.size());
    return (*statistics)[0].stored_bytes - (*statistics)[0].value_bytes;
  };
  EXPECT_EQ(stored(Storage::kBlob), 16 * rows.size());  // and 8 in the offset index
  EXPECT_LT(stored(Storage::kPaged), 204 * rows.size() / 100);
}

TEST(RoundTrip, DictionariesAreUsed) {
  Random random(103);
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd}});
  std::vector<ShardRow> rows;
  for (int i = 0; i < 3000; ++i) {
    rows.push_back({StrCat("{\"kind\": \"annotation\", \"id\": ", random.Below(100000),
                           ", \"license\": \"none\", \"n\": ", i, "}")});
  }
  ASSERT_TRUE(WriteShard(*file_system, std::string(kPath), schema, rows,
                         {.max_block_samples = 20, .alignment = 64, .dictionaries = {{"text", 4096}}})
                  .ok());
  const auto shard = OpenShard(*file_system);
  EXPECT_EQ(shard->dictionary_columns(), std::vector<size_t>{0});
  CheckShard(*file_system, rows, random);
}

TEST(RoundTrip, RecordsByTheirPlace) {
  Random random(104);
  const auto file_system = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "b", .type = Type::kBytes}});
  const std::vector<ShardRow> rows = RandomRows(random, schema, 50, 9000);
  const ShardOptions options{.block_size = 100000, .storage = {{"b", Storage::kBlob}}};
  ASSERT_TRUE(WriteShard(*file_system, std::string(kPath), schema, rows, options).ok());
  for (const ReadMode mode : kReadModes) {
    for (const bool verify : {true, false}) {
      const ReadOptions options = {.verify = verify ? Verify::kEvery : Verify::kNever, .mode = mode};
      const auto shard = OpenShard(*file_system, options);
      std::vector<std::pair<uint64_t, uint64_t>> places;
      for (const BlockInfo& block : shard->blocks()) {
        uint64_t at = block.offset + block.front_length;
        for (uint32_t i = 0; i < block.sample_count; ++i) {
          const uint64_t length = rows[block.first_sample + i][0]->size() + 8;
          places.emplace_back(at, at + length);
          at += length;
        }
      }
      BlockBuffer buffer;
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto value = ReadRecordAt(*shard->record_file(), options, places[i].first, places[i].second, &buffer);
        ASSERT_TRUE(value.ok()) << value.status();
        ASSERT_EQ(*value, *rows[i][0]);
      }
      std::vector<std::string_view> values(rows.size());
      const auto read = RecordsRead::Start(*shard->record_file(), options, places, &buffer);
      ASSERT_TRUE(read.ok()) << read.status();
      const absl::Status status = (*read)->Finish(values);
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(values[i], *rows[i][0]);

      for (const auto& [begin, end] :
           std::vector<std::pair<uint64_t, uint64_t>>{{5, 4},
                                                      {0, UINT64_MAX},
                                                      {UINT64_MAX - 1, UINT64_MAX},
                                                      {shard->file_length(), shard->file_length() + 1},
                                                      {9, 12}}) {
        EXPECT_TRUE(absl::IsDataLoss(ReadRecordAt(*shard->record_file(), options, begin, end, &buffer).status()))
            << begin << " " << end;
        const auto bad = RecordsRead::Start(*shard->record_file(), options, {{begin, end}}, &buffer);
        EXPECT_TRUE(absl::IsDataLoss(bad.ok() ? (*bad)->Finish(std::span(values).first(1)) : bad.status()));
      }
    }
  }
}

}  // namespace
}  // namespace shardkit::container
