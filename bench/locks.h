// Counts what the threads of this program do with locks, and the processor time that each lock is held.
//
// A program that includes this, in one file only, takes the place of the C library's functions for mutexes, also for
// the C++ library. The times are of the thread's processor clock, because a thread that is interrupted while it holds a
// lock would otherwise count the work of others. Reading that clock takes longer than most of what is done with a lock,
// so its own time is measured in the beginning and left out.
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace shardkit::bench {

struct LockSite {
  const void* caller = nullptr;
  const pthread_mutex_t* mutex = nullptr;  // the first
  bool many = false;                       // not always the same
  uint64_t taken = 0;
  uint64_t waited = 0;  // of these, the lock was another thread's
  uint64_t wakes = 0;   // threads woken while it was held
  int64_t held = 0;     // nanoseconds
};

// One thread, from its first lock while recording to its end.
struct LockingThread {
  std::vector<LockSite> sites;
  struct Held {
    const pthread_mutex_t* mutex;
    size_t site;
    int64_t since;
  };
  std::vector<Held> held;
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
  int64_t begin = 0;             // of the clock
  std::atomic<int64_t> end = 0;  // 0 while it runs
  uint64_t wakes = 0;            // without a lock
  LockingThread* next = nullptr;
};

inline std::atomic<bool> recording = false;
inline std::atomic<LockingThread*> locking_threads = nullptr;
inline int64_t clock_cost = 0;

inline int64_t ThreadNanoseconds(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

// The least of many, of two readings with nothing between them.
inline void MeasureClock() {
  clock_cost = INT64_MAX;
  for (int i = 0; i < 10000; ++i) {
    const int64_t begin = ThreadNanoseconds();
    clock_cost = std::min(clock_cost, ThreadNanoseconds() - begin);
  }
}

// Ends the record of a thread, which others read after they have joined it.
struct ThreadRecord {
  LockingThread* thread = nullptr;
  ~ThreadRecord() {
    if (thread != nullptr && thread->end == 0) thread->end = ThreadNanoseconds();
  }
};
inline thread_local ThreadRecord this_record;
inline thread_local bool in_record = false;  // what is recorded may lock, too

inline LockingThread* ThisThread() {
  if (!recording.load(std::memory_order_relaxed) || in_record) return this_record.thread;
  if (this_record.thread == nullptr) {
    in_record = true;
    auto* const made = new LockingThread;
    made->sites.reserve(64);
    made->held.reserve(16);
    pthread_getcpuclockid(pthread_self(), &made->clock);
    made->begin = ThreadNanoseconds();
    made->next = locking_threads.load();
    while (!locking_threads.compare_exchange_weak(made->next, made)) {
    }
    this_record.thread = made;
    in_record = false;
  }
  return this_record.thread;
}

inline void Took(const pthread_mutex_t* mutex, const void* caller, bool waited) {
  LockingThread* const thread = ThisThread();
  if (thread == nullptr || !recording.load(std::memory_order_relaxed)) return;
  auto site = std::ranges::find(thread->sites, caller, &LockSite::caller);
  if (site == thread->sites.end()) site = thread->sites.insert(site, LockSite{.caller = caller, .mutex = mutex});
  site->many |= site->mutex != mutex;
  ++site->taken;
  site->waited += waited;
  thread->held.push_back({mutex, static_cast<size_t>(site - thread->sites.begin()), ThreadNanoseconds()});
}

// Where it was taken; null when that is not known.
inline const void* Gave(const pthread_mutex_t* mutex) {
  LockingThread* const thread = this_record.thread;
  if (thread == nullptr) return nullptr;
  for (size_t i = thread->held.size(); i-- > 0;) {
    const LockingThread::Held held = thread->held[i];
    if (held.mutex != mutex) continue;
    LockSite& site = thread->sites[held.site];
    site.held += ThreadNanoseconds() - held.since - clock_cost;
    thread->held.erase(thread->held.begin() + static_cast<ptrdiff_t>(i));
    // The outer ones have read the clock of this one, too.
    for (size_t outer = 0; outer < i; ++outer) thread->held[outer].since += 2 * clock_cost;
    return site.caller;
  }
  return nullptr;
}

inline void Woke() {
  LockingThread* const thread = ThisThread();
  if (thread == nullptr) return;
  if (thread->held.empty()) {
    ++thread->wakes;
  } else {
    ++thread->sites[thread->held.back().site].wakes;
  }
}

// Threads that have been recorded either run on or were joined.
inline void StopRecording() {
  recording = false;
  for (LockingThread* thread = locking_threads; thread != nullptr; thread = thread->next) {
    if (thread->end == 0) thread->end = ThreadNanoseconds(thread->clock);
  }
}

// The C library's own function. Older ones of the same name need other conditions.
template <typename Function>
Function* Original(const char* name) {
  void* found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  if (found == nullptr) found = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function*>(found);
}

}  // namespace shardkit::bench

extern "C" {
#define SHARDKIT_ORIGINAL(name) static auto* const original = shardkit::bench::Original<decltype(name)>(#name)

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  SHARDKIT_ORIGINAL(pthread_mutex_lock);
  static auto* const attempt = shardkit::bench::Original<decltype(pthread_mutex_trylock)>("pthread_mutex_trylock");
  if (!shardkit::bench::recording.load(std::memory_order_relaxed)) return original(mutex);
  const bool waited = attempt(mutex) != 0;
  if (const int error = waited ? original(mutex) : 0) return error;
  shardkit::bench::Took(mutex, __builtin_return_address(0), waited);
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  SHARDKIT_ORIGINAL(pthread_mutex_trylock);
  const int error = original(mutex);
  if (error == 0) shardkit::bench::Took(mutex, __builtin_return_address(0), false);
  return error;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  SHARDKIT_ORIGINAL(pthread_mutex_unlock);
  shardkit::bench::Gave(mutex);
  return original(mutex);
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  SHARDKIT_ORIGINAL(pthread_cond_wait);
  const void* const caller = shardkit::bench::Gave(mutex);
  const int error = original(condition, mutex);
  if (caller != nullptr) shardkit::bench::Took(mutex, caller, false);
  return error;
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  SHARDKIT_ORIGINAL(pthread_cond_signal);
  shardkit::bench::Woke();
  return original(condition);
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  SHARDKIT_ORIGINAL(pthread_cond_broadcast);
  shardkit::bench::Woke();
  return original(condition);
}

#undef SHARDKIT_ORIGINAL
}
