#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace shardkit::remote {

// Runs a command with the shell and returns what it writes to its standard output, at most 64 KiB; its other output is
// dropped. Ends the command at the deadline. Errors do not quote the output. Thread-safe.
absl::StatusOr<std::string> RunCommand(const std::string& command, std::chrono::milliseconds deadline);

}  // namespace shardkit::remote
