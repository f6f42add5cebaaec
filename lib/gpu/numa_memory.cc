#include "gpu/numa_memory.h"

#ifdef __linux__
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace shardkit::gpu {

// Makes system calls directly, because nothing else of libnuma is needed. Setting a policy takes the number of nodes
// plus one: a quirk of Linux that its manual, set_mempolicy(2), does not mention, and that libnuma follows too.
#ifdef __linux__
PreferNumaNode::PreferNumaNode(std::optional<int> node) {
  if (!node || *node < 0 || static_cast<size_t>(*node) >= kMostNodes) return;
  if (syscall(SYS_get_mempolicy, &policy_before_, nodes_before_.data(), kMostNodes, nullptr, 0) != 0) return;
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  NodeSet nodes{};
  nodes[static_cast<size_t>(*node) / kBits] = 1ul << (static_cast<size_t>(*node) % kBits);
  active_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), kMostNodes + 1) == 0;
}

PreferNumaNode::~PreferNumaNode() {
  if (active_) (void)syscall(SYS_set_mempolicy, policy_before_, nodes_before_.data(), kMostNodes + 1);
}
#else
PreferNumaNode::PreferNumaNode(std::optional<int>) {}
PreferNumaNode::~PreferNumaNode() = default;
#endif

}  // namespace shardkit::gpu
