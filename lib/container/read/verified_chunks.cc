#include "container/read/verified_chunks.h"

#include <unistd.h>

#include <mutex>

#include "absl/container/flat_hash_map.h"

namespace shardkit::container {
namespace {

constexpr uint64_t kMostWords = (uint64_t{64} << 20) / 8;

// Of one process: in a fork another thread may have held the lock.
struct Registry {
  const pid_t process = getpid();
  std::mutex mutex;  // guards what follows
  absl::flat_hash_map<std::string, std::shared_ptr<VerifiedChunks>> files;
  uint64_t words = 0;
};

// Never deleted: readers may still be used when the process ends.
Registry& ThisProcess() {
  static std::atomic<Registry*> registry = nullptr;
  Registry* current = registry.load();
  while (current == nullptr || current->process != getpid()) {
    auto fresh = std::make_unique<Registry>();
    if (registry.compare_exchange_strong(current, fresh.get())) current = fresh.release();
  }
  return *current;
}

}  // namespace

std::shared_ptr<VerifiedChunks> VerifiedChunks::Of(const std::string& identity, uint64_t count) {
  if (identity.empty()) return nullptr;
  const uint64_t words = count / 64 + 1;
  Registry& registry = ThisProcess();
  const std::lock_guard lock(registry.mutex);
  std::shared_ptr<VerifiedChunks>& chunks = registry.files[identity];
  if (chunks == nullptr || chunks->bits_.size() != words) {
    if (words > kMostWords - registry.words) {
      if (chunks == nullptr) registry.files.erase(identity);
      return nullptr;
    }
    chunks.reset(new VerifiedChunks(words));
    registry.words += words;
  }
  return chunks;
}

}  // namespace shardkit::container
