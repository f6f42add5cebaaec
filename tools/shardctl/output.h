// Standard output with error detection.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardctl {

// Buffered. After a failed write, all further output is dropped. Code that writes much checks ok() now and then.
// main() turns the error into a message and an exit code. For one thread at a time.
class Output {
 public:
  explicit Output(int descriptor) : descriptor_(descriptor) {}

  void Write(std::string_view bytes);
  void Flush();

  bool ok() const { return error_ == 0; }

  // True when the reader of the output has exited (shardctl ls | head). That is a reason to stop, but not an error.
  bool reader_left() const;

  // Unavailable or ResourceExhausted with the system's message when a write failed.
  absl::Status status() const;

 private:
  void WriteThrough(std::string_view bytes);

  int descriptor_;
  int error_ = 0;  // errno of the first failed write
  std::string buffer_;
};

Output& Stdout();

// True when standard output is a terminal.
bool StdoutIsTerminal();

}  // namespace shardctl
