#include "view/workspace.h"

#include <algorithm>

namespace shardctl {
namespace {

// A workspace that has read a large block does not keep its memory.
constexpr uint64_t kKeptBytes = uint64_t{16} << 20;

}  // namespace

WorkspacePool::Lease::Lease(WorkspacePool& pool) : pool_(pool) {
  std::unique_lock lock(pool.mutex_);
  pool.changed_.wait(lock, [&] { return pool.leased_ < kWorkspaces; });
  ++pool.leased_;
  if (pool.free_.empty()) {
    workspace_ = std::make_unique<Workspace>();
  } else {
    workspace_ = std::move(pool.free_.back());
    pool.free_.pop_back();
  }
}

WorkspacePool::Lease::~Lease() {
  if (workspace_->buffer.memory() > kKeptBytes) workspace_ = std::make_unique<Workspace>();
  const std::lock_guard lock(pool_.mutex_);
  --pool_.leased_;
  pool_.free_.push_back(std::move(workspace_));
  pool_.changed_.notify_all();
}

WorkspacePool::Decoding::Decoding(WorkspacePool& pool, uint64_t bytes)
    : pool_(pool), bytes_(std::min(bytes, kDecodeMemory)) {
  std::unique_lock lock(pool.mutex_);
  pool.changed_.wait(lock, [&] { return pool.decodes_ < kDecodes && pool.decode_bytes_ + bytes_ <= kDecodeMemory; });
  ++pool.decodes_;
  pool.decode_bytes_ += bytes_;
}

WorkspacePool::Decoding::~Decoding() {
  const std::lock_guard lock(pool_.mutex_);
  --pool_.decodes_;
  pool_.decode_bytes_ -= bytes_;
  pool_.changed_.notify_all();
}

}  // namespace shardctl
