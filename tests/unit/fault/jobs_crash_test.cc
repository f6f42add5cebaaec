// Power cuts during every job that writes. Each file is as before, as after, or missing if it did not exist before. The
// job can be repeated.
#include "fault/jobs.h"
#include "support/unsynced_filesystem.h"

namespace shardkit::test {
namespace {

class JobCrashTest : public testing::TestWithParam<Job> {};

TEST_P(JobCrashTest, AfterEveryCall) {
  const Job& job = GetParam();
  for (uint64_t number = 1;; number += TestStep()) {
    ASSERT_LT(number, 10000u);
    UnsyncedFileSystem disk;
    WriteTree(disk, "/", InputOf(job));
    disk.SyncEverything();
    FaultFileSystem faults(&disk);
    faults.FailCall(number, {.status = absl::UnavailableError("power cut"), .all_following = true});
    const absl::Status status = job.operate(faults);
    const bool finished = !faults.failed_call();
    EXPECT_TRUE(status.ok() || !finished) << status;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE("call " + std::to_string(number) + ", seed " + std::to_string(seed));
      const auto left = seed == 0 ? disk.Crash() : disk.Crash(number * 1000 + seed);
      Tree tree = ReadTree(*left, "/");
      EXPECT_EQ(Unexpected(job, tree, /*temporaries=*/true), "");
      if (finished) {
        // Files of a job reported as finished are durable.
        for (const auto& [name, bytes] : OutcomeOf(job))
          EXPECT_TRUE(tree.contains(name) && tree.at(name) == bytes) << name;
      } else {
        absl::Status again = job.operate(*left);
        // repair tells its user to remove the leftovers of an interrupted run.
        constexpr std::string_view kLeft = ".shard.tmp";
        if (absl::IsAlreadyExists(again) && Message(again).find(kLeft) != std::string::npos) {
          const size_t end = Message(again).find(kLeft) + kLeft.size();
          EXPECT_TRUE(left->RemoveFile(Message(again).substr(0, end)).ok()) << again;
          again = job.operate(*left);
        }
        EXPECT_TRUE(again.ok() || absl::IsAlreadyExists(again)) << again;
        tree = ReadTree(*left, "/");
        for (const auto& [name, bytes] : OutcomeOf(job))
          EXPECT_TRUE(tree.contains(name) && tree.at(name) == bytes) << name << " " << again;
      }
      if (HasFailure()) return;
    }
    if (finished) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Writing, JobCrashTest, testing::ValuesIn(WritingJobs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace shardkit::test
