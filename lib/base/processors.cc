#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/strings.h"
#include "shardkit/processors.h"

namespace shardkit {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Microseconds of processors in each period; 0 where there is no limit.
struct Quota {
  int64_t quota = 0;
  int64_t period = 0;
};

// "MAX PERIOD", where MAX may be "max".
Quota Version2(const std::string& folder) {
  Quota read;
  std::istringstream text(TextOf(folder + "/cpu.max"));
  text >> read.quota >> read.period;
  return text ? read : Quota{};
}

// A quota of -1 is none.
Quota Version1(const std::string& folder) {
  Quota read;
  std::istringstream text(TextOf(folder + "/cpu.cfs_quota_us") + " " + TextOf(folder + "/cpu.cfs_period_us"));
  text >> read.quota >> read.period;
  return text ? read : Quota{};
}

// Whether a list such as "cpu,cpuacct" has "cpu".
bool HasCpu(std::string_view controllers) {
  while (true) {
    const size_t end = controllers.find(',');
    if (controllers.substr(0, end) == "cpu") return true;
    if (end == std::string_view::npos) return false;
    controllers.remove_prefix(end + 1);
  }
}

int Affinity() {
  cpu_set_t set;
  // EINVAL on machines with more processors than a set of this size has: then all count.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

int LocalRanks() {
  const char* const text = std::getenv("LOCAL_WORLD_SIZE");
  int ranks = 1;
  return text != nullptr && absl::SimpleAtoi(text, &ranks) ? std::max(ranks, 1) : 1;
}

}  // namespace

std::optional<int> CgroupProcessors(std::string_view cgroups, const std::string& mount) {
  double least = std::numeric_limits<double>::infinity();
  // Lines of "NUMBER:CONTROLLERS:PATH"; version 2 has no controllers.
  while (!cgroups.empty()) {
    const std::string_view line = cgroups.substr(0, cgroups.find('\n'));
    cgroups.remove_prefix(std::min(line.size() + 1, cgroups.size()));
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !HasCpu(controllers)) continue;
    // Within a container the path may be that of the machine: folders that are not there have no limit.
    std::string path(line.substr(second + 1));
    while (true) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      const Quota quota = controllers.empty() ? Version2(mount + path) : Version1(mount + "/cpu" + path);
      if (quota.quota > 0 && quota.period > 0) {
        least = std::min(least, static_cast<double>(quota.quota) / static_cast<double>(quota.period));
      }
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  if (!(least < std::numeric_limits<int>::max())) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(least)));
}

int AvailableProcessors() {
  int processors = Affinity();
  if (const auto limit = CgroupProcessors(TextOf("/proc/self/cgroup"), "/sys/fs/cgroup")) {
    processors = std::min(processors, *limit);
  }
  return std::max(1, processors / LocalRanks());
}

}  // namespace shardkit
