// Repair when one call to the file system fails.
#include "fault/fault_support.h"
#include "shardkit/repair.h"

namespace shardkit::test {
namespace {

// A dataset with a damaged shard, a shard without a header, and a whole shard.
std::unique_ptr<FileSystem> NewDamaged() {
  auto files = NewMemoryFileSystem();
  WriteTree(*files, "/in", ExpectedDataset());
  const auto damage = [&](const std::string& name, uint64_t at) {
    std::string bytes = ReadAll(*files, JoinPath("/in", name));
    bytes.replace(at, 8, 8, '\xee');
    WriteFile(*files, JoinPath("/in", name), bytes);
  };
  const auto shard = ShardReader::Open(*files, "/in/00000000.shard");
  EXPECT_TRUE(shard.ok()) << shard.status();
  const uint64_t second = (*shard)->blocks()[1].offset;
  const uint64_t third = (*shard)->file_length() - 8;
  damage("00000000.shard", second);
  damage("00000000.shard", third);
  damage("00000001.shard", 0);
  return files;
}

TEST(RepairFault, EveryCallOfAShard) {
  for (const std::string name : {"00000000.shard", "00000001.shard"}) {
    for (const bool short_write : {false, true}) {
      FaultRun run;
      run.prepare = NewDamaged;
      run.operate = [&](FileSystem& files) { return RepairShard(files, JoinPath("/in", name), "/out.shard").status(); };
      run.check = [](FileSystem& files, const absl::Status& status) {
        EXPECT_FALSE(Exists(files, "/out.shard.tmp"));
        // The output is whole, or missing: a call after the renaming may have failed.
        const bool there = Exists(files, "/out.shard");
        EXPECT_TRUE(there || !status.ok());
        EXPECT_EQ(there ? ValidateText(files, "/out.shard") : "", "");
      };
      FailEveryCall(run, {.status = absl::ResourceExhaustedError("no space"), .short_write = short_write});
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(RepairFault, EveryCallOfADataset) {
  FaultRun run;
  run.prepare = NewDamaged;
  run.operate = [](FileSystem& files) { return RepairDataset(files, "/in", "/out").status(); };
  // When a link fails, the file is copied.
  run.may_succeed = [](const FileSystemCall& call) { return call.operation == "link"; };
  run.check = [](FileSystem& files, const absl::Status&) {
    EXPECT_EQ(Exists(files, "/out/dataset.json") ? ValidateText(files, "/out") : "", "");
    EXPECT_TRUE(Exists(files, "/in/dataset.json"));
  };
  FailEveryCall(run);
}

}  // namespace
}  // namespace shardkit::test
