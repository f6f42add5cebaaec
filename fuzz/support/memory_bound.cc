#include "support/memory_bound.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

// From the sanitizers' run-time library (sanitizer/allocator_interface.h). Null without a sanitizer.
extern "C" __attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*,
                                                                                                 size_t),
                                                                               void (*freed)(const volatile void*));
extern "C" __attribute__((weak)) size_t __sanitizer_get_allocated_size(const volatile void*);

namespace shardkit::fuzz {
namespace {

constexpr int64_t kAllowed = int64_t{256} << 20;

std::atomic<int64_t> live{0};
std::atomic<int64_t> limit{INT64_MAX};

void Allocated(const volatile void*, size_t size) {
  const int64_t now = live.fetch_add(static_cast<int64_t>(size)) + static_cast<int64_t>(size);
  if (now <= limit.load(std::memory_order_relaxed)) return;
  limit = INT64_MAX;  // the report allocates, too
  std::fprintf(stderr, "fuzz: more memory than an input of this size may take: %lld bytes\n",
               static_cast<long long>(now));
  std::abort();
}

void Freed(const volatile void* memory) {
  if (memory != nullptr) live -= static_cast<int64_t>(__sanitizer_get_allocated_size(memory));
}

[[maybe_unused]] const bool installed = __sanitizer_install_malloc_and_free_hooks != nullptr &&
                                        __sanitizer_install_malloc_and_free_hooks(Allocated, Freed) != 0;

}  // namespace

MemoryBound::MemoryBound(size_t input_size) {
  if (installed) limit = live + kAllowed + static_cast<int64_t>(input_size);
}

MemoryBound::~MemoryBound() { limit = INT64_MAX; }

}  // namespace shardkit::fuzz
