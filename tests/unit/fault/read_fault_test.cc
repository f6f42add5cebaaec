// Reading, validating and unpacking when one call to the file system fails.
#include "fault/fault_support.h"

namespace shardkit::test {
namespace {

std::unique_ptr<FileSystem> NewDataset() {
  auto files = NewMemoryFileSystem();
  WriteTree(*files, "/out", ExpectedDataset());
  return files;
}

// The reader can do without the offset index.
bool IsIndex(const FileSystemCall& call) { return call.path == "/out/dataset.segment"; }

void Nothing(FileSystem&, const absl::Status&) {}

TEST(ReadFaultTest, EveryCallOfAScan) {
  const size_t expected = kInputSamples;
  for (const int threads : {0, 2}) {
    FaultRun run;
    run.prepare = NewDataset;
    run.may_succeed = IsIndex;
    run.check = Nothing;
    run.operate = [&](FileSystem& files) -> absl::Status {
      DatasetOptions options;
      options.max_open_shards = 1;
      auto dataset = DatasetReader::Open(files, "/out", options);
      if (!dataset.ok()) return dataset.status();
      ScanOptions scan;
      scan.threads = threads;
      auto scanner = (*dataset)->Scan(scan);
      if (!scanner.ok()) return scanner.status();
      size_t samples = 0;
      while (true) {
        auto block = (*scanner)->Next();
        if (!block.ok()) return block.status();
        if (*block == nullptr) break;
        samples += (*block)->view().sample_count();
      }
      EXPECT_EQ(samples, expected);  // an error is not mistaken for the end
      return absl::OkStatus();
    };
    FailEveryCall(run);
  }
}

TEST(ReadFaultTest, EveryCallOfReadingValuesAndKeys) {
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    FaultRun run;
    run.prepare = NewDataset;
    run.may_succeed = IsIndex;
    run.check = Nothing;
    run.operate = [&](FileSystem& files) -> absl::Status {
      DatasetOptions options;
      options.mode = mode;
      options.max_open_shards = 2;
      const auto opened = DatasetReader::Open(files, "/out", options);
      if (!opened.ok()) return opened.status();
      const DatasetReader& dataset = **opened;
      BlockBuffer buffer;
      size_t present = 0;
      for (size_t column = 0; column < dataset.columns().size(); ++column) {
        for (uint64_t sample = 0; sample < dataset.sample_count(); sample += 5) {
          const auto value = dataset.ReadValue(sample, column, &buffer);
          if (!value.ok()) return value.status();
          present += value->has_value();
          const auto copied = dataset.CopyValue(sample, column, [](std::string_view) { return absl::OkStatus(); });
          if (!copied.ok()) return copied.status();
          EXPECT_EQ(*copied, value->has_value());
        }
      }
      EXPECT_GT(present, 5u);
      if (dataset.index_problem().empty()) {
        const std::vector<uint64_t> samples = {20, 1, 9};
        std::vector<std::string_view> values(3);
        const absl::Status status = dataset.ReadValues(samples, *dataset.FindColumn("jpg"), &buffer, values);
        if (!status.ok()) return status;
        EXPECT_FALSE(values[0].empty());
      }
      const auto found = dataset.FindKey("d2/s122", &buffer);
      if (!found.ok()) return found.status();
      EXPECT_EQ(*found, 22u);
      return dataset.ReadStatistics().status();
    };
    FailEveryCall(run);
  }
}

TEST(ReadFaultTest, EveryCallOfValidating) {
  for (const int threads : {1, 2}) {
    FaultRun run;
    run.prepare = NewDataset;
    run.check = Nothing;
    run.may_succeed = IsIndex;  // opened again with the shards, after it has been checked
    run.operate = [&](FileSystem& files) -> absl::Status {
      ValidateOptions options;
      options.threads = threads;
      const auto report = Validate(files, "/out", options);
      if (report.ok()) {
        EXPECT_TRUE(report->ok()) << report->problems[0].message;  // a failure is not damage
      }
      return report.status();
    };
    FailEveryCall(run);
  }
}

TEST(ReadFaultTest, EveryCallOfUnpacking) {
  const Tree expected = InputTree();
  for (const bool there_before : {false, true}) {
    for (const bool short_write : {false, true}) {
      FaultRun run;
      run.prepare = [&] {
        auto files = NewDataset();
        if (there_before) {
          EXPECT_TRUE(files->CreateDirectory("/files").ok());
        }
        return files;
      };
      run.may_succeed = IsIndex;
      run.operate = [&](FileSystem& files) -> absl::Status {
        const auto dataset = DatasetReader::Open(files, "/out");
        if (!dataset.ok()) return dataset.status();
        return Unpack(files, **dataset, "/files").status();
      };
      run.check = [&](FileSystem& files, const absl::Status& status) {
        if (!status.ok()) {
          EXPECT_EQ(Exists(files, "/files"), there_before);
          EXPECT_EQ(Describe(ReadTree(files, "/files")), "");
          const auto dataset = DatasetReader::Open(files, "/out");
          ASSERT_TRUE(dataset.ok()) << dataset.status();
          const auto again = Unpack(files, **dataset, "/files");
          EXPECT_TRUE(again.ok()) << again.status();
        }
        Tree tree = ReadTree(files, "/files");
        std::erase_if(tree, [](const auto& entry) { return entry.first.ends_with('/'); });
        EXPECT_TRUE(tree == expected) << Describe(tree);
      };
      FailEveryCall(run, {.short_write = short_write});
    }
  }
}

}  // namespace
}  // namespace shardkit::test
