// Ctrl-C as a request to stop and clean up.
#pragma once

#include "shardkit/cancellation.h"

namespace shardctl {

// The first SIGINT, SIGTERM or SIGHUP from now on cancels what the result is given to; a second one of the
// same kind ends the process at once. Call it once, before threads are started.
shardkit::Cancellation* CancelOnSignal();

}  // namespace shardctl
