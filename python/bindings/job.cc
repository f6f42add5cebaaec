#include "job.h"

#include <chrono>

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

constexpr std::chrono::milliseconds kLook(50);

}  // namespace

void WaitForJob(std::mutex& mutex, std::condition_variable& ended, const bool& finished, const JobProgress& numbers,
                const nb::object& progress, Cancellation& cancellation) {
  const auto wait = [&] {
    const GilReleased released;
    std::unique_lock lock(mutex);
    return ended.wait_for(lock, kLook, [&] { return finished; });
  };
  try {
    uint64_t told = UINT64_MAX;
    for (bool end = false; !end;) {
      end = wait();
      LookForSignals();
      if (const uint64_t done = numbers.done.load(); !progress.is_none() && done != told) {
        const nb::tuple now = nb::make_tuple(done, numbers.total.load());
        CallPython([&] { return PyObject_CallObject(progress.ptr(), now.ptr()); });
        told = done;
      }
    }
  } catch (...) {
    cancellation.Cancel();
    throw;
  }
}

}  // namespace shardkit::bindings
