#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace shardctl {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

}  // namespace

void Output::WriteThrough(std::string_view bytes) {
  while (!bytes.empty() && error_ == 0) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
}

void Output::Write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() >= kBufferBytes) {
    Flush();
    if (bytes.size() >= kBufferBytes) {
      WriteThrough(bytes);
      return;
    }
  }
  buffer_.append(bytes);
}

void Output::Flush() {
  WriteThrough(buffer_);
  buffer_.clear();
}

bool Output::reader_left() const { return error_ == EPIPE; }

absl::Status Output::status() const {
  if (error_ == 0) return absl::OkStatus();
  const std::string message = "standard output: write failed: " + std::generic_category().message(error_);
  if (error_ == ENOSPC || error_ == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

Output& Stdout() {
  static Output output(STDOUT_FILENO);
  return output;
}

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) != 0; }

}  // namespace shardctl
