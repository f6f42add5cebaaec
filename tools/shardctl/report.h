// Messages on standard error, and the exit codes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardctl {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitBadData = 1;      // damaged data, or data without the requested part
inline constexpr int kExitUsage = 2;        // wrong options or paths
inline constexpr int kExitEnvironment = 3;  // I/O, permission, space, interruption
inline constexpr int kExitSkipped = 4;      // finished, but samples were skipped

int ExitCode(const absl::Status& status);

// Prints "shardctl: MESSAGE" and returns the exit code for the status. The status is not OK.
int Fail(const absl::Status& status);

// The same for a command that writes a dataset. FailedPrecondition then means that the output directory cannot be used:
// it holds other files, or another job made it.
int FailWriting(const absl::Status& status);

// Prints "shardctl: note: MESSAGE".
void Note(std::string_view message);

// Prints one line to standard error and makes control characters visible. Lines of several threads do not mix.
void PrintError(std::string_view line);

// Bytes of the UTF-8 character at the front of `text`, which is not empty; 0 when there is none or it is a C1 control.
size_t CharacterLength(std::string_view text);

// `text` with control characters, DEL and bytes that are not UTF-8 written as \n, \t or \xHH, so that a file name
// cannot control the terminal.
std::string Printable(std::string_view text);

// Like Printable, but in double quotes, with \" and \\.
std::string Quote(std::string_view text);

}  // namespace shardctl
