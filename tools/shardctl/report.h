// What is said on standard error, and the exit codes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardctl {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitBadData = 1;      // damaged, or what was asked for is not in it
inline constexpr int kExitUsage = 2;        // options or paths misused
inline constexpr int kExitEnvironment = 3;  // I/O, permission, space, interruption
inline constexpr int kExitSkipped = 4;      // finished, but samples were skipped

int ExitCode(const absl::Status& status);

// Prints "shardctl: MESSAGE" and returns the exit code that belongs to the status, which is not OK.
int Fail(const absl::Status& status);

// The same of a command that writes a dataset, where FailedPrecondition tells of an output that is in the way: it holds
// other files, or was made by another job.
int FailWriting(const absl::Status& status);

// Prints "shardctl: note: MESSAGE".
void Note(std::string_view message);

// Prints one line to standard error, control characters made visible. Thread-safe as far as whole lines go.
void PrintError(std::string_view line);

// `text` with control characters, DEL and bytes that are no UTF-8 written as \n, \t or \xHH, so that a file's
// name cannot drive the terminal.
std::string Printable(std::string_view text);

// Printable, between double quotes, with \" and \\.
std::string Quote(std::string_view text);

}  // namespace shardctl
