// Sorting beyond memory: the same order whatever the memory, equal numbers as they came, and nothing left behind.
#include "operations/copy/record_sorter.h"

#include <algorithm>
#include <random>

#include "dataset/dataset_support.h"
#include "shardkit/filesystem.h"

namespace shardkit::test {
namespace {

using Records = std::vector<std::pair<uint64_t, std::string>>;

Records MakeRecords(size_t count, uint64_t numbers) {
  std::mt19937_64 random(7);
  Records records;
  for (size_t i = 0; i < count; ++i) {
    records.emplace_back(random() % numbers, std::to_string(i) + std::string(random() % 40, 'x'));
  }
  return records;
}

std::string PathOf(size_t file) { return "/sort-" + std::to_string(file) + ".tmp"; }

absl::StatusOr<Records> Sorted(FileSystem& files, const Records& records, uint64_t memory) {
  operations::RecordSorter sorter(files, PathOf, memory, nullptr);
  for (const auto& [number, record] : records) {
    if (absl::Status status = sorter.Add(number, record); !status.ok()) return status;
  }
  EXPECT_EQ(sorter.count(), records.size());
  if (absl::Status status = sorter.Sort(); !status.ok()) return status;
  Records sorted;
  uint64_t number = 0;
  std::string_view record;
  while (true) {
    const auto more = sorter.Next(&number, &record);
    if (!more.ok()) return more.status();
    if (!*more) break;
    sorted.emplace_back(number, record);
  }
  EXPECT_FALSE(*sorter.Next(&number, &record)) << "still at the end";
  return sorted;
}

TEST(RecordSorterTest, AnyMemoryGivesTheSameOrder) {
  const auto files = NewMemoryFileSystem();
  for (const uint64_t numbers : {uint64_t{1}, uint64_t{5}, UINT64_MAX}) {
    const Records records = MakeRecords(3000, numbers);
    Records expected = records;
    std::ranges::stable_sort(expected, {}, [](const auto& each) { return each.first; });
    for (const uint64_t memory : {1 << 24, 1 << 16, 1000, 1}) {
      const auto sorted = Sorted(*files, records, memory);
      ASSERT_TRUE(sorted.ok()) << sorted.status();
      EXPECT_TRUE(*sorted == expected) << numbers << " numbers in " << memory;
      EXPECT_TRUE(ReadTree(*files, "/").empty());
    }
  }
  EXPECT_TRUE(Sorted(*files, {}, 1000)->empty());
}

TEST(RecordSorterTest, RecordsLargerThanTheMemoryAndThePieces) {
  const auto files = NewMemoryFileSystem();
  Records records;
  for (const uint64_t number : {3, 1, 2}) {
    records.emplace_back(number, std::string((3 << 20) + number, static_cast<char>('a' + number)));
    records.emplace_back(number, "");
  }
  const auto sorted = Sorted(*files, records, 1000);
  ASSERT_TRUE(sorted.ok()) << sorted.status();
  std::ranges::stable_sort(records, {}, [](const auto& each) { return each.first; });
  EXPECT_TRUE(*sorted == records);
}

// Numbers as hashes are: of all 64 bits, in a known order.
uint64_t Spread(uint64_t i) { return i * 0x9e3779b97f4a7c15; }

TEST(RecordSorterTest, IsCancelledBetweenPiecesOfARun) {
  const auto files = NewMemoryFileSystem();
  Cancellation cancellation;
  {
    const auto path_of = [&](size_t file) {
      cancellation.Cancel();
      return PathOf(file);
    };
    operations::RecordSorter sorter(*files, path_of, uint64_t{1} << 20, &cancellation);
    ASSERT_TRUE(sorter.Add(1, std::string(size_t{3} << 20, 'x')).ok());
    const absl::Status status = sorter.Add(2, "y");
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(files->Stat(PathOf(0))->size, 0u) << "of the run in hand nothing more is written";
  }
  EXPECT_TRUE(ReadTree(*files, "/").empty());
}

TEST(RecordSorterTest, FilesGoOneAfterTheOther) {
  const auto files = NewMemoryFileSystem();
  const size_t count = 1000;
  operations::RecordSorter sorter(*files, PathOf, 5000, nullptr);
  for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(sorter.Add(Spread(i), std::string(100, 'x')).ok());
  ASSERT_TRUE(sorter.Sort().ok());
  ASSERT_EQ(ReadTree(*files, "/").size(), operations::RecordSorter::kFiles);
  uint64_t number = 0, last = 0;
  std::string_view record;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(*sorter.Next(&number, &record));
    EXPECT_LE(last, number);
    last = number;
    EXPECT_EQ(ReadTree(*files, "/").size(), operations::RecordSorter::kFiles - (number >> 60)) << number;
  }
  EXPECT_FALSE(*sorter.Next(&number, &record));
  EXPECT_TRUE(ReadTree(*files, "/").empty());
}

// Changes a byte of each file when it is opened, or cuts it there.
class DamagingFileSystem final : public ForwardingFileSystem {
 public:
  DamagingFileSystem(FileSystem& files, size_t at, bool cut)
      : ForwardingFileSystem(files), files_(files), at_(at), cut_(cut) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    std::string bytes = ReadAll(files_, path);
    EXPECT_GT(bytes.size(), at_);
    if (cut_) {
      bytes.resize(at_);
    } else {
      bytes[at_] = static_cast<char>(bytes[at_] ^ 0x40);
    }
    WriteFile(files_, path, bytes);
    return files_.OpenForReading(path, mode, size);
  }

 private:
  FileSystem& files_;
  const size_t at_;
  const bool cut_;
};

TEST(RecordSorterTest, AChangedFileIsNoticed) {
  const Records records = MakeRecords(200, 10);
  for (const bool cut : {false, true}) {
    for (const size_t at : {0, 9, 12, 500, 2000}) {
      const auto memory = NewMemoryFileSystem();
      DamagingFileSystem files(*memory, at, cut);
      const absl::Status status = Sorted(files, records, 2000).status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
      EXPECT_TRUE(ReadTree(*memory, "/").empty());
    }
  }
}

}  // namespace
}  // namespace shardkit::test
