#include "gpu/host_memory.h"

#ifdef __linux__
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/strings.h"

namespace shardkit::gpu {
namespace {

struct Mount {
  std::string root;   // the group that is mounted
  std::string point;  // where it is mounted
};

// The mount of version 2, or of version 1's memory controller.
std::optional<Mount> FindMount(const std::string& root, bool unified) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string skipped, separator, type, source, options;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.root >> mount.point;
    // Optional fields end with a dash.
    while (words >> separator && separator != "-") {
    }
    words >> type >> source >> options;
    if (unified ? type == "cgroup2"
                : type == "cgroup" && StrCat(",", options, ",").find(",memory,") != std::string::npos) {
      return mount;
    }
  }
  return std::nullopt;
}

// The group of this process, as its mount's root sees it.
std::optional<std::string> FindGroup(const std::string& root, bool unified) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? controllers.empty() && line.starts_with("0:")
                : StrCat(",", controllers, ",").find(",memory,") != std::string::npos) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;  // "max"
  return number;
}

void Consider(const std::string& root, const std::string& path, std::optional<MemoryLimit>* limit) {
  const std::optional<uint64_t> bytes = ReadNumber(root + path);
  if (bytes && (!*limit || *bytes < (*limit)->bytes)) *limit = MemoryLimit{*bytes, path};
}

// The limits from the process's group up to the mounted one.
void ConsiderGroups(const std::string& root, bool unified, const char* file, std::optional<MemoryLimit>* limit) {
  const std::optional<Mount> mount = FindMount(root, unified);
  std::optional<std::string> group = FindGroup(root, unified);
  if (!mount || !group) return;
  // In a container the mount can begin below the top group, and the process's group can be outside of the mount.
  if (mount->root != "/" && group->starts_with(mount->root)) group = group->substr(mount->root.size());
  while (true) {
    while (group->ends_with('/')) group->pop_back();
    Consider(root, StrCat(mount->point, *group, "/", file), limit);
    if (group->empty()) return;
    *group = group->substr(0, group->rfind('/') == std::string::npos ? 0 : group->rfind('/'));
  }
}

// The line "MemTotal:" of /proc/meminfo, or of a NUMA node's, where other words come before it. In bytes.
std::optional<uint64_t> MemoryTotal(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t name = line.find("MemTotal:");
    uint64_t kibibytes = 0;
    if (name == std::string::npos) continue;
    if (std::istringstream(line.substr(line.find(':', name) + 1)) >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

// Memory of NUMA nodes that have memory and no processors. On Grace Hopper that is the GPU's own memory. Where it is
// another kind of slow or small memory, nothing should be locked in it either.
uint64_t MemoryWithoutProcessors(const std::string& root) {
  const std::string nodes = root + "/sys/devices/system/node";
  uint64_t bytes = 0;
  std::error_code unknown;
  for (std::filesystem::directory_iterator entry(nodes, unknown), end; !unknown && entry != end;
       entry.increment(unknown)) {
    const std::string path = entry->path().string();
    std::ifstream file(path + "/cpulist");
    std::string processors;
    if (!file || file >> processors) continue;  // no node, or one with processors
    bytes += MemoryTotal(path + "/meminfo").value_or(0);
  }
  return bytes;
}

}  // namespace

std::optional<MemoryLimit> FindMemoryLimit(const std::string& root) {
  std::optional<MemoryLimit> limit;
  if (const std::optional<uint64_t> total = MemoryTotal(root + "/proc/meminfo")) {
    const uint64_t others = MemoryWithoutProcessors(root);
    limit = MemoryLimit{others < *total ? *total - others : *total, "the memory of this machine"};
  }
  ConsiderGroups(root, true, "memory.max", &limit);
  ConsiderGroups(root, false, "memory.limit_in_bytes", &limit);
  return limit;
}

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
