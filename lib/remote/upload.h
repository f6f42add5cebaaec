// An object that is written from front to back, of any size, in bounded memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "remote/object_store.h"

namespace shardkit::remote {

// One thread at a time. The object appears with Finish, or not at all: what is small is put in one request, and what is
// larger in parts of 8 MiB (later ones of more: a store takes 10,000), eight of which are under way at once. Memory:
// 72 MiB until 8 GiB were written, then twice that until 24 GiB, and so on.
class Upload {
 public:
  // `store` must outlive it.
  Upload(ObjectStore& store, ObjectUrl url) : store_(store), url_(std::move(url)) {}

  // Aborts, unless it was finished.
  ~Upload();

  const ObjectUrl& url() const { return url_; }

  // Bytes appended.
  uint64_t size() const { return size_; }

  // Waits while eight parts are under way. Returns the first error of any of them.
  absl::Status Append(std::string_view bytes);

  // Replaces what there is of that name.
  absl::Status Finish();

  // Nothing of it stays in the store, unless it cannot be reached. Idempotent.
  absl::Status Abort();

 private:
  struct Part {
    std::string bytes;
    std::string etag;
    ObjectStore::Id request = 0;
  };

  absl::Status Begin();
  absl::Status SendPart();
  absl::Status Complete();
  // Until at most so many parts are under way. The first error.
  absl::Status WaitForParts(size_t left);

  ObjectStore& store_;
  const ObjectUrl url_;
  uint64_t size_ = 0;
  std::string id_;      // of the upload in parts; empty until there is one
  std::string buffer_;  // the part that is being filled
  bool ended_ = false;

  std::mutex mutex_;  // guards all below
  std::condition_variable part_ended_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::string> spare_;  // buffers of parts that have ended, to be filled again
  size_t under_way_ = 0;
  absl::Status error_;
};

}  // namespace shardkit::remote
