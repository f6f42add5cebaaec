// How many threads should read.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardkit::loader {

// Adds a thread while somebody waits for blocks, and takes it away when it does not bring more bytes per second. More
// threads than processors are tried only while reads wait for a device, and are given up when reads no longer wait,
// because reads from memory are bound by the processors. Pure: the caller passes the time. One thread at a time.
class ReaderTuner {
 public:
  // Begins with `first`. At most `processors`, or `most` while reads wait for a device. Stays at `first` when `on` is
  // false.
  ReaderTuner(bool on, int first, int processors, int most)
      : on_(on), processors_(std::max(first, processors)), most_(std::max(most, first)), threads_(first) {}

  int threads() const { return threads_; }

  // Whether most reads waited for a device in the last measurement.
  bool from_device() const { return from_device_; }

  // Call after each block: `now` in seconds, the bytes of all blocks so far, whether someone waits for blocks, and
  // whether reading this block waited for a device. True when the number of threads has changed.
  bool Update(double now, uint64_t bytes, bool waited_for, bool device_wait) {
    if (!on_) return false;
    ++blocks_;
    waits_ += waited_for;
    device_waits_ += device_wait;
    if (blocks_ < kBlocks || now - since_ < kSeconds * patience_) return false;
    const double rate = static_cast<double>(bytes - bytes_) / (now - since_);
    const bool starving = 2 * waits_ > blocks_;
    from_device_ = 2 * device_waits_ > blocks_;
    const int before = threads_;
    if (trying_) {
      trying_ = false;
      if (rate < kGain * rate_) {
        --threads_;
        patience_ = std::min(2 * patience_, kMostPatience);
      } else {
        patience_ = 1;
      }
    } else if (!from_device_ && threads_ > processors_) {
      --threads_;
    } else if (starving && threads_ < (from_device_ ? most_ : processors_)) {
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
  static constexpr int kBlocks = 16;        // least blocks of one measurement
  static constexpr double kSeconds = 0.02;  // least seconds of one measurement
  static constexpr double kGain = 1.05;     // how much faster one more thread must make reading
  static constexpr double kMostPatience = 64;

  const bool on_;
  const int processors_;
  const int most_;
  int threads_;
  bool trying_ = false;
  bool from_device_ = false;
  double rate_ = 0;      // bytes per second before the trial
  double patience_ = 1;  // longer after each trial without success
  double since_ = 0;
  uint64_t bytes_ = 0;
  int blocks_ = 0;
  int waits_ = 0;
  int device_waits_ = 0;
};

}  // namespace shardkit::loader
