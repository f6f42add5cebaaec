// The memory of the host: how much of it this process may have, and of which NUMA node.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace shardkit::gpu {

struct MemoryLimit {
  uint64_t bytes = 0;
  std::string source;  // the file that says so, or "the memory of this machine"
};

// The least of the machine's memory, without that of NUMA nodes that have no processors (a GPU's own), and the limits
// of the process's control groups (version 1 and 2) and of their parent groups. Empty when nothing can be found out.
// `root` is put in front of every path read, for tests.
//
// Sources: Linux' Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst
// (memory.limit_in_bytes), cgroups(7) and proc(5) for /proc/self/cgroup and /proc/self/mountinfo.
std::optional<MemoryLimit> FindMemoryLimit(const std::string& root = "");

// While this object lives, pages that the calling thread touches first come from this node, as long as it has any. The
// destructor restores the policy. Does nothing without a node, or when the system refuses.
class PreferNumaNode {
 public:
  explicit PreferNumaNode(std::optional<int> node);
  ~PreferNumaNode();
  PreferNumaNode(const PreferNumaNode&) = delete;
  PreferNumaNode& operator=(const PreferNumaNode&) = delete;

 private:
  static constexpr size_t kMostNodes = 1024;  // as many as Linux knows
  using NodeSet = std::array<unsigned long, kMostNodes / (8 * sizeof(unsigned long))>;

  bool active_ = false;
  int policy_before_ = 0;
  NodeSet nodes_before_{};
};

}  // namespace shardkit::gpu
