// Sorting beyond memory: the same order whatever the memory, equal numbers as they came, and nothing left behind.
#include "convert/columns/record_sorter.h"

#include <algorithm>
#include <random>

#include "dataset/dataset_support.h"

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

absl::StatusOr<Records> Sorted(FileSystem& files, const Records& records, uint64_t memory) {
  convert::RecordSorter sorter(files, "/sort.tmp", memory);
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
      EXPECT_FALSE(Exists(*files, "/sort.tmp"));
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

TEST(RecordSorterTest, AChangedFileIsNoticed) {
  const auto files = NewMemoryFileSystem();
  const Records records = MakeRecords(200, 10);
  for (const size_t at : {0, 9, 12, 500, 2000}) {
    convert::RecordSorter sorter(*files, "/sort.tmp", 2000);
    for (const auto& [number, record] : records) ASSERT_TRUE(sorter.Add(number, record).ok());
    // The last run is written by Sort, and the file read afterwards.
    std::string bytes = ReadAll(*files, "/sort.tmp");
    ASSERT_GT(bytes.size(), at);
    auto file = files->OpenForAppending("/sort.tmp");
    ASSERT_TRUE(file.ok());
    const std::string changed(1, static_cast<char>(bytes[at] ^ 0x40));
    ASSERT_TRUE((*file)->WriteAt(at, changed).ok());
    ASSERT_TRUE((*file)->Close().ok());
    absl::Status status = sorter.Sort();
    uint64_t number = 0;
    std::string_view record;
    while (status.ok()) {
      const auto more = sorter.Next(&number, &record);
      status = more.status();
      if (more.ok() && !*more) break;
    }
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
  }
}

}  // namespace
}  // namespace shardkit::test
