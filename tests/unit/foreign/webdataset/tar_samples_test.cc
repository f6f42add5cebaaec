// The index of a tar as a shard: what it says, and what is refused.
#include "foreign/webdataset/tar_samples.h"

#include <functional>

#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "foreign/webdataset/tar_index.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"
#include "shardkit/validate.h"

namespace shardkit::test {
namespace {

using foreign::TarBlock;
using foreign::TarIndex;
using foreign::TarSamples;
using foreign::TarValue;

// Three samples in two blocks: the first two, and one that is larger than 4 MiB.
TarIndex Example() {
  TarIndex index;
  index.tar_length = 6 << 20;
  index.identity = 0x1122334455667788;
  index.columns = {"jpg", "/."};
  index.keys = "a/0d/1e";
  index.key_ends = {0, 3, 6, 7};
  index.value_ends = {0, 2, 3, 4};
  index.values = {{512, 5, 0}, {1536, 0, 1}, {2560, 600, 1}, {4096, 5 << 20, 0}};
  index.checksums = {1, 2, 3, 4};
  index.blocks = {{0, 512}, {2, 4096}, {3, (5 << 20) + 4096}};
  return index;
}

class TarSamplesTest : public testing::Test {
 protected:
  std::unique_ptr<ShardReader> Open(const TarIndex& index) {
    const auto bytes = foreign::EncodeTarIndex(index);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    WriteFile(*files_, "/x.tar.shardidx", *bytes);
    auto shard = ShardReader::Open(*files_, "/x.tar.shardidx");
    EXPECT_TRUE(shard.ok()) << shard.status();
    return *std::move(shard);
  }

  // With all its samples, or the first error.
  absl::StatusOr<TarIndex> Decode(const ShardReader& shard) {
    auto index = foreign::DecodeTarIndex(shard.schema(), *shard.ReadMetadata(), shard.blocks());
    if (!index.ok()) return index;
    for (size_t i = 0; i < shard.blocks().size(); ++i) {
      BlockBuffer buffer;
      BlockView view;
      EXPECT_TRUE(shard.ReadBlock(i, {}, &buffer, &view).ok());
      const auto samples = foreign::DecodeTarBlock(*index, i, view);
      if (!samples.ok()) return samples.status();
      const uint64_t keys = index->keys.size(), values = index->values.size();
      index->keys += samples->keys;
      index->values.insert(index->values.end(), samples->values.begin(), samples->values.end());
      index->checksums.insert(index->checksums.end(), samples->checksums.begin(), samples->checksums.end());
      for (uint64_t k = 1; k <= samples->sample_count(); ++k) {
        index->key_ends.push_back(keys + samples->key_ends[k]);
        index->value_ends.push_back(values + samples->value_ends[k]);
      }
    }
    return index;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(TarSamplesTest, RoundTrip) {
  for (const TarIndex& index : {Example(), TarIndex{.blocks = {{0, 0}}}}) {
    const auto decoded = Decode(*Open(index));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, index);
    EXPECT_EQ(ValidateText(*files_, "/x.tar.shardidx"), "");
  }
}

// What interop.md describes, as any reader of shards sees it.
TEST_F(TarSamplesTest, IsAShardAsDescribed) {
  const auto shard = Open(Example());
  const std::vector<std::string> names = {"key", "column", "offset", "length", "xxh3"};
  ASSERT_EQ(shard->schema().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(shard->schema()[i].name, names[i]);
  EXPECT_EQ(shard->schema().key_column(), std::optional<size_t>(0));
  EXPECT_EQ(*ClassNames(shard->schema()[1]), (std::vector<std::string>{"jpg", "/."}));
  EXPECT_EQ(*shard->ReadMetadata(), (Metadata{{"shardkit.tar_length", "6291456"},
                                              {"shardkit.tar_identity", "1122334455667788"},
                                              {"shardkit.tar_blocks", "512 4096 5246976"}}));
  ASSERT_EQ(shard->blocks().size(), 2u);
  EXPECT_EQ(shard->blocks()[1].first_sample, 2u);
  BlockBuffer buffer;
  EXPECT_EQ(*shard->FindKey("d/1", &buffer), std::optional<uint64_t>(1));
  const auto numbers = [&](uint64_t sample, size_t column) {
    const auto value = shard->ReadValue(sample, column, &buffer);
    const auto array = ParseNdarray(shard->schema()[column], **value);
    EXPECT_EQ(array->shape.size(), 1u);
    std::vector<uint64_t> found;
    const size_t size = ScalarSize(array->dtype);
    for (uint64_t i = 0; i < array->element_count(); ++i) {
      uint64_t number = 0;
      std::memcpy(&number, array->data.data() + size * i, size);
      found.push_back(number);
    }
    return found;
  };
  using Numbers = std::vector<uint64_t>;
  EXPECT_EQ(numbers(0, 1), (Numbers{0, 1}));
  EXPECT_EQ(numbers(0, 2), (Numbers{512, 1536}));
  EXPECT_EQ(numbers(0, 3), (Numbers{5, 0}));
  EXPECT_EQ(numbers(0, 4), (Numbers{1, 2}));
  EXPECT_EQ(numbers(2, 2), (Numbers{4096}));
}

TEST_F(TarSamplesTest, BlocksAreAsLargeAsTheyMayBe) {
  const auto samples_of_blocks = [](const TarIndex& index) {
    std::vector<uint64_t> counts;
    const std::vector<TarBlock> blocks = FormTarBlocks(index);
    for (size_t i = 0; i + 1 < blocks.size(); ++i) {
      counts.push_back(blocks[i + 1].first_sample - blocks[i].first_sample);
    }
    return counts;
  };
  // `step` bytes from one to the next, each with one value and a key of `key` bytes.
  const auto samples = [](uint64_t count, uint64_t step, uint64_t key) {
    TarIndex index;
    index.columns = {"x"};
    for (uint64_t i = 0; i < count; ++i) {
      index.keys += std::string(key - 1, 'k') + static_cast<char>('0' + i % 10);
      index.key_ends.push_back(index.keys.size());
      index.value_ends.push_back(i + 1);
      index.values.push_back({512 + step * i, step - 512, 0});
    }
    index.checksums.resize(count);
    index.tar_length = 1 << 30;
    return index;
  };
  using Counts = std::vector<uint64_t>;
  EXPECT_EQ(samples_of_blocks(samples(5, 1 << 20, 1)), (Counts{4, 1}));
  EXPECT_EQ(samples_of_blocks(samples(3, 5 << 20, 1)), (Counts{1, 1, 1}));
  EXPECT_EQ(samples_of_blocks(samples(8194, 512, 1)), (Counts{8192, 2}));
  EXPECT_EQ(samples_of_blocks(samples(300, 512, 32768)), (Counts{128, 128, 44}));
  TarIndex wide = samples(600, 512, 1);
  for (int i = 1; i < 4095; ++i) wide.columns.push_back("y" + std::to_string(i));
  EXPECT_EQ(samples_of_blocks(wide), (Counts{256, 256, 88}));
  for (TarIndex index : {samples(8194, 512, 1), samples(300, 512, 32768), wide}) {
    const auto decoded = Decode(*Open(index));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    index.blocks = FormTarBlocks(index);
    EXPECT_TRUE(*decoded == index);
  }
}

TEST_F(TarSamplesTest, EveryRuleOfSamplesIsChecked) {
  const std::function<void(TarIndex&)> breaks[] = {
      [](TarIndex& index) { index.values[0].offset = 513; },
      [](TarIndex& index) { index.values[0].offset = 0; },
      [](TarIndex& index) { index.values[1].offset = 1024; },     // no room for a header
      [](TarIndex& index) { index.values[2].length = 1025; },     // no room for the header of the next block
      [](TarIndex& index) { index.values[3].length = 6 << 20; },  // past the end
      [](TarIndex& index) { std::swap(index.values[0], index.values[2]); },
      [](TarIndex& index) { index.values[0].column = 2; },
      [](TarIndex& index) { index.values[0].column = 1; },  // twice in a sample
      [](TarIndex& index) { index.columns[0] = "/."; },
      [](TarIndex& index) { index.columns[0] = "key"; },
      [](TarIndex& index) { index.columns[0] = ""; },
      [](TarIndex& index) { index.columns[0] = std::string(256, 'x'); },
      [](TarIndex& index) { index.columns[0] = "li\nne"; },
      [](TarIndex& index) { index.columns.resize(4096); },
      [](TarIndex& index) { index.keys = "a/0a/0e"; },
      [](TarIndex& index) {
        index.key_ends = {0, 0, 6, 7};
      },
      [](TarIndex& index) {
        index.value_ends = {0, 0, 3, 4};
      },
      [](TarIndex& index) {
        index.keys.insert(0, std::string(32768, 'k'));
        for (size_t i = 1; i < 4; ++i) index.key_ends[i] += 32768;
      },
      [](TarIndex& index) { index.tar_length = 5 << 20; },
      [](TarIndex& index) { index.tar_length = UINT64_MAX; },
  };
  size_t number = 0;
  for (const auto& damage : breaks) {
    TarIndex index = Example();
    damage(index);
    const auto decoded = Decode(*Open(index));
    EXPECT_TRUE(absl::IsDataLoss(decoded.status())) << number << ": " << decoded.status();
    ++number;
  }
}

// What the metadata say is not believed.
TEST_F(TarSamplesTest, EveryRuleOfMetadataIsChecked) {
  const auto shard = Open(Example());
  const Metadata good = *shard->ReadMetadata();
  const auto decode = [&](const Metadata& metadata) {
    return foreign::DecodeTarIndex(shard->schema(), metadata, shard->blocks()).status();
  };
  EXPECT_TRUE(decode(good).ok()) << decode(good);
  for (const auto& [name, value] : good) {
    Metadata without = good;
    without.erase(name);
    EXPECT_TRUE(absl::IsDataLoss(decode(without))) << name;
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"shardkit.tar_length", ""},
           {"shardkit.tar_length", "-1"},
           {"shardkit.tar_length", "6291456 "},
           {"shardkit.tar_length", "5246975"},
           {"shardkit.tar_length", "18446744073709551616"},
           {"shardkit.tar_identity", "112233445566778"},
           {"shardkit.tar_identity", "11223344556677889"},
           {"shardkit.tar_identity", "112233445566778g"},
           {"shardkit.tar_blocks", ""},
           {"shardkit.tar_blocks", "512 4096"},
           {"shardkit.tar_blocks", "512 4096 5246976 5246976"},
           {"shardkit.tar_blocks", "512 4096 5246976 "},
           {"shardkit.tar_blocks", "512  4096 5246976"},
           {"shardkit.tar_blocks", "0 4096 5246976"},
           {"shardkit.tar_blocks", "513 4096 5246976"},
           {"shardkit.tar_blocks", "4096 512 5246976"},
           {"shardkit.tar_blocks", "512 4194817 5246976"},
           {"shardkit.tar_blocks", "512 1048576 512"},
           {"shardkit.tar_blocks", "512 512 5246976"},
           {"shardkit.tar_blocks", "512 4096 6291457"},
       }) {
    Metadata changed = good;
    changed[name] = value;
    EXPECT_TRUE(absl::IsDataLoss(decode(changed))) << name << " " << value << ": " << decode(changed);
  }
}

TEST_F(TarSamplesTest, AnotherShardIsNoIndex) {
  ASSERT_TRUE(WriteDataset(*files_, "/data", MakeSamples(3), SmallShards(3, 3)).ok());
  const auto shard = ShardReader::Open(*files_, "/data/00000000.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  const absl::Status status =
      foreign::DecodeTarIndex((*shard)->schema(), *(*shard)->ReadMetadata(), (*shard)->blocks()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

}  // namespace
}  // namespace shardkit::test
