// Loaded before the C library (LD_PRELOAD). Makes the library's calls on files fail in ways that a program must handle:
//
//   SHARDKIT_CALLS_SEED=N      sometimes interrupts a call (EINTR), or reads or writes less than asked; N is the seed
//   SHARDKIT_CALLS_FAIL=K:E    call K, counted from 1, fails with the error number E. When E is "end", a read returns
//                              0 bytes, as at the end of a file
//   SHARDKIT_CALLS_LOG=FILE    appends a line "NAME" to FILE when call K fails, and a line "counted N" at the end
//
// Only calls on regular files and directories count, and only calls by the program itself, not those of the C library.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace {

std::atomic<uint64_t> calls = 0;
std::atomic<uint64_t> state = 0;

struct Settings {
  uint64_t seed = 0;
  uint64_t fail = 0;
  int error = 0;  // -1: a read of nothing
  const char* log = nullptr;

  Settings() {
    if (const char* text = getenv("SHARDKIT_CALLS_SEED")) seed = strtoull(text, nullptr, 10);
    if (const char* text = getenv("SHARDKIT_CALLS_FAIL")) {
      char* end = nullptr;
      fail = strtoull(text, &end, 10);
      error = strcmp(end, ":end") == 0 ? -1 : atoi(end + 1);
    }
    log = getenv("SHARDKIT_CALLS_LOG");
    state = seed;
  }
};

const Settings& settings() {
  static const Settings read;
  return read;
}

void Log(const char* line, uint64_t number) {
  if (settings().log == nullptr) return;
  char text[100];
  const int length =
      number == 0 ? snprintf(text, sizeof(text), "%s\n", line) : snprintf(text, sizeof(text), "%s %lu\n", line, number);
  const long file = syscall(SYS_openat, AT_FDCWD, settings().log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return;
  syscall(SYS_write, file, text, length);
  syscall(SYS_close, file);
}

__attribute__((destructor)) void AtTheEnd() {
  const uint64_t counted = calls;
  if (counted != 0) Log("counted", counted);
}

uint64_t Random() {
  uint64_t value = (state += 0x9E3779B97F4A7C15u);
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

bool IsFile(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

enum class Outcome { kAsAsked, kFailed, kEnd };

// Sets errno when the call must fail. `may_interrupt`: the call may fail with EINTR.
Outcome Count(const char* name, bool may_interrupt) {
  const uint64_t number = ++calls;
  if (settings().seed != 0 && may_interrupt && Random() % 4 == 0) {
    errno = EINTR;
    return Outcome::kFailed;
  }
  if (number != settings().fail) return Outcome::kAsAsked;
  Log(name, 0);
  if (settings().error == -1) return strcmp(name, "read") == 0 ? Outcome::kEnd : Outcome::kAsAsked;
  errno = settings().error;
  return Outcome::kFailed;
}

// How many of `length` bytes the call reads or writes.
size_t Part(int descriptor, size_t length) {
  if (settings().seed == 0 || length < 2 || Random() % 2 == 0) return length;
  const size_t part = 1 + Random() % length;
  // Without the page cache, a device reads and writes whole sectors.
  const bool direct = (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
  return direct ? std::min(length, (part + 4095) / 4096 * 4096) : part;
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

#define NEXT(name) static const auto next = Next<decltype(&::name)>(#name)

}  // namespace

extern "C" {

ssize_t read(int descriptor, void* buffer, size_t length) {
  NEXT(read);
  if (!IsFile(descriptor)) return next(descriptor, buffer, length);
  const Outcome outcome = Count("read", true);
  if (outcome != Outcome::kAsAsked) return outcome == Outcome::kEnd ? 0 : -1;
  return next(descriptor, buffer, Part(descriptor, length));
}

ssize_t pread64(int descriptor, void* buffer, size_t length, off64_t offset) {
  NEXT(pread64);
  if (!IsFile(descriptor)) return next(descriptor, buffer, length, offset);
  const Outcome outcome = Count("read", true);
  if (outcome != Outcome::kAsAsked) return outcome == Outcome::kEnd ? 0 : -1;
  return next(descriptor, buffer, Part(descriptor, length), offset);
}

ssize_t write(int descriptor, const void* buffer, size_t length) {
  NEXT(write);
  if (!IsFile(descriptor)) return next(descriptor, buffer, length);
  if (Count("write", true) != Outcome::kAsAsked) return -1;
  return next(descriptor, buffer, Part(descriptor, length));
}

ssize_t pwrite64(int descriptor, const void* buffer, size_t length, off64_t offset) {
  NEXT(pwrite64);
  if (!IsFile(descriptor)) return next(descriptor, buffer, length, offset);
  if (Count("write", true) != Outcome::kAsAsked) return -1;
  return next(descriptor, buffer, Part(descriptor, length), offset);
}

ssize_t pwritev64(int descriptor, const struct iovec* vectors, int count, off64_t offset) {
  NEXT(pwritev64);
  if (!IsFile(descriptor)) return next(descriptor, vectors, count, offset);
  if (Count("write", true) != Outcome::kAsAsked) return -1;
  if (settings().seed == 0 || Random() % 2 == 0) return next(descriptor, vectors, count, offset);
  // Some of the vectors, or a part of the first one.
  const int taken = 1 + static_cast<int>(Random() % static_cast<uint64_t>(count));
  if (taken > 1) return next(descriptor, vectors, taken - 1, offset);
  const size_t part = Part(descriptor, vectors[0].iov_len);
  static const auto next_one = Next<decltype(&::pwrite64)>("pwrite64");
  return part == 0 ? next(descriptor, vectors, count, offset) : next_one(descriptor, vectors[0].iov_base, part, offset);
}

int fsync(int descriptor) {
  NEXT(fsync);
  return IsFile(descriptor) && Count("sync", true) != Outcome::kAsAsked ? -1 : next(descriptor);
}

int fdatasync(int descriptor) {
  NEXT(fdatasync);
  return IsFile(descriptor) && Count("sync", true) != Outcome::kAsAsked ? -1 : next(descriptor);
}

// A failing close still closes the descriptor, as on Linux.
int close(int descriptor) {
  NEXT(close);
  if (!IsFile(descriptor)) return next(descriptor);
  const bool writable = (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY;
  const bool failed = writable && Count("close", true) != Outcome::kAsAsked;
  const int error = errno;
  const int result = next(descriptor);
  if (failed) errno = error;
  return failed ? -1 : result;
}

int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return Count("rename", false) != Outcome::kAsAsked ? -1 : next(from, to);
}

int unlink(const char* path) noexcept {
  NEXT(unlink);
  return Count("remove", false) != Outcome::kAsAsked ? -1 : next(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  NEXT(mkdir);
  return Count("create directory", false) != Outcome::kAsAsked ? -1 : next(path, mode);
}

int open64(const char* path, int flags, ...) {
  using Function = int (*)(const char*, int, mode_t);
  static const Function next = Next<Function>("open64");
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, flags);
    mode = __builtin_va_arg(arguments, mode_t);
    __builtin_va_end(arguments);
  }
  const bool of_the_system =
      strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 || strncmp(path, "/dev/", 5) == 0;
  if (!of_the_system && Count((flags & O_ACCMODE) == O_RDONLY ? "open" : "create", true) != Outcome::kAsAsked)
    return -1;
  return next(path, flags, mode);
}

}  // extern "C"
