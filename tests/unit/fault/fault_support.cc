#include "fault/fault_support.h"

namespace shardkit::test {

const Tree& InputTree() {
  static const Tree tree = [] {
    Tree made;
    for (uint64_t i = 0; i < kInputSamples; ++i) {
      const std::string key = "d" + std::to_string(i / 10) + "/s" + std::to_string(100 + i);
      std::string image = "\xff\xd8\xff image " + std::to_string(i);
      image.resize(30 + i * 13 % 90, 'i');
      made[key + ".jpg"] = image;
      if (i % 4 == 1) made[key + ".json"] = "{\"n\": " + std::to_string(i) + "}";
      if (i % 7 == 2) made[key + ".txt"] = "";
    }
    return made;
  }();
  return tree;
}

PackOptions SmallPack(bool resume, bool keep) {
  PackOptions options;
  options.dataset = SmallShards(6, 3);
  options.dataset.resume = resume;
  options.keep_on_cancel = keep;
  return options;
}

std::unique_ptr<FileSystem> NewInput() {
  auto files = NewMemoryFileSystem();
  WriteTree(*files, "/in", InputTree());
  return files;
}

const Tree& ExpectedDataset() {
  static const Tree tree = [] {
    const auto files = NewInput();
    const auto report = PackFiles(*files, {"/in"}, "/out", SmallPack());
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->samples, kInputSamples);
    EXPECT_GE(report->manifest.shards.size(), 4u);
    EXPECT_EQ(ValidateText(*files, "/out"), "");
    return ReadTree(*files, "/out");
  }();
  return tree;
}

::testing::AssertionResult NothingOrWhole(FileSystem& file_system, const std::string& directory) {
  if (!Exists(file_system, JoinPath(directory, kManifestName))) return ::testing::AssertionSuccess();
  const std::string problem = ValidateText(file_system, directory);
  if (!problem.empty()) return ::testing::AssertionFailure() << "a dataset that is not valid: " << problem;
  const auto manifest = ReadManifest(file_system, directory);
  if (!manifest.ok()) return ::testing::AssertionFailure() << manifest.status();
  if (manifest->sample_count != kInputSamples) {
    return ::testing::AssertionFailure() << "a dataset of " << manifest->sample_count << " samples";
  }
  return ::testing::AssertionSuccess();
}

void FailEveryCall(const FaultRun& run, const Fault& fault) {
  for (uint64_t number = 1;; number += TestStep()) {
    ASSERT_LT(number, 100000u);
    const std::unique_ptr<FileSystem> files = run.prepare();
    FaultFileSystem faults(files.get());
    faults.FailCall(number, fault);
    const absl::Status status = run.operate(faults);
    const std::optional<FileSystemCall> failed = faults.failed_call();
    if (!failed) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GT(number, 3u);
      return;
    }
    SCOPED_TRACE("call " + std::to_string(number) + ": " + failed->operation + " " + failed->path);
    if (!status.ok()) {
      // When the operation can recover from one failure, a later failure is reported.
      const bool other = fault.all_following && run.may_succeed && run.may_succeed(*failed);
      EXPECT_TRUE(other || Message(status).find(failed->path) != std::string::npos) << status;
      EXPECT_EQ(status.code(), fault.status.code()) << status;
    } else {
      EXPECT_TRUE(run.may_succeed && run.may_succeed(*failed));
    }
    run.check(*files, status);
    if (testing::Test::HasFailure()) return;  // one is enough to look into
  }
}

}  // namespace shardkit::test
