// The only place that converts system error numbers to statuses. The memory file system uses it too, so that both file
// systems report the same errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardkit::io {

// The system's text for this error, for example "No space left on device". Thread-safe.
std::string ErrorText(int error_number);

// "PATH: cannot OPERATION: No space left on device; free some space, ...". `operation` is an infinitive
// with its object: "open for reading", "rename to /b". `error_number` is a value of errno, which SystemErrorOf gives
// back.
absl::Status PosixError(std::string_view path, std::string_view operation, int error_number);

// OutOfRange: "PATH: ends at byte N; cannot read M bytes at offset K".
absl::Status ReadPastEnd(std::string_view path, uint64_t end, uint64_t length, uint64_t offset);

// FailedPrecondition: "PATH: cannot OPERATION: the file is closed".
absl::Status FileIsClosed(std::string_view path, std::string_view operation);

// FailedPrecondition: another holder has the lock on `path`.
absl::Status LockIsHeld(std::string_view path);

}  // namespace shardkit::io
