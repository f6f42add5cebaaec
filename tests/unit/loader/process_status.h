// The system's information about this process.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace shardkit::test {

struct ProcessStatus {
  // A number of /proc/self/status, in bytes if the file has kB. 0 when it does not exist.
  static uint64_t Read(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with(name + ":")) continue;
      const uint64_t number = std::stoull(line.substr(name.size() + 1));
      return line.ends_with("kB") ? number * 1024 : number;
    }
    return 0;
  }

  // Sets VmHWM to VmRSS.
  static bool ResetPeak() {
    std::ofstream refs("/proc/self/clear_refs");
    refs << "5" << std::flush;
    return refs.good();
  }
  static bool CanResetPeak() { return ResetPeak() && Read("VmHWM") != 0; }
};

}  // namespace shardkit::test
