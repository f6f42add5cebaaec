#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "numbers.h"

namespace shardctl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kInterval(200);

void Draw(const std::string& text) {
  // It is not an error when the progress cannot be shown.
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
}

std::string FormatDuration(double seconds) {
  const uint64_t whole = static_cast<uint64_t>(std::clamp(seconds, 0.0, 1e9));
  const auto two = [](uint64_t number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  if (whole >= 3600) return std::to_string(whole / 3600) + ":" + two(whole / 60 % 60) + ":" + two(whole % 60);
  return std::to_string(whole / 60) + ":" + two(whole % 60);
}

size_t TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::string noun)
    : noun_(std::move(noun)), enabled_(isatty(STDERR_FILENO) != 0), start_(Clock::now()), last_(start_) {}

Progress::~Progress() { Clear(); }

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::Clear() {
  const std::lock_guard lock(mutex_);
  if (drawn_) Draw("\r\x1b[K");
  drawn_ = false;
}

void Progress::Update(uint64_t done, uint64_t total, uint64_t bytes) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string line;
  if (!noun_.empty()) {
    line = std::to_string(done);
    if (total > 0) line += "/" + std::to_string(total);
    line += " " + noun_;
  }
  // Without bytes there is no rate.
  if (bytes > 0 || noun_.empty()) line += (noun_.empty() ? "" : ", ") + FormatBytes(bytes);
  if (elapsed > 0 && bytes > 0) line += ", " + FormatFixed(static_cast<double>(bytes) / 1e6 / elapsed, 1) + " MB/s";
  if (total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    line += ", " + std::to_string(static_cast<int>(share * 100)) + " %";
    if (share > 0) line += ", ETA " + FormatDuration(elapsed * (1 - share) / share);
  }
  // A wrapped line could not be redrawn.
  line.resize(std::min(line.size(), TerminalColumns() - 1));
  Draw("\r" + line + "\x1b[K");
  drawn_ = true;
}

}  // namespace shardctl
