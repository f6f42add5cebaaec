#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace shardkit::remote {

// Runs a command with the shell and returns what it writes to its standard output, at most 64 KiB. Ends the command at
// the deadline. Errors do not quote that output; when the command fails, its exit status and the last line of its
// standard error stand in the error. Thread-safe.
absl::StatusOr<std::string> RunCommand(const std::string& command, std::chrono::milliseconds deadline);

}  // namespace shardkit::remote
