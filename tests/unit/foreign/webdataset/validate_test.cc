// Validating tars: separated members of a sample, truncation, and, with an index, changes.
#include <gtest/gtest.h>

#include "dataset/dataset_support.h"
#include "shardkit/tar_index.h"
#include "shardkit/validate.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

ValidateReport Check(FileSystem& files, const std::string& path, bool deep = false) {
  auto report = Validate(files, path, {{.threads = 2}, deep});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : ValidateReport();
}

TEST(WebDatasetValidate, GroupingAndDamage) {
  const auto files = NewMemoryFileSystem();
  const std::vector<TarMember> members = {{"a.txt", "one"}, {"a.cls", "1"}, {"b.txt", "two"}, {"b.cls", "2"}};
  const std::string good = MakeTar(members);
  WriteTree(*files, "/data", {{"0.tar", good}, {"1.tar.gz", WriteTar(members, "ustar", "gzip")}});
  ValidateReport report = Check(*files, "/data", true);
  EXPECT_TRUE(report.ok()) << report.problems[0].message;
  EXPECT_EQ(report.shards, 2u);
  EXPECT_EQ(report.samples, 4u);

  // Members of one sample that are not next to each other.
  WriteTree(*files, "/apart", {{"0.tar", MakeTar({{"a.txt", "one"}, {"b.txt", "two"}, {"a.cls", "1"}})}});
  report = Check(*files, "/apart/0.tar");
  ASSERT_EQ(report.problem_count, 1u);
  EXPECT_NE(report.problems[0].message.find("/apart/0.tar: member \"a.cls\" at byte 2560: "), std::string::npos)
      << report.problems[0].message;

  // One extension twice, and a truncated tar. The tar cannot be opened, which is damage and not an error.
  WriteTree(*files, "/twice", {{"0.tar", MakeTar({{"a.txt", "one"}, {"a.TXT", "two"}})}});
  report = Check(*files, "/twice");
  ASSERT_EQ(report.problem_count, 1u);
  EXPECT_NE(report.problems[0].message.find("a.TXT"), std::string::npos) << report.problems[0].message;
  WriteTree(*files, "/cut", {{"0.tar", good.substr(0, 1600)}});
  EXPECT_EQ(Check(*files, "/cut").problem_count, 1u);

  // Only the checksums of an index show a changed value.
  std::string changed = good;
  changed[512] ^= 1;
  WriteTree(*files, "/changed", {{"0.tar", good}});
  ASSERT_TRUE(BuildTarIndex(*files, "/changed/0.tar").ok());
  EXPECT_TRUE(Check(*files, "/changed").ok());
  WriteTree(*files, "/unseen", {{"0.tar", changed}});
  EXPECT_TRUE(Check(*files, "/unseen").ok());
  WriteTree(*files, "/changed", {{"0.tar", changed}});
  EXPECT_FALSE(Check(*files, "/changed").ok());
  EXPECT_TRUE(absl::IsNotFound(Validate(*files, "/nothing.tar").status()));
}

}  // namespace
}  // namespace shardkit::test
