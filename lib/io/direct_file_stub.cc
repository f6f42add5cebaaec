// Used where liburing is not available: there is no engine.
#include "io/direct_file.h"

namespace shardkit::io {

std::shared_ptr<DirectEngine> AcquireDirectEngine(std::string* reason) {
  *reason = "built without io_uring: O_DIRECT with one read in flight";
  return nullptr;
}

}  // namespace shardkit::io
