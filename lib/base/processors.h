// Limits of cgroups on processors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardkit {

// The processors that a process may use at most, rounded up; nullopt without a limit. `cgroups` is the text of its
// /proc/PID/cgroup, and `mount` is /sys/fs/cgroup. Knows versions 1 and 2. The limits of the cgroups around its own
// hold, too.
std::optional<int> CgroupProcessors(std::string_view cgroups, const std::string& mount);

}  // namespace shardkit
