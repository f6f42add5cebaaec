#include "interrupt.h"

#include <csignal>

namespace shardctl {
namespace {

shardkit::Cancellation cancellation;

void OnSignal(int) { cancellation.Cancel(); }

}  // namespace

shardkit::Cancellation* CancelOnSignal() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    // nohup, and shells that start a job in the background, have these ignored: that is to stay so.
    if (sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = OnSignal;
    // Reads and writes go on; the library asks the cancellation between units of work.
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  return &cancellation;
}

}  // namespace shardctl
