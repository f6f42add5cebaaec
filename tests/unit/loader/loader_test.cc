#include "shardkit/loader.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "loader/loader_support.h"
#include "support/effort.h"

namespace shardkit::test {
namespace {

class LoaderTest : public testing::Test {
 protected:
  // 160 samples in shards of 40, blocks of 6.
  void SetUp() override {
    const auto summary = WriteDataset(*files_, "/data", samples_, SmallShards(40, 6));
    ASSERT_TRUE(summary.ok()) << summary.status();
  }

  static LoaderOptions Small() {
    LoaderOptions options;
    options.plan.seed = 5;
    options.plan.batch_size = 8;
    options.plan.shuffle_buffer_bytes = 20000;
    options.memory_bytes = 16 << 20;
    options.decode_threads = options.read_threads = 2;
    return options;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  const std::vector<OwnedSample> samples_ = MakeSamples(160);
};

// The values of sample i of a batch, as DatasetReader gives them.
Row RowOf(const Batch& batch, size_t i) {
  Row row;
  row["key"] = std::string(batch.key(i));
  for (size_t c = 0; c < batch.column_count(); ++c) {
    const BatchColumn& column = batch.column(c);
    if (!column.present.empty() && !column.present[i]) continue;
    const char* const values = reinterpret_cast<const char*>(column.values.data());
    if (column.layout == BatchLayout::kTensor) {
      const size_t bytes = column.values.size() / batch.size();
      row[std::string(column.name)] = std::string(values + i * bytes, bytes);
    } else {
      row[std::string(column.name)] =
          std::string(values + column.offsets[i], column.offsets[i + 1] - column.offsets[i]);
    }
  }
  return row;
}

TEST_F(LoaderTest, DeliversEverySampleAsStored) {
  const std::vector<Row> expected = RowsOf(samples_);
  for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled, SampleOrder::kWindow}) {
    LoaderOptions options = Small();
    options.plan.order = order;
    options.epochs = 2;
    const auto loader = OpenLoader(*files_, options);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::set<uint64_t> seen;
      for (uint64_t step = 0; step < 20; ++step) {
        EXPECT_EQ(loader->steps_left(), 20 - step);
        const auto batch = loader->Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        ASSERT_NE(*batch, nullptr);
        EXPECT_EQ((*batch)->epoch(), epoch);
        EXPECT_EQ((*batch)->step(), step);
        for (size_t i = 0; i < (*batch)->size(); ++i) {
          const uint64_t ordinal = (*batch)->samples()[i].ordinal;
          seen.insert(ordinal);
          ASSERT_EQ(RowOf(**batch, i), expected[ordinal]);
        }
      }
      EXPECT_EQ(seen.size(), 160u);
    }
    const auto end = loader->Next();
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(*end, nullptr);
    EXPECT_EQ(loader->steps_left(), 0u);
  }
}

TEST_F(LoaderTest, OutputDoesNotDependOnThreadsOrMemory) {
  LoaderOptions options = Small();
  options.plan.shuffle_buffer_bytes = 300 << 10;
  const std::vector<std::string> expected = Deliver(*OpenLoader(*files_, options));
  ASSERT_EQ(expected.size(), 20u);
  for (const int decode : {1, 3, 0}) {
    for (const int read : {1, 5, 0}) {
      for (const uint64_t memory : {uint64_t{1} << 20, uint64_t{64} << 20}) {
        options.decode_threads = decode;
        options.read_threads = read;
        options.memory_bytes = memory;
        ASSERT_EQ(Deliver(*OpenLoader(*files_, options)), expected) << decode << " " << read << " " << memory;
      }
    }
  }
}

TEST_F(LoaderTest, RefusesARankWithoutSamples) {
  LoaderOptions options = Small();
  options.world_size = options.plan.batch_size + 1;
  const auto loader = Loader::Open(*files_, {{.path = "/data"}}, options);
  EXPECT_EQ(loader.status().code(), absl::StatusCode::kInvalidArgument) << loader.status();
  EXPECT_NE(loader.status().message().find("raise batch_size"), std::string_view::npos) << loader.status();
}

TEST_F(LoaderTest, TellsOfLabelsThatStandTogether) {
  for (const bool mixed : {false, true}) {
    std::vector<OwnedSample> samples = MakeSamples(160);
    for (size_t i = 0; i < samples.size(); ++i) {
      std::erase_if(samples[i].fields, [](const auto& field) { return field.first == &LabelColumn(); });
      const auto label = static_cast<int32_t>(mixed ? i * 7 % 160 / 16 : i / 16);
      samples[i].fields.emplace_back(&LabelColumn(), std::string(reinterpret_cast<const char*>(&label), sizeof(label)));
    }
    ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
    ASSERT_TRUE(WriteDataset(*files_, "/data", samples, SmallShards(40, 6)).ok());
    const uint64_t bytes = (*DatasetReader::Open(*files_, "/data"))->summary().bytes;
    for (const uint64_t buffer : {bytes / 4, 2 * bytes}) {
      for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kSequential}) {
        LoaderOptions options = Small();
        options.plan.order = order;
        options.plan.shuffle_buffer_bytes = buffer;
        options.epochs = 1;
        const auto loader = OpenLoader(*files_, options);
        while (*loader->Next() != nullptr) {
        }
        const bool told = !mixed && buffer < bytes && order == SampleOrder::kShuffled;
        EXPECT_EQ(loader->Report().clumped_columns,
                  told ? std::vector<std::string>{"label"} : std::vector<std::string>());
      }
    }
  }
}

TEST_F(LoaderTest, PaddingIsTold) {
  LoaderOptions options = Small();
  options.plan.batch_size = 7;
  options.plan.remainder = Remainder::kPad;
  uint64_t padded = 0, all = 0;
  std::set<uint64_t> ordinals;
  const auto loader = OpenLoader(*files_, options);
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
    for (const BatchSample& sample : batch->samples()) {
      ++all;
      padded += sample.padding;
      EXPECT_EQ(ordinals.insert(sample.ordinal).second, !sample.padding);
    }
  }
  EXPECT_EQ(all, 7 * loader->plan().StepsFrom(0));
  EXPECT_EQ(padded, all - loader->plan().samples_per_epoch());
  EXPECT_GT(padded, 0u);
}

TEST_F(LoaderTest, RanksDivideEachStep) {
  LoaderOptions options = Small();
  options.keys = false;
  std::vector<std::set<uint64_t>> whole;
  const auto one = OpenLoader(*files_, options);
  for (auto batch = *one->Next(); batch != nullptr; batch = *one->Next()) {
    whole.emplace_back();
    for (const BatchSample& sample : batch->samples()) whole.back().insert(sample.ordinal);
  }
  for (const uint64_t world_size : {2, 3, 8, 11}) {
    std::vector<std::set<uint64_t>> parts(whole.size());
    options.world_size = world_size;
    options.empty_batches = true;
    for (options.rank = 0; options.rank < world_size; ++options.rank) {
      const auto loader = OpenLoader(*files_, options);
      size_t step = 0;
      for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next(), ++step) {
        for (const BatchSample& sample : batch->samples()) EXPECT_TRUE(parts[step].insert(sample.ordinal).second);
      }
      EXPECT_EQ(step, whole.size());
    }
    EXPECT_EQ(parts, whole) << world_size;
    options.rank = 0;
  }
}

TEST_F(LoaderTest, ResumesFromItsCursor) {
  LoaderOptions options = Small();
  options.epochs = 3;
  const std::vector<std::string> whole = Deliver(*OpenLoader(*files_, options));
  ASSERT_EQ(whole.size(), 60u);
  for (const size_t stop : {0u, 1u, 7u, 19u, 20u, 33u, 59u, 60u}) {
    const auto first = OpenLoader(*files_, options);
    for (size_t i = 0; i < stop; ++i) ASSERT_TRUE(first->Next().ok());
    LoaderOptions again = options;
    again.cursor = *ParseCursor(FormatCursor(first->cursor()));
    const std::vector<std::string> rest = Deliver(*OpenLoader(*files_, again));
    ASSERT_EQ(rest.size(), 60 - stop) << stop;
    for (size_t i = 0; i < rest.size(); ++i) {
      // Steps count from the beginning of the run.
      const auto body = [](const std::string& text) { return text.substr(text.find(':')); };
      ASSERT_EQ(body(rest[i]), body(whole[stop + i])) << stop << " " << i;
    }
  }
}

TEST_F(LoaderTest, BatchesOutliveTheLoader) {
  std::vector<std::shared_ptr<const Batch>> held;
  std::vector<std::string> shown;
  {
    const auto loader = OpenLoader(*files_, Small());
    for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
      shown.push_back(Show(*batch));
      held.push_back(batch);
    }
  }
  for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(Show(*held[i]), shown[i]);
}

TEST_F(LoaderTest, IsCancelledAndDestroyedAtAnyMoment) {
  std::mt19937_64 random(1);
  for (int round = 0; round < Thinned(200); ++round) {
    LoaderOptions options = Small();
    options.epochs = 0;
    const auto loader = OpenLoader(*files_, options);
    std::shared_ptr<const Batch> held;
    for (uint64_t i = random() % 5; i > 0; --i) held = *loader->Next();
    if (random() % 2) {
      loader->Cancel();
      EXPECT_TRUE(absl::IsCancelled(loader->Next().status()));
      EXPECT_TRUE(absl::IsCancelled(loader->Next().status()));
    }
  }
}

TEST_F(LoaderTest, DropsAndPads) {
  LoaderOptions options = Small();
  options.plan.batch_size = 50;
  options.plan.remainder = Remainder::kDrop;
  EXPECT_EQ(Deliver(*OpenLoader(*files_, options)).size(), 3u);
  options.plan.remainder = Remainder::kPad;
  const auto loader = OpenLoader(*files_, options);
  for (int i = 0; i < 4; ++i) EXPECT_EQ((*loader->Next())->size(), 50u);
  EXPECT_EQ(*loader->Next(), nullptr);
  options.plan.batch_size = 200;
  options.plan.remainder = Remainder::kDrop;
  const auto none = Loader::Open(*files_, {{.path = "/data"}}, options);
  EXPECT_TRUE(absl::IsInvalidArgument(none.status()));
}

TEST_F(LoaderTest, MixesDatasets) {
  ASSERT_TRUE(WriteDataset(*files_, "/other", MakeSamples(50), SmallShards(20, 4)).ok());
  LoaderOptions options = Small();
  options.plan.batch_size = 10;
  const auto loader = Loader::Open(*files_, {{.path = "/data"}, {.path = "/other", .repeat = 2}}, options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  std::map<std::pair<uint32_t, uint64_t>, int> seen;
  for (auto batch = *(*loader)->Next(); batch != nullptr; batch = *(*loader)->Next()) {
    for (const BatchSample& sample : batch->samples()) ++seen[{sample.dataset, sample.ordinal}];
  }
  EXPECT_EQ(seen.size(), 210u);
  for (const auto& [sample, times] : seen) EXPECT_EQ(times, sample.first == 0 ? 1 : 2);
}

// Columns that one of the datasets lacks, of fixed and of any size, in the middle and as the last.
TEST_F(LoaderTest, MixesDatasetsWithDifferentColumns) {
  const std::vector<Column> all = {{.name = "key", .type = Type::kUtf8, .is_key = true},
                                   {.name = "a", .type = Type::kI64},
                                   {.name = "text", .type = Type::kUtf8},
                                   {.name = "b", .type = Type::kI64}};
  const std::vector<std::vector<size_t>> has = {{0, 1, 2, 3}, {0, 3}, {0, 2, 1}};
  const auto value = [](size_t dataset, uint64_t row, size_t column) {
    const auto number = static_cast<int64_t>(1000 * dataset + 10 * row + column);
    return column == 2 ? "text " + std::to_string(number) : Bytes(number);
  };
  std::vector<LoaderDataset> datasets;
  for (size_t d = 0; d < has.size(); ++d) {
    std::vector<Column> columns;
    std::vector<Values> rows(20);
    for (const size_t c : has[d]) columns.push_back(all[c]);
    for (uint64_t i = 0; i < rows.size(); ++i) {
      rows[i].emplace_back(std::to_string(d) + "/" + std::to_string(i));
      for (size_t c = 1; c < has[d].size(); ++c) rows[i].emplace_back(value(d, i, has[d][c]));
    }
    datasets.push_back({.path = "/part" + std::to_string(d)});
    WriteRows(*files_, datasets.back().path, columns, rows);
  }
  LoaderOptions options = Small();
  options.plan.batch_size = 7;
  EXPECT_TRUE(absl::IsOutOfRange(Loader::Open(*files_, datasets, options).status()));
  options.missing = MissingColumns::kAbsent;
  for (const bool named : {false, true}) {
    for (const size_t first : {size_t{0}, size_t{1}, size_t{2}}) {
      options.columns.clear();
      if (named) options.columns = {{.name = "b"}, {.name = "text"}, {.name = "a"}};
      std::rotate(datasets.begin(), datasets.begin() + 1, datasets.end());
      const auto loader = Loader::Open(*files_, datasets, options);
      ASSERT_TRUE(loader.ok()) << loader.status();
      size_t samples = 0;
      for (auto batch = *(*loader)->Next(); batch != nullptr; batch = *(*loader)->Next()) {
        ASSERT_EQ(batch->column_count(), 3u);
        for (size_t i = 0; i < batch->size(); ++i, ++samples) {
          const BatchSample& sample = batch->samples()[i];
          const size_t d = static_cast<size_t>(datasets[sample.dataset].path.back() - '0');
          EXPECT_EQ(batch->key(i), std::to_string(d) + "/" + std::to_string(sample.ordinal));
          for (size_t c = 1; c < all.size(); ++c) {
            const BatchColumn& column = *batch->Find(all[c].name);
            const bool there = std::ranges::find(has[d], c) != has[d].end();
            ASSERT_TRUE(column.present.empty() || column.present[i] == there);
            std::string got;
            if (c == 2) {
              const auto text = column.values.subspan(column.offsets[i], column.offsets[i + 1] - column.offsets[i]);
              got.assign(text.begin(), text.end());
            } else {
              got = Bytes(column.as<int64_t>()[i]);
            }
            EXPECT_EQ(got, there ? value(d, sample.ordinal, c) : c == 2 ? "" : Bytes(int64_t{0})) << d << " " << c;
          }
        }
      }
      EXPECT_EQ(samples, 60u) << first;
    }
  }
  const auto message = [&](std::vector<LoaderColumn> columns) {
    options.columns = std::move(columns);
    return std::string(Loader::Open(*files_, datasets, options).status().message());
  };
  EXPECT_NE(message({{.name = "b"}, {.name = "a"}, {.name = "c"}}).find("none of the 3 datasets has a column \"c\""),
            std::string::npos);
  EXPECT_NE(message({{.name = "text"}}).find("part1: has none of the columns"), std::string::npos);
  // A type of its own is no column that is missing.
  WriteRows(*files_, "/other", {all[0], {.name = "a", .type = Type::kF32}}, {{"0", Bytes(1.0f)}});
  datasets.push_back({.path = "/other"});
  // "/part0" is the first that has it.
  EXPECT_NE(
      message({{.name = "a"}, {.name = "b"}}).find("/other: column \"a\" is of another type or shape than in /part"),
      std::string::npos);
  // The key may be named, too.
  datasets.resize(2);
  options.columns = {{.name = "key"}, {.name = "b"}};
  EXPECT_TRUE(Loader::Open(*files_, {datasets[0], datasets[1]}, options).ok());
}

TEST_F(LoaderTest, RefusesWhatCannotBe) {
  const auto message = [&](const LoaderOptions& options) {
    const auto loader = Loader::Open(*files_, {{.path = "/data"}}, options);
    EXPECT_FALSE(loader.ok());
    return std::string(loader.status().message());
  };
  LoaderOptions options = Small();
  options.rank = 1;
  EXPECT_NE(message(options).find("rank 1 of 1"), std::string::npos);
  options = Small();
  options.memory_bytes = 1000;
  EXPECT_NE(message(options).find("memory_bytes"), std::string::npos);
  options = Small();
  options.columns = {{.name = "nothing"}};
  EXPECT_NE(message(options).find("no column \"nothing\""), std::string::npos);
  options.columns = {{.name = "text"}, {.name = "text"}};
  EXPECT_NE(message(options).find("named twice"), std::string::npos);
  options.columns = {{.name = "text", .decode = ColumnDecode::kImage}};
  EXPECT_NE(message(options).find("cannot be decoded as images"), std::string::npos);
  options.columns = {{.name = "label", .decode = ColumnDecode::kMasks}};
  EXPECT_NE(message(options).find("only rle"), std::string::npos);
  options.columns = {{.name = "text", .decode = ColumnDecode::kFunction}};
  EXPECT_NE(message(options).find("no function"), std::string::npos);
  options.columns[0].function = [](const FunctionInput&, AugmentationRandom&, std::span<uint8_t>) {
    return absl::OkStatus();
  };
  options.columns[0].shape = {uint64_t{1} << 40, uint64_t{1} << 40};
  EXPECT_NE(message(options).find("is of more than"), std::string::npos);
  options = Small();
  options.geometry.kind = GeometryOptions::Kind::kResize;
  EXPECT_NE(message(options).find("0 x 0"), std::string::npos);
  options = Small();
  options.cursor = Cursor{0, 0, 1};
  EXPECT_NE(message(options).find("another plan"), std::string::npos);
  EXPECT_TRUE(absl::IsNotFound(Loader::Open(*files_, {{.path = "/nowhere"}}, Small()).status()));
}

TEST_F(LoaderTest, ReportsAndTraces) {
  LoaderOptions options = Small();
  options.trace = true;
  const auto loader = OpenLoader(*files_, options);
  Deliver(*loader);
  const LoaderReport report = loader->Report();
  EXPECT_EQ(report.batches, 20u);
  EXPECT_EQ(report.samples, 160u);
  EXPECT_GE(report.blocks_read, 28u);
  EXPECT_GT(report.bytes_read, 0u);
  EXPECT_GT(report.read.busy, 0);
  EXPECT_GT(report.decode.busy, 0);
  EXPECT_FALSE(Diagnose(report).stage.empty());
  const std::string trace = loader->Trace();
  EXPECT_NE(trace.find("\"traceEvents\""), std::string::npos);
  EXPECT_NE(trace.find("read block"), std::string::npos);
}

TEST_F(LoaderTest, ViewsShowTheStoredBytesAndOutliveTheLoader) {
  const std::vector<Row> rows = RowsOf(samples_);
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    LoaderOptions options = Small();
    options.read.mode = mode;
    options.epochs = 2;
    // So little memory that blocks would be dropped if the batches did not hold them.
    options.memory_bytes = 1 << 20;
    for (const char* name : {"image", "label", "text"})
      options.columns.push_back({.name = name, .decode = ColumnDecode::kViews});
    std::vector<std::shared_ptr<const Batch>> held;
    {
      const auto loader = OpenLoader(*files_, options);
      for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) held.push_back(batch);
    }
    ASSERT_EQ(held.size(), 40u);
    for (const auto& batch : held) {
      for (size_t c = 0; c < batch->column_count(); ++c) {
        const BatchColumn& column = batch->column(c);
        EXPECT_EQ(column.layout, BatchLayout::kViews);
        ASSERT_EQ(column.views.size(), batch->size());
        for (size_t i = 0; i < batch->size(); ++i) {
          const Row& row = rows[batch->samples()[i].ordinal];
          const auto value = row.find(std::string(column.name));
          EXPECT_EQ(column.present[i] != 0, value != row.end());
          EXPECT_EQ(column.views[i], value == row.end() ? std::string_view() : std::string_view(value->second));
        }
      }
    }
  }
}

TEST_F(LoaderTest, FunctionsDecodeAndFollow) {
  LoaderOptions options = Small();
  LoaderColumn length{.name = "image", .decode = ColumnDecode::kFunction};
  length.dtype = Type::kU32;
  length.shape = {2};
  length.function = [](const FunctionInput& input, AugmentationRandom&, std::span<uint8_t> out) {
    const uint32_t numbers[2] = {static_cast<uint32_t>(input.value ? input.value->size() : 0),
                                 static_cast<uint32_t>(input.ordinal)};
    std::memcpy(out.data(), numbers, sizeof(numbers));
    return absl::OkStatus();
  };
  options.columns = {length};
  options.batch_function = [](Batch& batch) {
    for (uint32_t& number : batch.column(0).as<uint32_t>()) number += 1;
    return absl::OkStatus();
  };
  const std::vector<Row> rows = RowsOf(samples_);
  const auto loader = OpenLoader(*files_, options);
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
    const BatchColumn& column = *batch->Find("image");
    ASSERT_EQ(column.shape, (std::vector<uint64_t>{8, 2}));
    for (size_t i = 0; i < 8; ++i) {
      const uint64_t ordinal = batch->samples()[i].ordinal;
      const auto image = rows[ordinal].find("image");
      EXPECT_EQ(column.as<uint32_t>()[2 * i], 1 + (image == rows[ordinal].end() ? 0 : image->second.size()));
      EXPECT_EQ(column.as<uint32_t>()[2 * i + 1], 1 + ordinal);
    }
  }
}

}  // namespace
}  // namespace shardkit::test
