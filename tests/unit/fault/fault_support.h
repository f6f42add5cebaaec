// What the tests with failing file systems share.
#pragma once

#include <functional>

#include "dataset/dataset_support.h"
#include "support/effort.h"
#include "support/fault_filesystem.h"

namespace shardkit::test {

// A tree of about twenty samples, some with files of their own kind, so that the schema has several columns.
const Tree& InputTree();
inline constexpr uint64_t kInputSamples = 23;

// Four shards and more, of several blocks each.
PackOptions SmallPack(bool resume = false, bool keep = false);

// What an undisturbed run makes of the tree.
const Tree& ExpectedDataset();

// A memory file system with the tree at /in.
std::unique_ptr<FileSystem> NewInput();

// Either no dataset, or a whole one.
::testing::AssertionResult NothingOrWhole(FileSystem& file_system, const std::string& directory);

// Lets every call of `operate` fail, one after the other, each time on what `prepare` makes. `operate` must
// return an error that names the file whose call failed, but for calls that `may_succeed` says it can do
// without; `check` looks at what was left. `fault` says what the failure is like.
struct FaultRun {
  std::function<std::unique_ptr<FileSystem>()> prepare;
  std::function<absl::Status(FileSystem&)> operate;
  std::function<void(FileSystem&, const absl::Status&)> check;
  std::function<bool(const FileSystemCall&)> may_succeed;
};
void FailEveryCall(const FaultRun& run, const Fault& fault = {});

}  // namespace shardkit::test
