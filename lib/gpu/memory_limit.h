// How much memory this process may have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shardkit::gpu {

struct MemoryLimit {
  uint64_t bytes = 0;
  std::string source;  // the file that says so, or "the memory of this machine"
};

// The least of the machine's memory and the limits of the control groups (version 1 and 2) that the process is in,
// those of the groups around them included. Empty when nothing can be found out. `root` stands in front of every path
// read, for tests.
//
// Sources: Linux' Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst
// (memory.limit_in_bytes), cgroups(7) and proc(5) for /proc/self/cgroup and /proc/self/mountinfo.
std::optional<MemoryLimit> FindMemoryLimit(const std::string& root = "");

}  // namespace shardkit::gpu
