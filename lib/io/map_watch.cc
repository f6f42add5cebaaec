#include "io/map_watch.h"

#include <signal.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

namespace shardkit::io {

// The handler may read this at any moment, so there is no lock. `begin` is set last and cleared first: a reader that
// finds it unchanged after reading `end` has a matching pair.
struct WatchedMap {
  std::atomic<uintptr_t> begin = 0;  // 0: free
  std::atomic<uintptr_t> end = 0;
  std::atomic<uint64_t> lost = UINT64_MAX;
  WatchedMap* next_free = nullptr;
};

namespace {

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

struct Chunk {
  std::array<WatchedMap, 64> maps;
  std::atomic<Chunk*> next = nullptr;
};

// Chunks are never freed, because the handler may be reading them.
struct Watches {
  Watches();
  WatchedMap* Take();
  void AddFree(Chunk& chunk);

  std::mutex mutex;
  Chunk first;
  Chunk* last = &first;
  WatchedMap* free = nullptr;
};

// Used by the handler; set before the handler is installed.
std::atomic<Watches*> watches_of_handler = nullptr;
struct sigaction previous_action {};
std::atomic<bool> previous_spent = false;
uintptr_t page_bytes = 4096;

WatchedMap* Find(uintptr_t address) {
  Watches* const watches = watches_of_handler.load(std::memory_order_acquire);
  for (Chunk* chunk = &watches->first; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire)) {
    for (WatchedMap& map : chunk->maps) {
      const uintptr_t begin = map.begin.load(std::memory_order_acquire);
      if (begin == 0 || address < begin) continue;
      const uintptr_t end = map.end.load(std::memory_order_acquire);
      if (address < end && map.begin.load(std::memory_order_acquire) == begin) return &map;
    }
  }
  return nullptr;
}

// Like mmap(2), but bypasses the wrappers of sanitizers and tracers, which may not be callable from a signal handler.
bool MapZeros(void* address, size_t length) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
  return syscall(SYS_mmap, address, length, PROT_READ, kFlags, -1, 0) != -1;
#else
  return mmap(address, length, PROT_READ, kFlags, -1, 0) != MAP_FAILED;
#endif
}

bool ReplaceLostPages(uintptr_t address) {
  WatchedMap* const map = Find(address);
  if (map == nullptr) return false;
  const uintptr_t page = address / page_bytes * page_bytes;
  const uintptr_t begin = map->begin.load(std::memory_order_relaxed);
  // This must happen before any thread can read a zero.
  uint64_t none = UINT64_MAX;
  map->lost.compare_exchange_strong(none, page - begin);
  // Up to the end: in a cut file all later pages are gone too, and one fault for each of them takes long.
  const size_t length = map->end.load(std::memory_order_relaxed) - page;
  return MapZeros(reinterpret_cast<void*>(page), length);
}

// Acts as if the previous handler, or none, had been called.
void PassOn(int signal, siginfo_t* info, void* context) {
  const bool raised_by_access = info->si_code > 0;
  const bool spent = (previous_action.sa_flags & SA_RESETHAND) != 0 && previous_spent.exchange(true);
  if (!spent && (previous_action.sa_flags & SA_SIGINFO) != 0)
    return previous_action.sa_sigaction(signal, info, context);
  if (!spent && previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    return previous_action.sa_handler(signal);
  }
  // Ignoring the signal has no effect for a bad access.
  if (!spent && previous_action.sa_handler == SIG_IGN && !raised_by_access) return;
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  (void)sigaction(signal, &by_default, nullptr);
  // A bad access repeats on return, so that a core dump shows its place. A signal that was sent is sent again.
  if (!raised_by_access) (void)raise(signal);
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool of_a_page = info->si_code == BUS_ADRERR
#ifdef BUS_MCEERR_AR
                         || info->si_code == BUS_MCEERR_AR
#endif
      ;
  const bool replaced = of_a_page && ReplaceLostPages(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (!replaced) PassOn(signal, info, context);
}

Watches::Watches() {
  AddFree(first);
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  watches_of_handler.store(this, std::memory_order_release);
  // The previous action is read first, because another thread may need it as soon as the handler is installed.
  (void)sigaction(SIGBUS, nullptr, &previous_action);
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_mask = previous_action.sa_mask;
  // SA_ONSTACK: a program with small stacks may have a separate signal stack.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (previous_action.sa_flags & (SA_RESTART | SA_NODEFER));
  (void)sigaction(SIGBUS, &action, nullptr);
}

void Watches::AddFree(Chunk& chunk) {
  for (WatchedMap& map : chunk.maps) {
    map.next_free = free;
    free = &map;
  }
}

WatchedMap* Watches::Take() {
  if (free == nullptr) {
    Chunk* const chunk = new Chunk;
    AddFree(*chunk);
    last->next.store(chunk, std::memory_order_release);
    last = chunk;
  }
  WatchedMap* const map = free;
  free = map->next_free;
  return map;
}

Watches& AllWatches() {
  static Watches* const watches = new Watches;
  return *watches;
}

}  // namespace

MapWatch::MapWatch(const char* begin, size_t length)
    : map_([] {
        Watches& watches = AllWatches();
        std::lock_guard lock(watches.mutex);
        return watches.Take();
      }()) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
  map_->lost.store(UINT64_MAX);
  map_->end.store(address + (length + page_bytes - 1) / page_bytes * page_bytes);
  map_->begin.store(address);
}

MapWatch::~MapWatch() {
  map_->begin.store(0);
  Watches& watches = AllWatches();
  std::lock_guard lock(watches.mutex);
  map_->next_free = watches.free;
  watches.free = map_;
}

std::optional<uint64_t> MapWatch::lost() const {
  // Not a load, because this thread's earlier reads of the map must come before it.
  const uint64_t lost = map_->lost.fetch_or(0, std::memory_order_acq_rel);
  return lost == UINT64_MAX ? std::nullopt : std::optional<uint64_t>(lost);
}

}  // namespace shardkit::io
