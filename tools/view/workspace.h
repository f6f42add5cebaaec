// Memory and decoders for requests, and the limits of both.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "shardkit/dataset_reader.h"
#include "shardkit/image.h"

namespace shardctl {

// What one request works with at a time.
struct Workspace {
  shardkit::BlockBuffer buffer;
  shardkit::ImageDecoder decoder;
};

// A few workspaces, and a budget of bytes that images which are being decoded take together. Both are waited for: a
// server with more requests answers them later. Thread-safe.
class WorkspacePool {
 public:
  // Reading from far away waits for more requests than processors can work on.
  static constexpr size_t kWorkspaces = 16;
  static constexpr uint64_t kDecodeMemory = uint64_t{96} << 20;
  static constexpr size_t kDecodes = 4;

  // Gives a workspace back when it is destroyed.
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace* operator->() const { return workspace_.get(); }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };

  // Holds bytes of the budget, at most all of it, and one of the decodes.
  class Decoding {
   public:
    Decoding(WorkspacePool& pool, uint64_t bytes);
    ~Decoding();
    Decoding(const Decoding&) = delete;
    Decoding& operator=(const Decoding&) = delete;

   private:
    WorkspacePool& pool_;
    const uint64_t bytes_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Workspace>> free_;
  size_t leased_ = 0;
  size_t decodes_ = 0;
  uint64_t decode_bytes_ = 0;
};

}  // namespace shardctl
