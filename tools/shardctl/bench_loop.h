// Shared by the loops over batches.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "shardkit/job.h"
#include "shardkit/loader.h"

namespace shardctl {

using Clock = std::chrono::steady_clock;
inline double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The longest time until an interruption is noticed.
inline constexpr std::chrono::milliseconds kNotice(20);

// Cancels the loader from its own thread, because a signal handler cannot wake a loader.
class CancelLoader {
 public:
  CancelLoader(shardkit::Loader& loader, const shardkit::Cancellation& cancellation)
      : thread_([&](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            if (cancellation.cancelled()) return loader.Cancel();
            std::this_thread::sleep_for(kNotice);
          }
        }) {}

 private:
  std::jthread thread_;
};

// Takes as long as a training step would.
void SimulateStep(double seconds, const shardkit::Cancellation& cancellation);

// The peak resident memory of the process in bytes, since its start. ForgetPeakResident starts a new peak, where the
// system supports that.
uint64_t PeakResident();
void ForgetPeakResident();

}  // namespace shardctl
