// One line about the progress of a long command, shown only on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace shardctl {

// Draws on standard error at most five times a second. Draws nothing when standard error is not a terminal. Update may
// be called from any thread.
class Progress {
 public:
  // `noun` names what is counted: "samples", "pairs". It is empty when only bytes are counted.
  explicit Progress(std::string noun);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` and `total` count in the noun, or in bytes without a noun. A total of 0 means unknown. `bytes` is for the
  // rate.
  void Update(uint64_t done, uint64_t total, uint64_t bytes);

  // Clears the line, so that other text can be printed. The next Update draws it again.
  void Clear();

  // Whether anything is drawn at all.
  bool enabled() const { return enabled_; }

  double seconds() const;

 private:
  std::string noun_;
  bool enabled_;
  std::mutex mutex_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace shardctl
