// What distinguishes two datasets.
#include "shardkit/history.h"

#include "base/strings.h"
#include "dataset/dataset_support.h"

namespace shardkit::test {
namespace {

class DiffTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::vector<OwnedSample>& samples, uint64_t shard_samples = 9,
             bool append = false) {
    DatasetWriterOptions options = SmallShards(shard_samples, 4);
    options.append = append;
    const auto summary = WriteDataset(*files_, path, samples, options);
    ASSERT_TRUE(summary.ok()) << summary.status();
  }

  DatasetDiff Compare(const DiffOptions& options = {}, const std::string& a = "/a", const std::string& b = "/b") {
    auto diff = DiffDatasets(*files_, a, b, options);
    EXPECT_TRUE(diff.ok()) << diff.status();
    return diff.ok() ? *std::move(diff) : DatasetDiff{};
  }

  static std::vector<std::string> Keys(const DiffCount& count) {
    std::vector<std::string> keys;
    for (const DiffExample& example : count.examples) keys.push_back(example.key);
    return keys;
  }

  const std::vector<OwnedSample> samples_ = MakeSamples(40);
  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(DiffTest, OrderAndShardsAreNoDifference) {
  Write("/a", samples_);
  std::vector<OwnedSample> reversed(samples_.rbegin(), samples_.rend());
  for (const bool reverse : {false, true}) {
    const std::string b = reverse ? "/reversed" : "/same";
    Write(b, reverse ? reversed : samples_, 7);
    for (const int threads : {0, 1, 3}) {
      DiffOptions options;
      options.threads = threads;
      const DatasetDiff diff = Compare(options, "/a", b);
      EXPECT_TRUE(diff.same());
      EXPECT_TRUE(diff.by_key);
      EXPECT_EQ(diff.matched, 40u);
      EXPECT_EQ(diff.unread, 0u);
    }
  }
}

TEST_F(DiffTest, FindsEachKindOfDifference) {
  Write("/a", {samples_.begin(), samples_.begin() + 30});
  std::vector<OwnedSample> others(samples_.begin() + 5, samples_.end());
  // The first sample of B that A has: sample 5. Its image changes, and it gets another label than it had, or one at
  // all.
  const auto set = [](OwnedSample& sample, const Column& column, const std::string& bytes) {
    std::erase_if(sample.fields, [&](const auto& field) { return field.first == &column; });
    sample.fields.emplace_back(&column, bytes);
  };
  set(others[3], LabelColumn(), std::string("\xff\xff\xff\x7f", 4));
  set(others[4], LabelColumn(), std::string("\xff\xff\xff\x7f", 4));
  std::erase_if(others[7].fields, [](const auto& field) { return field.first->name == "image"; });
  Write("/b", others, 6);
  const DatasetDiff diff = Compare();
  EXPECT_FALSE(diff.same());
  EXPECT_EQ(diff.matched, 25u);
  EXPECT_EQ(diff.only_a.count, 5u);
  EXPECT_EQ(diff.only_b.count, 10u);
  EXPECT_EQ(Keys(diff.only_a).front(), samples_[0].key);
  EXPECT_EQ(diff.only_a.examples[4].a, std::optional<uint64_t>(4));
  EXPECT_EQ(Keys(diff.only_b).front(), samples_[30].key);
  EXPECT_EQ(diff.only_b.examples[0].b, std::optional<uint64_t>(25));
  ASSERT_EQ(diff.columns.size(), 2u);
  EXPECT_EQ(diff.columns[0].name, "image");
  EXPECT_EQ(Keys(diff.columns[0].values), (std::vector<std::string>{samples_[12].key}));
  EXPECT_EQ(diff.columns[1].name, "label");
  EXPECT_EQ(Keys(diff.columns[1].values), (std::vector<std::string>{samples_[8].key, samples_[9].key}));

  DiffOptions options;
  options.columns = {"image"};
  options.max_examples = 2;
  const DatasetDiff some = Compare(options);
  ASSERT_EQ(some.columns.size(), 1u);
  EXPECT_EQ(some.only_b.count, 10u);
  EXPECT_EQ(some.only_b.examples.size(), 2u);
}

TEST_F(DiffTest, ShardsOfBothAreNotRead) {
  Write("/a", {samples_.begin(), samples_.begin() + 20});
  Write("/a", {samples_.begin() + 20, samples_.end()}, 9, /*append=*/true);
  DiffOptions options;
  options.a.generation = 1;
  // Their bytes are damaged, and nobody looks.
  for (const std::string name : {"00000000.shard", "00000001.shard", "00000002.shard"}) {
    std::string bytes = ReadAll(*files_, "/a/" + name);
    for (char& byte : bytes) byte = 'x';
    WriteFile(*files_, "/a/" + name, bytes);
  }
  const DatasetDiff diff = Compare(options, "/a", "/a");
  EXPECT_EQ(diff.unread, 20u);
  EXPECT_EQ(diff.only_a.count, 0u);
  EXPECT_EQ(diff.only_b.count, 20u);
}

TEST_F(DiffTest, ColumnsAndTypes) {
  const Column other_label = {.name = "label", .type = Type::kI64, .nullable = true};
  const Column extra = {.name = "extra", .type = Type::kUtf8, .codec = Codec::kZstd, .nullable = true};
  Write("/a", samples_);
  std::vector<OwnedSample> others = samples_;
  for (OwnedSample& sample : others) {
    std::erase_if(sample.fields, [](const auto& field) { return field.first->name != "image"; });
    sample.fields.emplace_back(&other_label, std::string(8, '\0'));
    sample.fields.emplace_back(&extra, "more");
  }
  auto writer = DatasetWriter::Create(*files_, "/b", MakeSchema({KeyColumn(), ImageColumn(), other_label, extra}));
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const OwnedSample& sample : others) ASSERT_TRUE((*writer)->Append(sample.View()).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const DatasetDiff diff = Compare();
  EXPECT_EQ(diff.columns_only_a, (std::vector<std::string>{"text"}));
  EXPECT_EQ(diff.columns_only_b, (std::vector<std::string>{"extra"}));
  EXPECT_EQ(diff.types, (std::vector<std::string>{"label"}));
  EXPECT_EQ(diff.matched, 40u);

  DiffOptions options;
  options.columns = {"image"};
  EXPECT_TRUE(Compare(options).same());
  options.columns = {"none"};
  EXPECT_TRUE(absl::IsOutOfRange(DiffDatasets(*files_, "/a", "/b", options).status()));
}

TEST_F(DiffTest, WithoutKeysByOrdinal) {
  const auto write = [&](const std::string& path, int begin, int end, uint64_t shard_samples) {
    const Column text = {.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd};
    auto writer = DatasetWriter::Create(*files_, path, MakeSchema({text}), SmallShards(shard_samples, 4));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int i = begin; i < end; ++i) {
      const std::string value = StrCat("value ", i == 15 && path == "/b" ? 100 : i);
      const std::optional<Value> row[] = {Value(value)};
      ASSERT_TRUE((*writer)->Append(row).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  };
  write("/a", 0, 30, 10);
  write("/b", 0, 25, 10);
  const DatasetDiff diff = Compare();
  EXPECT_FALSE(diff.by_key);
  EXPECT_EQ(diff.unread, 10u);  // the first shard of both
  EXPECT_EQ(diff.matched, 25u);
  EXPECT_EQ(diff.only_a.count, 5u);
  EXPECT_EQ(diff.only_b.count, 0u);
  ASSERT_EQ(diff.columns.size(), 1u);
  EXPECT_EQ(diff.columns[0].values.examples[0].a, std::optional<uint64_t>(15));
  const DatasetDiff back = Compare({}, "/b", "/a");
  EXPECT_EQ(back.only_b.count, 5u);
  EXPECT_EQ(back.only_b.examples[0].b, std::optional<uint64_t>(25));
  Write("/keys", samples_);
  EXPECT_TRUE(absl::IsFailedPrecondition(DiffDatasets(*files_, "/a", "/keys").status()));
}

// Samples in shards of their own, so that none is known by its content hash.
TEST_F(DiffTest, RepeatedKeysAreMatchedOneByOne) {
  const OwnedSample& one = samples_[1];
  OwnedSample other = samples_[2], third = samples_[3];
  other.key = third.key = one.key;
  Write("/two", {one, samples_[5]});
  Write("/five", {one, other, samples_[5], third, samples_[5]}, 2);
  const DatasetDiff more = Compare({}, "/two", "/five");
  EXPECT_FALSE(more.same());
  EXPECT_EQ(more.matched, 2u);
  EXPECT_EQ(more.only_a.count, 0u);
  EXPECT_EQ(more.only_b.count, 3u);
  EXPECT_EQ(more.only_b.examples[0].b, std::optional<uint64_t>(1));
  EXPECT_EQ(Keys(more.only_b), (std::vector<std::string>{one.key, one.key, samples_[5].key}));
  const DatasetDiff less = Compare({}, "/five", "/two");
  EXPECT_EQ(less.only_a.count, 3u);
  EXPECT_EQ(less.only_b.count, 0u);
  EXPECT_TRUE(less.columns.empty());

  // The same samples in other shards, and in an order in which those of a key keep theirs.
  Write("/resharded", {one, other, samples_[5], third, samples_[5]}, 3);
  EXPECT_TRUE(Compare({}, "/five", "/resharded").same());
  Write("/moved", {samples_[5], samples_[5], one, other, third}, 3);
  EXPECT_TRUE(Compare({}, "/five", "/moved").same());
  Write("/turned", {third, other, one, samples_[5], samples_[5]}, 3);
  const DatasetDiff turned = Compare({}, "/five", "/turned");
  EXPECT_EQ(turned.matched, 5u);
  ASSERT_FALSE(turned.columns.empty());
  EXPECT_EQ(turned.columns[0].values.examples[0].b, std::optional<uint64_t>(0));
  EXPECT_EQ(turned.columns[0].values.examples[0].a, std::optional<uint64_t>(0));
}

TEST_F(DiffTest, AShardThatOneHasTwiceIsMatchedOnce) {
  Write("/a", {samples_[1], samples_[2]}, 2);
  Write("/b", {samples_[1], samples_[2], samples_[1], samples_[2]}, 2);
  const DatasetDiff diff = Compare();
  EXPECT_EQ(diff.unread, 2u);
  EXPECT_EQ(diff.matched, 2u);
  EXPECT_EQ(diff.only_b.count, 2u);
  EXPECT_EQ(Compare({}, "/b", "/a").only_a.count, 2u);
}

TEST_F(DiffTest, LittleMemoryForKeysChangesNothing) {
  std::vector<OwnedSample> a(samples_.begin(), samples_.begin() + 30);
  std::vector<OwnedSample> b(samples_.rbegin(), samples_.rend() - 7);
  for (int i = 0; i < 9; ++i) a.push_back(samples_[static_cast<size_t>(i * 3 % 8)]);
  for (int i = 0; i < 9; ++i) b.push_back(samples_[static_cast<size_t>(i * 5 % 13)]);
  std::erase_if(b[11].fields, [](const auto& field) { return field.first->name == "image"; });
  Write("/a", a);
  Write("/b", b, 5);
  const DatasetDiff all = Compare();
  EXPECT_EQ(all.matched + all.only_a.count, a.size());
  EXPECT_EQ(all.matched + all.only_b.count, b.size());
  EXPECT_GT(all.only_a.count, 3u);
  for (const size_t examples : {3, 100}) {
    DiffOptions options;
    options.max_examples = examples;
    const DatasetDiff whole = Compare(options);
    options.key_memory = 200;
    const DatasetDiff parts = Compare(options);
    EXPECT_EQ(parts.matched, whole.matched);
    for (const auto& [part, one] : {std::pair(&parts.only_a, &whole.only_a), std::pair(&parts.only_b, &whole.only_b),
                                    std::pair(&parts.columns.at(0).values, &whole.columns.at(0).values)}) {
      EXPECT_EQ(part->count, one->count);
      EXPECT_EQ(Keys(*part), Keys(*one));
    }
  }
}

TEST_F(DiffTest, IsCancelled) {
  Write("/a", samples_);
  Write("/b", samples_, 7);
  Cancellation cancellation;
  cancellation.Cancel();
  DiffOptions options;
  options.cancellation = &cancellation;
  EXPECT_TRUE(absl::IsCancelled(DiffDatasets(*files_, "/a", "/b", options).status()));
}

}  // namespace
}  // namespace shardkit::test
