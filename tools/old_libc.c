// What the wheel's static libraries want of the C library of the system that made them, and of a C library as old as glibc 2.28
// have to do without (tools/wheel). Every definition is hidden: it is for the object that it is linked into alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

// The functions that glibc 2.29 has given a new version, which no longer calls matherr. The results are the same.
#ifdef __aarch64__
#define OLD_VERSION "GLIBC_2.17"
#else
#define OLD_VERSION "GLIBC_2.2.5"  // of x86-64
#endif
#define OLD_FUNCTION(name)                                 \
  __asm__(".symver old_" #name "," #name "@" OLD_VERSION); \
  extern __attribute__((visibility("default"))) double old_##name(double); \
  double name(double x) { return old_##name(x); }
OLD_FUNCTION(exp)
OLD_FUNCTION(exp2)
OLD_FUNCTION(log)
OLD_FUNCTION(log2)
__asm__(".symver old_pow,pow@" OLD_VERSION);
extern __attribute__((visibility("default"))) double old_pow(double, double);
double pow(double x, double y) { return old_pow(x, y); }

// Of glibc 2.30, as the next.
pid_t gettid(void) { return syscall(SYS_gettid); }

// C++ waits with it until a time of the steady clock, and looks at that clock after each return.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
  struct timespec now, deadline;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += until->tv_sec - now.tv_sec;
  deadline.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (deadline.tv_nsec < 0) {
    deadline.tv_nsec += 1000000000;
    --deadline.tv_sec;
  } else if (deadline.tv_nsec >= 1000000000) {
    deadline.tv_nsec -= 1000000000;
    ++deadline.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &deadline);
}

// Of glibc 2.32. False means that there may be several threads.
char __libc_single_threaded;

// Of glibc 2.36.
void arc4random_buf(void* bytes, size_t size) {
  for (char* next = bytes; size > 0;) {
    const ssize_t got = getrandom(next, size, 0);
    if (got < 0 && errno != EINTR) abort();
    if (got > 0) {
      next += got;
      size -= got;
    }
  }
}
uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}

// Debian's static libpng and libbz2 are compiled for programs, and so look for these in the object that they are linked into.
void *stderr, *stdin, *stdout;
__attribute__((constructor(101))) static void FindStreams(void) {
  stderr = *(void**)dlsym(RTLD_DEFAULT, "stderr");
  stdin = *(void**)dlsym(RTLD_DEFAULT, "stdin");
  stdout = *(void**)dlsym(RTLD_DEFAULT, "stdout");
}
