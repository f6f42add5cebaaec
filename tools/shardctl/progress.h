// One line that says how far a long command is, on a terminal alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace shardctl {

// Draws on standard error when it is a terminal, at most five times a second, and nothing otherwise. Update
// may be called from any thread.
class Progress {
 public:
  // `noun` is what is counted: "samples", "pairs"; empty when only bytes are.
  explicit Progress(std::string noun);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of `total` say how far it is, in samples or, without a noun, in bytes; total 0: not known. `bytes`
  // is for the rate.
  void Update(uint64_t done, uint64_t total, uint64_t bytes);

  // Clears the line, so that something else can be printed; the next Update draws it again.
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
