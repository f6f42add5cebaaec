// The default number of threads.
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "base/thread_pool.h"
#include "shardkit/job.h"
#include "unit/io/backend.h"

namespace shardkit {
namespace {

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(CgroupProcessorsTest, Version2) {
  const TemporaryDirectory mount;
  const std::string& at = mount.path();
  const std::string cgroups = "0::/pods/pod/container\n";
  EXPECT_EQ(CgroupProcessors(cgroups, at), std::nullopt);
  Write(at + "/pods/pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupProcessors(cgroups, at), std::nullopt);
  Write(at + "/pods/pod/container/cpu.max", "800000 100000\n");
  EXPECT_EQ(CgroupProcessors(cgroups, at), 8);
  Write(at + "/pods/pod/container/cpu.max", "150000 100000\n");
  EXPECT_EQ(CgroupProcessors(cgroups, at), 2);
  Write(at + "/pods/cpu.max", "10000 100000\n");  // of what is around it
  EXPECT_EQ(CgroupProcessors(cgroups, at), 1);
}

TEST(CgroupProcessorsTest, InAContainerTheMountIsItsOwn) {
  const TemporaryDirectory mount;
  Write(mount.path() + "/cpu.max", "400000 100000\n");
  EXPECT_EQ(CgroupProcessors("0::/\n", mount.path()), 4);
  EXPECT_EQ(CgroupProcessors("0::/../../of/the/machine\n", mount.path()), 4);
}

TEST(CgroupProcessorsTest, Version1) {
  const TemporaryDirectory mount;
  const std::string& at = mount.path();
  const std::string cgroups = "9:name=systemd:/a\n4:cpu,cpuacct:/a/b\n3:cpuset:/c\n0::/\n";
  Write(at + "/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  Write(at + "/cpu/a/b/cpu.cfs_period_us", "100000\n");
  Write(at + "/cpu/c/cpu.cfs_quota_us", "100000\n");
  Write(at + "/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupProcessors(cgroups, at), std::nullopt);
  Write(at + "/cpu/a/cpu.cfs_quota_us", "300000\n");
  Write(at + "/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupProcessors(cgroups, at), 3);
}

TEST(CgroupProcessorsTest, TextsOfOtherKindsAreNoLimit) {
  const TemporaryDirectory mount;
  for (const char* text : {"", "max", "100000", "0 100000", "100000 0", "-5 100000", "a b", "99999999999999999999 1"}) {
    Write(mount.path() + "/cpu.max", text);
    EXPECT_EQ(CgroupProcessors("0::/\n", mount.path()), std::nullopt) << text;
  }
  Write(mount.path() + "/cpu.max", "400000 100000");
  for (const char* text : {"", "\n", "0", "0:", "::", "0:memory:/", ":::\n:"}) {
    CgroupProcessors(text, mount.path());  // reads what it can
  }
}

TEST(AvailableProcessorsTest, AffinityAndRanksLimit) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  unsetenv("LOCAL_WORLD_SIZE");
  const int all = AvailableProcessors();
  EXPECT_LE(all, CPU_COUNT(&before));
  EXPECT_GE(all, 1);
  setenv("LOCAL_WORLD_SIZE", "1000000", 1);
  EXPECT_EQ(AvailableProcessors(), 1);
  for (const char* text : {"", "0", "-3", "two"}) {
    setenv("LOCAL_WORLD_SIZE", text, 1);
    EXPECT_EQ(AvailableProcessors(), all) << text;
  }
  unsetenv("LOCAL_WORLD_SIZE");
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  std::thread([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(AvailableProcessors(), 1);
  }).join();
}

}  // namespace
}  // namespace shardkit
