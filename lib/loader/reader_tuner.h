// How many threads should read.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardkit::loader {

// Climbs while somebody waits for blocks and a thread more brings more bytes per second; steps back when it does not.
// More threads than processors are only tried while reads wait for a device, and given up when they no longer do: what
// comes from memory is bound by the processors. Pure: time comes in from outside. One thread at a time.
class ReaderTuner {
 public:
  // Begins with `first`; at most `processors`, or `most` while reads wait. Stays at `first` when `on` is false.
  ReaderTuner(bool on, int first, int processors, int most)
      : on_(on), processors_(std::max(first, processors)), most_(std::max(most, first)), threads_(first) {}

  int threads() const { return threads_; }

  // After a block: `now` in seconds, the bytes of all blocks so far, whether someone waits for blocks, and whether
  // reading this one waited for a device. True when the number of threads has changed.
  bool Update(double now, uint64_t bytes, bool waited_for, bool device_wait) {
    if (!on_) return false;
    ++blocks_;
    waits_ += waited_for;
    device_waits_ += device_wait;
    if (blocks_ < kBlocks || now - since_ < kSeconds * patience_) return false;
    const double rate = static_cast<double>(bytes - bytes_) / (now - since_);
    const bool starving = 2 * waits_ > blocks_;
    const bool from_device = 2 * device_waits_ > blocks_;
    const int before = threads_;
    if (trying_) {
      trying_ = false;
      if (rate < kGain * rate_) {
        --threads_;
        patience_ = std::min(2 * patience_, kMostPatience);
      } else {
        patience_ = 1;
      }
    } else if (!from_device && threads_ > processors_) {
      --threads_;
    } else if (starving && threads_ < (from_device ? most_ : processors_)) {
      rate_ = rate;
      ++threads_;
      trying_ = true;
    }
    since_ = now;
    bytes_ = bytes;
    blocks_ = waits_ = device_waits_ = 0;
    return threads_ != before;
  }

 private:
  static constexpr int kBlocks = 16;        // of one measurement, at least
  static constexpr double kSeconds = 0.02;  // the same
  static constexpr double kGain = 1.05;     // what a thread more must bring
  static constexpr double kMostPatience = 64;

  const bool on_;
  const int processors_;
  const int most_;
  int threads_;
  bool trying_ = false;
  double rate_ = 0;      // bytes per second before the trial
  double patience_ = 1;  // longer after each trial in vain
  double since_ = 0;
  uint64_t bytes_ = 0;
  int blocks_ = 0;
  int waits_ = 0;
  int device_waits_ = 0;
};

}  // namespace shardkit::loader
