// The options of shardctl convert.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/copy.h"

namespace shardctl {

struct ConvertArguments {
  std::string input;
  std::optional<std::string> output;  // set unless dry_run
  shardkit::ConvertOptions options;
  std::optional<std::pair<uint64_t, uint64_t>> task;  // and how many there are
  bool finish = false;
  bool dry_run = false;
  bool json = false;
};

// Returns the same as CommandLine::Parse.
std::optional<int> ParseConvertArguments(int argc, char** argv, ConvertArguments* arguments);

}  // namespace shardctl
