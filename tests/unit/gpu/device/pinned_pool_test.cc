// Page-locked memory within its budget.
#include "gpu/pinned_pool.h"

#include <gtest/gtest.h>

#ifdef __linux__
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <random>
#include <thread>

#include "gpu/host_memory.h"
#include "support/fault_backend.h"
#include "unit/gpu/device/device_support.h"

namespace shardkit::test {
namespace {

using gpu::PinnedPool;

std::shared_ptr<PinnedPool> MakePool(std::shared_ptr<gpu::Backend> device, uint64_t bytes) {
  auto pool = PinnedPool::Create(std::move(device), {.bytes = bytes});
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *pool;
}

TEST(PinnedPool, SlabsAreUsedAgain) {
  const auto pool = MakePool(TestDevice(), 8 * kMiB);
  void* const first = pool->Allocate(3 * kMiB).value_or(nullptr);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 4096, 0u);
  std::memset(first, 1, 3 * kMiB);
  EXPECT_TRUE(pool->Contains(first, 3 * kMiB));
  EXPECT_TRUE(pool->Contains(static_cast<char*>(first) + kMiB, 2 * kMiB));
  EXPECT_FALSE(pool->Contains(static_cast<char*>(first) + kMiB, 2 * kMiB + 1));
  EXPECT_FALSE(pool->Contains(static_cast<char*>(first) - 1, 1));
  const int elsewhere = 0;
  EXPECT_FALSE(pool->Contains(&elsewhere, 4));
  pool->Free(first);
  EXPECT_FALSE(pool->Contains(first, 1));
  EXPECT_EQ(pool->kept(), 3 * kMiB);
  void* const again = pool->Allocate(3 * kMiB).value_or(nullptr);
  EXPECT_EQ(again, first);
  EXPECT_EQ(pool->allocations(), 1u);
  // For another size, the pool allocates from the device while there is room. After that it uses a larger kept block,
  // or frees kept blocks.
  void* const second = pool->Allocate(4 * kMiB).value_or(nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(pool->allocations(), 2u);
  pool->Free(second);
  void* const smaller = pool->Allocate(2 * kMiB).value_or(nullptr);
  EXPECT_EQ(smaller, second);
  pool->Free(smaller);
  void* const larger = pool->Allocate(5 * kMiB).value_or(nullptr);
  ASSERT_NE(larger, nullptr);
  EXPECT_EQ(pool->used(), 8 * kMiB);
  EXPECT_EQ(pool->kept(), 0u);
  EXPECT_EQ(pool->Allocate(1).value_or(nullptr), nullptr);
  const absl::Status full = pool->Allocate(1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_NE(full.message().find("8388608 of 8388608 are in use"), absl::string_view::npos) << full;
  pool->Free(larger);
  pool->Free(again);
  EXPECT_EQ(pool->peak(), 8 * kMiB);
}

TEST(PinnedPool, StaysWithinItsBudgetWhateverIsAsked) {
  const auto device = std::make_shared<FaultBackend>();
  {
    const auto pool = MakePool(device, 16 * kMiB);
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&, seed] {
        std::mt19937_64 random(seed);
        std::vector<std::pair<void*, size_t>> held;
        for (int i = 0; i < 2000; ++i) {
          const size_t size = size_t{1} << (random() % 23);
          if (void* const memory = pool->Allocate(size).value_or(nullptr)) {
            std::memset(memory, static_cast<int>(seed), size);
            held.emplace_back(memory, size);
          }
          EXPECT_LE(device->pinned_bytes(), 16 * kMiB);
          if (!held.empty() && random() % 2 == 0) {
            std::swap(held[random() % held.size()], held.back());
            // No other owner has written to it.
            EXPECT_EQ(static_cast<uint8_t*>(held.back().first)[held.back().second - 1], seed);
            pool->Free(held.back().first);
            held.pop_back();
          }
        }
        for (const auto& [memory, size] : held) pool->Free(memory);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool->used(), 0u);
    EXPECT_LE(pool->peak(), 16 * kMiB);
  }
  EXPECT_EQ(device->alive(), 0);
}

TEST(PinnedPool, RefusesMoreThanHalfOfTheMemory) {
  const auto limit = gpu::FindMemoryLimit();
  if (!limit) GTEST_SKIP() << "this system does not say how much memory there is";
  const auto device = TestDevice();
  const auto refused = PinnedPool::Create(device, {.bytes = limit->bytes / 2 + kMiB});
  ASSERT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  for (const std::string& part : {std::to_string((limit->bytes / 2 + kMiB) >> 20) + " MiB",
                                  "50 % of the " + std::to_string(limit->bytes >> 20) + " MiB", limit->source,
                                  std::string("lower pinned_bytes")}) {
    EXPECT_NE(refused.status().message().find(part), absl::string_view::npos) << part << ": " << refused.status();
  }
  // Budgets are counted together, but only while their pools exist.
  {
    const auto half = PinnedPool::Create(device, {.bytes = limit->bytes / 3});
    ASSERT_TRUE(half.ok()) << half.status();
    EXPECT_TRUE(absl::IsResourceExhausted(PinnedPool::Create(device, {.bytes = limit->bytes / 3}).status()));
    EXPECT_TRUE(PinnedPool::Create(device, {.bytes = limit->bytes / 3, .most_of_memory = 0.9}).ok());
  }
  EXPECT_TRUE(PinnedPool::Create(device, {.bytes = limit->bytes / 3}).ok());
  EXPECT_TRUE(PinnedPool::Create(device, {.bytes = limit->bytes, .most_of_memory = 0}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(PinnedPool::Create(device, {.bytes = 1000}).status()));
}

TEST(PinnedPool, ADeviceWithoutMemory) {
  const auto device = std::make_shared<FaultBackend>();
  const auto pool = MakePool(device, kMiB);
  device->FailCall(1);
  EXPECT_EQ(pool->Allocate(4096).status().message(), "injected fault: AllocatePinned");
  EXPECT_EQ(pool->used(), 0u);
  void* const memory = pool->Allocate(kMiB).value_or(nullptr);
  ASSERT_NE(memory, nullptr);
  pool->Free(memory);
}

#ifdef __linux__
TEST(PreferNumaNode, LeavesTheThreadsPolicyAsItWas) {
  const auto policy = [] {
    int now = -1;
    return syscall(SYS_get_mempolicy, &now, nullptr, 0, nullptr, 0) == 0 ? now : -1;
  };
  const int before = policy();
  if (before < 0) GTEST_SKIP() << "this system does not tell memory policies";
  {
    const gpu::PreferNumaNode prefer(0);
    const int inside = policy();
    EXPECT_TRUE(inside == MPOL_PREFERRED || inside == before) << inside;  // a container may refuse
  }
  EXPECT_EQ(policy(), before);
  {
    const gpu::PreferNumaNode none(std::nullopt), unknown(5000), negative(-1);
    EXPECT_EQ(policy(), before);
  }
}
#endif

}  // namespace
}  // namespace shardkit::test
