// Standard output, with its errors noticed.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardctl {

// Buffered. A failed write is remembered and what follows is dropped: whoever writes much asks ok() now and
// then, and main() turns the error into a message and an exit code. One thread at a time.
class Output {
 public:
  explicit Output(int descriptor) : descriptor_(descriptor) {}

  void Write(std::string_view bytes);
  void Flush();

  bool ok() const { return error_ == 0; }

  // True when whoever read our output went away (shardctl ls | head): no error, only a reason to stop.
  bool reader_left() const;

  // Unavailable or ResourceExhausted with the system's words when a write failed.
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
