// Memory from a NUMA node.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace shardkit::gpu {

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
