// Shared by the tests with failing file systems.
#pragma once

#include <functional>

#include "dataset/dataset_support.h"
#include "support/effort.h"
#include "support/fault_filesystem.h"

namespace shardkit::test {

// A tree of about twenty samples. Some have files of other kinds, so that the schema has several columns.
const Tree& InputTree();
inline constexpr uint64_t kInputSamples = 23;

// Makes at least four shards, each of several blocks.
PackOptions SmallPack(bool resume = false, bool keep = false);

// The result of an undisturbed run for the tree.
const Tree& ExpectedDataset();

// A memory file system with the tree at /in.
std::unique_ptr<FileSystem> NewInput();

// Either no dataset, or a whole one.
::testing::AssertionResult NothingOrWhole(FileSystem& file_system, const std::string& directory);

// Makes every call of `operate` fail, one after the other, each time on fresh files made by `prepare`. `operate` must
// return an error that names the file of the failed call, except for calls that it can do without, according to
// `may_succeed`. `check` examines the files left behind. `fault` describes the failure.
struct FaultRun {
  std::function<std::unique_ptr<FileSystem>()> prepare;
  std::function<absl::Status(FileSystem&)> operate;
  std::function<void(FileSystem&, const absl::Status&)> check;
  std::function<bool(const FileSystemCall&)> may_succeed;
};
void FailEveryCall(const FaultRun& run, const Fault& fault = {});

}  // namespace shardkit::test
