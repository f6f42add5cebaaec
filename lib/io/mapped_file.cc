#include "io/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/posix_error.h"
#include "io/posix_file.h"

namespace shardkit::io {
namespace {

// Handles pages of a memory map that the system cannot deliver, because the file was cut after it was mapped or because
// its device failed.
//
// Reading such a page raises SIGBUS, which by default ends the process. The first MapWatch of a process installs a
// handler; no later one does. For a page of a watched map, the handler maps zeros there, records the loss in the watch,
// and the thread continues. Every other SIGBUS goes to the handler that was installed before, with its arguments and
// its mask, or has the default effect. A handler that is installed later has to call the one that it replaces for pages
// that are not its own.

// The handler may read this at any moment, so there is no lock. `begin` is set last and cleared first: a reader that
// finds it unchanged after reading `end` has a matching pair.
struct WatchedMap {
  std::atomic<uintptr_t> begin = 0;  // 0: free
  std::atomic<uintptr_t> end = 0;
  std::atomic<uint64_t> lost = UINT64_MAX;
  WatchedMap* next_free = nullptr;
};

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

class MappedFile final : public RandomAccessFile {
 public:
  // Takes ownership of the mapping `bytes`; an empty file has none.
  MappedFile(std::string path, OpenedFile file, std::string_view bytes)
      : path_(std::move(path)), file_(std::move(file)), bytes_(bytes) {
    if (!bytes_.empty()) watch_.emplace(bytes_.data(), bytes_.size());
  }

  ~MappedFile() override {
    watch_.reset();
    if (!bytes_.empty()) (void)munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  std::string identity() const override { return file_.identity; }
  std::optional<std::string_view> Mapped() const override { return bytes_; }
  int descriptor() const override { return file_.descriptor.get(); }

  // Also compares the current length: in the last page of a cut file, the system delivers zeros without a signal.
  absl::Status CheckMapped() const override {
    if (bytes_.empty()) return absl::OkStatus();
    const std::optional<uint64_t> lost = watch_->lost();
    struct stat info;
    if (fstat(file_.descriptor.get(), &info) != 0) return PosixError(path_, "stat", errno);
    const uint64_t now = static_cast<uint64_t>(info.st_size);
    if (now < bytes_.size()) {
      return DataLoss(path_, ": the file was cut while it was mapped: it had ", bytes_.size(), " bytes, now it has ",
                      now, "; restore it and open it again");
    }
    if (!lost) return absl::OkStatus();
    return Internal(path_, ": cannot read at offset ", *lost,
                    " through its memory map: the device failed, or the file was cut and has grown again; see the "
                    "kernel log (dmesg)");
  }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), bytes_.size())) {
      return ReadPastEnd(path_, bytes_.size(), buffer.size(), offset);
    }
    if (buffer.empty()) return absl::OkStatus();
    std::memcpy(buffer.data(), bytes_.data() + offset, buffer.size());
    return CheckMapped();
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    // Gives all hints before the first page fault waits.
    for (const ReadRequest& request : requests) WillNeed(request.offset, request.buffer.size());
    return RandomAccessFile::ReadBatch(requests);
  }

  void WillNeed(uint64_t offset, uint64_t length) const override { Advise(offset, length, MADV_WILLNEED); }
  // The pages stay in the page cache, so reading them again needs no I/O.
  void WontNeed(uint64_t offset, uint64_t length) const override { Advise(offset, length, MADV_DONTNEED); }

 private:
  void Advise(uint64_t offset, uint64_t length, int advice) const {
    if (length == 0 || offset >= bytes_.size()) return;
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t begin = offset / page * page;
    const uint64_t end = offset + std::min(length, bytes_.size() - offset);
    (void)madvise(const_cast<char*>(bytes_.data()) + begin, end - begin, advice);
  }

  const std::string path_;
  const OpenedFile file_;
  const std::string_view bytes_;
  std::optional<MapWatch> watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenMappedFile(const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(OpenedFile file, OpenRegularFile(path, /*extra_flags=*/0));
  if (file.size == 0) return std::make_unique<MappedFile>(path, std::move(file), std::string_view(""));
  void* address = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.descriptor.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    if (error != ENODEV) return PosixError(path, "map", error);
    return NewPosixRandomAccessFile(path, std::move(file),
                                    StrCat("memory map refused (", ErrorText(error), "): buffered reads"));
  }
  const std::string_view bytes(static_cast<const char*>(address), file.size);
  return std::make_unique<MappedFile>(path, std::move(file), bytes);
}

}  // namespace shardkit::io
