// The options of bench that choose a device and its work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench_decode.h"
#include "command_line.h"
#include "shardkit/device.h"
#include "shardkit/schema.h"

namespace shardctl {

class DeviceOptions {
 public:
  void AddTo(CommandLine* line);

  // Checks and combines the parsed values. `options` are the names of all options given; `datasets` is true when at
  // least one dataset was named. InvalidArgument errors name the option.
  absl::Status Finish(const std::vector<std::string>& options, bool datasets, const DecodeWish& decode);

  std::optional<std::string> name;
  shardkit::DeviceSizes sizes;
  uint64_t pinned_bytes = uint64_t{512} << 20;
  bool geometry = false;
  shardkit::Type pixels = shardkit::Type::kU8;

 private:
  uint64_t pinned_given_ = UINT64_MAX;
  std::vector<std::string> sizes_;
  size_t pixels_ = SIZE_MAX;  // when given
};

}  // namespace shardctl
