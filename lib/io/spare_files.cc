#include "io/spare_files.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <vector>

namespace shardkit::io {
namespace {

std::atomic<ptrdiff_t> open_descriptors{0};

// Never destroyed: caches may outlive static objects.
struct Registry {
  std::mutex mutex;
  std::vector<SpareFiles*> all;
};

Registry& TheRegistry() {
  static Registry* const registry = [] {
    // The child of a fork lacks the threads that may hold locks of the parent's caches, and leaves these alone.
    pthread_atfork([] { TheRegistry().mutex.lock(); }, [] { TheRegistry().mutex.unlock(); },
                   [] {
                     TheRegistry().all.clear();
                     TheRegistry().mutex.unlock();
                   });
    return new Registry;
  }();
  return *registry;
}

}  // namespace

size_t OpenDescriptors() {
  return static_cast<size_t>(std::max<ptrdiff_t>(open_descriptors.load(std::memory_order_relaxed), 0));
}

void CountDescriptor(int change) { open_descriptors.fetch_add(change, std::memory_order_relaxed); }

size_t MostDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<size_t>(limit.rlim_cur / 2);
}

void AddSpareFiles(SpareFiles* files) {
  const std::lock_guard lock(TheRegistry().mutex);
  TheRegistry().all.push_back(files);
}

void RemoveSpareFiles(SpareFiles* files) {
  const std::lock_guard lock(TheRegistry().mutex);
  std::erase(TheRegistry().all, files);
}

bool CloseSpareFile() {
  std::shared_ptr<const void> taken;  // destroyed after the lock is given back
  const std::lock_guard lock(TheRegistry().mutex);
  const auto most = std::ranges::max_element(TheRegistry().all, {}, &SpareFiles::count);
  if (most != TheRegistry().all.end()) taken = (*most)->TakeOldest();
  return taken != nullptr;
}

bool MadeRoom(int error_number) {
  const bool made = (error_number == EMFILE || error_number == ENFILE) && CloseSpareFile();
  errno = error_number;
  return made;
}

}  // namespace shardkit::io
