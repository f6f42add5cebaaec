// Indexes for DALI: the bytes written.
#include <gtest/gtest.h>

#include "dataset/dataset_support.h"
#include "shardkit/tar_index.h"
#include "support/fault_filesystem.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

const std::vector<TarMember> kIndexedMembers = {{"d/", "", '5'},      {"d/a.jpg", std::string(600, 'j')},
                                                {"d/a.SEG.cls", "7"}, {"README", "not a sample"},
                                                {"b.jpg", ""},        {"c.jpg", "third"},
                                                {"c.cls", "9"}};

class DaliIndexTest : public testing::Test {
 protected:
  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(DaliIndexTest, HasTheBytesThatWds2idxWrites) {
  WriteFile(*files_, "/x.tar", MakeTar(kIndexedMembers));
  const auto report = BuildDaliIndex(*files_, "/x.tar");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ReadAll(*files_, "/x.idx"),
            "v1.2 4\n"
            "jpg 1024 600 d/a.jpg SEG.cls 2560 1 d/a.SEG.cls\n"
            "README 3584 12 README\n"
            "jpg 4608 0 b.jpg\n"
            "jpg 5120 5 c.jpg cls 6144 1 c.cls\n");
  EXPECT_EQ(report->index_path, "/x.idx");
  EXPECT_EQ(report->samples, 4u);
  EXPECT_EQ(report->values, 6u);
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_EQ(report->problems[0].member, "README");
  // Without a dot, everything except the last character counts, although that is odd.
  WriteFile(*files_, "/y.tar", MakeTar({{"ab", "1"}, {"ac", "2"}, {"a.x", "3"}, {"d/e", "4"}, {"R", "5"}}));
  ASSERT_TRUE(BuildDaliIndex(*files_, "/y.tar").ok());
  EXPECT_EQ(ReadAll(*files_, "/y.idx"), "v1.2 1\nab 512 1 ab ac 1536 1 ac x 2560 1 a.x\n");
}

TEST_F(DaliIndexTest, IsNotWrittenOfWhatItCannotTell) {
  const auto refused = [&](const std::vector<TarMember>& members) {
    WriteFile(*files_, "/x.tar", WriteTar(members, "pax"));
    const auto report = BuildDaliIndex(*files_, "/x.tar");
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_FALSE(Exists(*files_, "/x.idx"));
    return Message(report.status());
  };
  EXPECT_EQ(refused({{"a b.x", "1"}}),
            "/x.tar: member 'a b.x' at byte 512: its name has white space, which ends a word of an index; "
            "rename it");
  EXPECT_NE(refused({{"a.", "1"}}).find("its name ends with a dot"), std::string::npos);
  EXPECT_EQ(refused({{"a.x", "1"}, {"d/.b.x", "2"}}),
            "/x.tar: member 'd/.b.x' at byte 1024: is hidden for DALI, which would leave it out; rename it");
  EXPECT_NE(refused({}).find("has no samples"), std::string::npos);
  WriteFile(*files_, "/x.tar", WriteTar({{"a.x", "1"}}, "ustar", "gzip"));
  EXPECT_TRUE(absl::IsInvalidArgument(BuildDaliIndex(*files_, "/x.tar").status()));
  WriteFile(*files_, "/x.tgz", MakeTar({{"a.x", "1"}}));
  EXPECT_TRUE(absl::IsInvalidArgument(BuildDaliIndex(*files_, "/x.tgz").status()));
  EXPECT_TRUE(absl::IsNotFound(BuildDaliIndex(*files_, "/none.tar").status()));
  WriteFile(*files_, "/y.tar", MakeTar({{"a.x", "1"}}));
  WriteFile(*files_, "/y.idx", "of another program");
  EXPECT_TRUE(absl::IsInvalidArgument(BuildDaliIndex(*files_, "/y.tar").status()));
  EXPECT_EQ(ReadAll(*files_, "/y.idx"), "of another program");
}

TEST_F(DaliIndexTest, SurvivesEveryFailure) {
  WriteFile(*files_, "/x.tar", MakeTar(kIndexedMembers));
  ASSERT_TRUE(BuildDaliIndex(*files_, "/x.tar").ok());
  const std::string good = ReadAll(*files_, "/x.idx");
  const std::string old = "v1.1 old";
  uint64_t failures = 0;
  for (uint64_t n = 1;; ++n) {
    WriteFile(*files_, "/x.idx", old);
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::ResourceExhaustedError("no space"), .short_write = true});
    const auto report = BuildDaliIndex(faults, "/x.tar");
    if (!faults.failed_call()) break;
    ++failures;
    EXPECT_FALSE(report.ok()) << n << " " << faults.failed_call()->operation;
    const std::string now = ReadAll(*files_, "/x.idx");
    EXPECT_TRUE(now == old || now == good) << n;
    EXPECT_FALSE(Exists(*files_, "/x.idx.tmp")) << n << " " << faults.failed_call()->operation;
  }
  EXPECT_GT(failures, 8u);
}

}  // namespace
}  // namespace shardkit::test
