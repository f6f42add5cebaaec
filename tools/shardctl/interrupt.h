// Ctrl-C as a request to stop and clean up.
#pragma once

#include "shardkit/job.h"

namespace shardctl {

// The first SIGINT, SIGTERM or SIGHUP after this call cancels all work that uses the returned Cancellation. A second
// signal of the same kind ends the process at once. Call this function once, before any thread is started.
shardkit::Cancellation* CancelOnSignal();

}  // namespace shardctl
