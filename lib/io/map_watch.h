// Pages of a memory map that the system cannot deliver, because the file was cut after it was mapped or
// because its device failed.
//
// Reading such a page raises SIGBUS, which ends a process that does not expect it. The first MapWatch of a
// process installs a handler for it, and never another: a page of a watched map becomes a page of zeros, the
// watch remembers that, and the thread goes on. Every other SIGBUS goes to the handler that was there before,
// with its arguments and its mask, or has the default effect. Who installs a handler later has to call the
// one that it replaces for the pages that are not its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shardkit {

struct WatchedMap;

// Thread-safe. While it lives the map must stay; it is unmapped afterwards.
class MapWatch {
 public:
  // A map of whole pages from `begin` on, the last of which may end before its `length` says. Not empty.
  MapWatch(const char* begin, size_t length);
  ~MapWatch();
  MapWatch(const MapWatch&) = delete;
  MapWatch& operator=(const MapWatch&) = delete;

  // Where the page begins that could not be delivered first, in bytes from the start of the map; what follows
  // it may be zeros. What this thread has read before asking is good when the answer is empty.
  std::optional<uint64_t> lost() const;

 private:
  WatchedMap* const map_;
};

}  // namespace shardkit
