// A buffer outlives the readers that used it.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "shardkit/copy.h"

namespace shardkit::test {
namespace {

// Datasets at /shard, /mds and /tar: shards of one sample each, all different.
std::unique_ptr<FileSystem> NewDatasets(size_t samples) {
  auto files = NewMemoryFileSystem();
  static const Column text{.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd};
  auto writer = DatasetWriter::Create(*files, "/shard", MakeSchema({KeyColumn(), text}), SmallShards(1, 1));
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (size_t i = 0; i < samples; ++i) {
    const OwnedSample sample{StrCat("key", i), {{&text, StrCat("text ", i)}}};
    EXPECT_TRUE((*writer)->Append(sample.View(), i + 1).ok());
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  for (const Container to : {Container::kMds, Container::kWebDataset}) {
    ConvertOptions options;
    options.to = to;
    options.lossy = true;
    options.mds.shard_samples = options.webdataset.shard_samples = 1;
    const auto converted = Convert(*files, "/shard", StrCat("/", ContainerName(to)), options);
    EXPECT_TRUE(converted.ok()) << converted.status();
  }
  return files;
}

// The next reader gets the memory that one reader frees.
TEST(BlockBufferReuse, AReaderAtTheAddressOfAnother) {
  const auto files = NewDatasets(6);
  for (const std::string container : {"shard", "mds", "webdataset"}) {
    const std::vector<Row> rows = ScanRows(*files, "/" + container);
    ASSERT_EQ(rows.size(), 6u);
    BlockBuffer buffer;
    for (size_t turn = 0; turn < 5 * rows.size(); ++turn) {
      const size_t sample = turn * 5 % rows.size();
      const auto dataset = DatasetReader::Open(*files, "/" + container);
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      const auto shard = (*dataset)->OpenShard(sample);
      ASSERT_TRUE(shard.ok()) << shard.status();
      for (size_t c = 0; c < (*dataset)->columns().size(); ++c) {
        const auto value = (*shard)->ReadValue(0, c, &buffer);
        ASSERT_TRUE(value.ok()) << value.status();
        ASSERT_TRUE(value->has_value());
        EXPECT_EQ(**value, rows[sample].at((*dataset)->columns()[c].name)) << container << ", turn " << turn;
      }
    }
  }
}

}  // namespace
}  // namespace shardkit::test
