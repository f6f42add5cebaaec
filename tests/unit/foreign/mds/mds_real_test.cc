// Every MDS dataset in the folder of real data (environment variable SHARDKIT_TEST_DATA).
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "foreign/mds/mds_directory.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

std::vector<std::filesystem::path> Datasets() {
  std::vector<std::filesystem::path> found;
  const char* root = std::getenv("SHARDKIT_TEST_DATA");
  if (root == nullptr) return found;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator i(std::filesystem::path(root) / "mds", error), end;
       !error && i != end; i.increment(error)) {
    if (i->path().filename() == "index.json") found.push_back(i->path().parent_path());
  }
  std::ranges::sort(found);
  return found;
}

std::string Value(const DatasetReader& dataset, uint64_t sample, std::string_view column) {
  BlockBuffer buffer;
  const auto value = dataset.ReadValue(sample, *dataset.FindColumn(column), &buffer);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? std::string(**value) : std::string();
}

TEST(MdsReal, EveryDatasetIsReadWhole) {
  const auto datasets = Datasets();
  if (datasets.empty()) GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has mds/";
  for (const auto& path : datasets) {
    for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect}) {
      DatasetOptions options;
      options.mode = mode;
      const absl::Status status = ReadEverything(*PosixFileSystem(), path.string(), options);
      EXPECT_TRUE(status.ok()) << status;
      const auto dataset = OpenDataset(*PosixFileSystem(), path.string(), options);
      ASSERT_NE(dataset, nullptr);
      uint64_t samples = 0;
      const auto scanner = dataset->Scan();
      while (true) {
        const auto block = (*scanner)->Next();
        ASSERT_TRUE(block.ok()) << block.status();
        if (*block == nullptr) break;
        samples += (*block)->view().sample_count();
      }
      EXPECT_EQ(samples, dataset->sample_count()) << path;
    }
    EXPECT_TRUE(CheckMdsHashes(*PosixFileSystem(), path.string()).ok());
  }
}

// Values that the peer's own reader gives for these files.
TEST(MdsReal, KnownValues) {
  const auto datasets = Datasets();
  if (datasets.empty()) GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has mds/";
  size_t checked = 0;
  for (const auto& path : datasets) {
    const auto dataset = OpenDataset(*PosixFileSystem(), path.string());
    ASSERT_NE(dataset, nullptr);
    const std::string name = path.filename().string();
    if (name == "mosaic_mix_zstd") {
      ++checked;
      for (uint64_t i = 0; i < dataset->sample_count(); i += 997)
        EXPECT_EQ(Value(*dataset, i, "id"), Little(int64_t(i) + 1));
    } else if (name == "x") {
      ++checked;
      const auto array = ParseNdarray(dataset->columns()[*dataset->FindColumn("x")], Value(*dataset, 99, "x"));
      ASSERT_TRUE(array.ok()) << array.status();
      EXPECT_EQ(array->dtype, Type::kF64);
    } else if (name == "llmfoundry_text-data") {
      ++checked;
      EXPECT_EQ(dataset->columns()[0].shape, (std::vector<uint64_t>{30}));
      EXPECT_EQ(dataset->sample_count(), 20u);
    }
  }
  EXPECT_GE(checked, 1u);
}

}  // namespace
}  // namespace shardkit::test
