#include "interrupt.h"

#include <csignal>
#include <memory>

namespace shardctl {
namespace {

shardkit::Cancellation cancellation;

void OnSignal(int) { cancellation.Cancel(); }

}  // namespace

shardkit::Cancellation* CancelOnSignal() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    // nohup, and shells that start background jobs, make the process ignore some signals. These stay ignored.
    if (sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = OnSignal;
    // Reads and writes continue after the signal. The library checks the cancellation between units of work.
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  // Of the main thread, to its end. Never destroyed: what a thread has for itself ends before what is static.
  [[maybe_unused]] static const auto* const scope = new shardkit::CancellationScope(
      std::shared_ptr<const shardkit::Cancellation>(&cancellation, [](const shardkit::Cancellation*) {}));
  return &cancellation;
}

}  // namespace shardctl
