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

// The least of the machine's memory and the limits of the process's control groups (version 1 and 2) and of their
// parent groups. Empty when nothing can be found out. `root` is put in front of every path read, for tests.
//
// Sources: Linux' Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst
// (memory.limit_in_bytes), cgroups(7) and proc(5) for /proc/self/cgroup and /proc/self/mountinfo.
std::optional<MemoryLimit> FindMemoryLimit(const std::string& root = "");

}  // namespace shardkit::gpu
