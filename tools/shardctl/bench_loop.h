// What loops over batches share.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "shardkit/cancellation.h"

namespace shardctl {

// How late an interruption may be noticed.
inline constexpr std::chrono::milliseconds kNotice(20);

// A signal's handler cannot wake a loader, so a thread of its own does.
template <typename Loader>
class CancelLoader {
 public:
  CancelLoader(Loader& loader, const shardkit::Cancellation& cancellation)
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

// Bytes of the whole process, at most so far, or since ForgetPeakResident where the system can forget.
uint64_t PeakResident();
void ForgetPeakResident();

}  // namespace shardctl
