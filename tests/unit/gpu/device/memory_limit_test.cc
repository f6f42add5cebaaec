// Control groups of both versions, as files in a folder that stands for the root.
#include "gpu/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace shardkit::test {
namespace {

namespace fs = std::filesystem;

class MemoryLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "shardkit-limit-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Write("/proc/meminfo", "MemTotal:       1048576 kB\nMemFree:          100 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void Expect(uint64_t bytes, const std::string& source) {
    const auto limit = gpu::FindMemoryLimit(root_);
    ASSERT_TRUE(limit.has_value());
    EXPECT_EQ(limit->bytes, bytes);
    EXPECT_EQ(limit->source, source);
  }

  static constexpr uint64_t kMachine = uint64_t{1} << 30;
  static constexpr char kMachineName[] = "the memory of this machine";
  std::string root_;
};

TEST_F(MemoryLimitTest, TheMachineAlone) {
  Expect(kMachine, kMachineName);
  fs::remove_all(root_ + "/proc");
  EXPECT_FALSE(gpu::FindMemoryLimit(root_).has_value());
}

// As on Grace Hopper: node 0 has the processors, node 1 is the GPU's memory, and node 2 has neither.
TEST_F(MemoryLimitTest, MemoryOfNodesWithoutProcessorsDoesNotCount) {
  const std::string nodes = "/sys/devices/system/node";
  Write(nodes + "/online", "0-2\n");
  Write(nodes + "/node0/cpulist", "0-71\n");
  Write(nodes + "/node0/meminfo", "Node 0 MemTotal:         786432 kB\nNode 0 MemFree:          1024 kB\n");
  Expect(kMachine, kMachineName);
  Write(nodes + "/node1/cpulist", "\n");
  Write(nodes + "/node1/meminfo", "Node 1 MemTotal:         262144 kB\nNode 1 MemFree:         262144 kB\n");
  Write(nodes + "/node2/cpulist", "\n");
  Write(nodes + "/node2/meminfo", "Node 2 MemTotal:              0 kB\n");
  Expect(kMachine / 4 * 3, kMachineName);
  // Counts of two moments that do not fit together leave the machine's memory.
  Write(nodes + "/node1/meminfo", "Node 1 MemTotal:        1048576 kB\n");
  Expect(kMachine, kMachineName);
}

TEST_F(MemoryLimitTest, Version2TakesTheLeastOfTheGroupsAround) {
  Write("/proc/self/mountinfo",
        "25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
        "30 25 0:27 / /sys/fs/cgroup rw,nosuid,nodev shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate\n");
  Write("/proc/self/cgroup", "0::/jobs/train/rank0\n");
  Write("/sys/fs/cgroup/jobs/train/rank0/memory.max", "max\n");
  Write("/sys/fs/cgroup/jobs/train/memory.max", "536870912\n");
  Write("/sys/fs/cgroup/jobs/memory.max", "805306368\n");
  Expect(536870912, "/sys/fs/cgroup/jobs/train/memory.max");
  Write("/sys/fs/cgroup/jobs/train/rank0/memory.max", "4096\n");
  Expect(4096, "/sys/fs/cgroup/jobs/train/rank0/memory.max");
  // A limit above the machine's memory does not count.
  Write("/sys/fs/cgroup/jobs/train/rank0/memory.max", "99999999999\n");
  Write("/sys/fs/cgroup/jobs/train/memory.max", "99999999999\n");
  fs::remove(root_ + "/sys/fs/cgroup/jobs/memory.max");
  Expect(kMachine, kMachineName);
}

TEST_F(MemoryLimitTest, Version2InAContainer) {
  // With its own namespace, the group is called /, and the limit is in the mounted folder itself.
  Write("/proc/self/mountinfo", "30 25 0:27 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1000000\n");
  Expect(1000000, "/sys/fs/cgroup/memory.max");
  // Without its own namespace, the group's full name is visible, but only the last part of it is mounted.
  Write("/proc/self/mountinfo", "30 25 0:27 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  Write("/proc/self/cgroup", "0::/docker/abc\n");
  Expect(1000000, "/sys/fs/cgroup/memory.max");
}

TEST_F(MemoryLimitTest, Version1) {
  Write("/proc/self/mountinfo",
        "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "34 32 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:15 - cgroup cgroup rw,memory\n");
  Write("/proc/self/cgroup", "12:cpu,cpuacct:/other\n5:memory:/slurm/job_1\n1:name=systemd:/x\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "123456789\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/other/memory.limit_in_bytes", "1\n");
  Expect(123456789, "/sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes");
}

TEST_F(MemoryLimitTest, WhatIsNoLimitIsLeftOut) {
  Write("/proc/self/mountinfo", "nonsense\n\n30 25 0:27 /\n30 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  Write("/proc/self/cgroup", "nonsense\n:\n0::/a/../b\n");
  Write("/sys/fs/cgroup/memory.max", "12 34x\n");
  Expect(12, "/sys/fs/cgroup/memory.max");
  Write("/sys/fs/cgroup/memory.max", "12x\n");
  Expect(kMachine, kMachineName);
}

TEST(MemoryLimit, OfThisProcess) {
  const auto limit = gpu::FindMemoryLimit();
  if (!fs::exists("/proc/meminfo")) GTEST_SKIP() << "this system has no /proc/meminfo";
  ASSERT_TRUE(limit.has_value());
  EXPECT_GT(limit->bytes, 0u);
}

}  // namespace
}  // namespace shardkit::test
