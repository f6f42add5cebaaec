// The options of bench that choose a device and say what is done on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench_decode.h"
#include "command_line.h"
#include "shardkit/gpu/bandwidth.h"
#include "shardkit/schema.h"

namespace shardctl {

class DeviceOptions {
 public:
  void AddTo(CommandLine* line);

  // What was parsed, put together. `options` are the words that were given as options, `datasets` says whether any was
  // named. InvalidArgument, naming the option.
  absl::Status Finish(const std::vector<std::string>& options, bool datasets, const DecodeWish& decode);

  std::optional<std::string> name;
  shardkit::gpu::DeviceSizes sizes;
  uint64_t pinned_bytes = uint64_t{512} << 20;
  bool geometry = false;
  shardkit::Type pixels = shardkit::Type::kU8;

 private:
  uint64_t pinned_given_ = UINT64_MAX;
  std::vector<std::string> sizes_;
  size_t pixels_ = SIZE_MAX;  // when given
};

}  // namespace shardctl
