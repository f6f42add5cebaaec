// The options of shardctl convert.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardkit/convert.h"

namespace shardctl {

struct ConvertArguments {
  std::string input;
  std::optional<std::string> output;  // set unless dry_run
  shardkit::ConvertOptions options;
  bool dry_run = false;
  bool json = false;
};

// Returns the same as CommandLine::Parse.
std::optional<int> ParseConvertArguments(int argc, char** argv, ConvertArguments* arguments);

}  // namespace shardctl
