// Every call of every job fails in turn. The result is an error that names file and operation, or the right result. No
// unfinished files are left.
#include "fault/jobs.h"
#include "io/posix_error.h"

namespace shardkit::test {
namespace {

// As the system reports them.
std::vector<Fault> JobFaults() {
  std::vector<Fault> faults;
  for (const int error : {EIO, ENOSPC, EAGAIN}) {
    const absl::Status status = io::PosixError("device", "work", error);
    faults.push_back({.status = status, .short_write = error == ENOSPC});
  }
  return faults;
}

class JobFaultTest : public testing::TestWithParam<Job> {};

TEST_P(JobFaultTest, EveryCall) {
  const Job& job = GetParam();
  for (const Fault& fault : JobFaults()) {
    for (uint64_t number = 1;; number += TestStep()) {
      ASSERT_LT(number, 10000u);
      const auto files = NewMemoryFileSystem();
      WriteTree(*files, "/", InputOf(job));
      FaultFileSystem faults(files.get());
      faults.FailCall(number, fault);
      const absl::Status status = job.operate(faults);
      const auto failed = faults.failed_call();
      if (!failed) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_GT(number, 3u);
        break;
      }
      SCOPED_TRACE("call " + std::to_string(number) + ": " + failed->operation + " " + failed->path + ", " +
                   std::string(fault.status.message()));
      if (!status.ok()) {
        EXPECT_EQ(status.code(), fault.status.code()) << status;
        EXPECT_NE(Message(status).find(failed->path + ": cannot " + failed->operation), std::string::npos) << status;
      }
      const Tree left = ReadTree(*files, "/");
      // A file that cannot be removed stays.
      EXPECT_EQ(Unexpected(job, left, failed->operation.starts_with("remove")), "") << status;
      if (status.ok()) {
        // When the result is right despite the failure, nothing is missing.
        for (const auto& [name, bytes] : OutcomeOf(job))
          EXPECT_TRUE(left.contains(name) && left.at(name) == bytes) << name;
      } else if (!job.reads_only) {
        const absl::Status again = job.operate(*files);
        EXPECT_TRUE(again.ok() || absl::IsAlreadyExists(again)) << again;
        Tree tree = ReadTree(*files, "/");
        // Everything succeeded, except removing these files.
        std::erase_if(tree, [&](const auto& entry) {
          return entry.first.find("/.shardkit/") != std::string::npos && !OutcomeOf(job).contains(entry.first);
        });
        EXPECT_EQ(Describe(tree), Describe(OutcomeOf(job)));
      }
      if (HasFailure()) return;
    }
  }
}

std::string Name(const testing::TestParamInfo<Job>& info) {
  std::string name = info.param.name;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Reading, JobFaultTest, testing::ValuesIn(ReadingJobs()), Name);
INSTANTIATE_TEST_SUITE_P(Writing, JobFaultTest, testing::ValuesIn(WritingJobs()), Name);

}  // namespace
}  // namespace shardkit::test
