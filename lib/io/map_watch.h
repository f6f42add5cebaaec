// Handles pages of a memory map that the system cannot deliver, because the file was cut after it was mapped or because
// its device failed.
//
// Reading such a page raises SIGBUS, which by default ends the process. The first MapWatch of a process installs a
// handler; no later one does. For a page of a watched map, the handler maps zeros there, records the loss in the watch,
// and the thread continues. Every other SIGBUS goes to the handler that was installed before, with its arguments and
// its mask, or has the default effect. A handler that is installed later has to call the one that it replaces for pages
// that are not its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shardkit::io {

struct WatchedMap;

// Thread-safe. The map must stay while this lives; unmap it afterwards.
class MapWatch {
 public:
  // Watches a map of whole pages from `begin` on, not empty; `length` may end inside the last page.
  MapWatch(const char* begin, size_t length);
  ~MapWatch();
  MapWatch(const MapWatch&) = delete;
  MapWatch& operator=(const MapWatch&) = delete;

  // Start of the first page that could not be delivered, in bytes from the start of the map; the bytes from there on
  // may be zeros. When empty, everything that this thread has read before the call is valid.
  std::optional<uint64_t> lost() const;

 private:
  WatchedMap* const map_;
};

}  // namespace shardkit::io
