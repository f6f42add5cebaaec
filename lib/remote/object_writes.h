// Requests that change a store: objects put, copied and removed, and uploads in parts. For s3:// and gs://.
//
// Thread-safe, and like ObjectStore not for the client's thread. Errors are the store's, and begin with the URL.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remote/object_store.h"

namespace shardkit::remote {

// What an object is replaced on.
struct PutCondition {
  bool absent = false;                     // there is none: AlreadyExists otherwise
  std::optional<ObjectVersion> unchanged;  // it is still this version: Aborted otherwise
};

// Makes an object of `body`, whole or not at all. Where the condition does not hold because the answer to an earlier
// attempt was lost, which is known by the bytes, that attempt counts. Unimplemented when the server knows no
// conditions.
absl::Status PutObject(ObjectStore& store, const ObjectUrl& url, std::string_view body,
                       const PutCondition& condition = {});

// NotFound when there is none.
absl::Status RemoveObject(ObjectStore& store, const ObjectUrl& url);

// Inside the store. FailedPrecondition when the two are in different stores, or above the 5 GiB that one request
// copies.
absl::Status CopyObject(ObjectStore& store, const ObjectUrl& from, const ObjectUrl& to);

// An upload in parts that was begun and neither completed nor aborted.
struct StartedUpload {
  std::string key;
  std::string id;
  std::string started;  // as the store writes the time
};

struct UploadsPage {
  std::vector<StartedUpload> uploads;
  std::string next_key, next_id;  // where the next page begins; both empty on the last one
};

// The answer to ListMultipartUploads with encoding-type=url. DataLoss when it is malformed. Pure.
absl::StatusOr<UploadsPage> ParseUploads(std::string_view document);

// Calls `take` for each upload whose key is `url`'s or lies in the folder of that name. Stops at its first error.
absl::Status ForEachUpload(ObjectStore& store, const ObjectUrl& url,
                           const std::function<absl::Status(const StartedUpload&)>& take);

// OK when there is no such upload any more.
absl::Status AbortUpload(ObjectStore& store, const ObjectUrl& url, const std::string& id);

// The text of the first element of that name right inside the document's, whatever a store calls that. DataLoss when
// there is none. Pure.
absl::StatusOr<std::string> ElementOf(std::string_view document, std::string_view name);

// For the answers to copies and completions, which may hold an error although their status is 200: then Unavailable.
absl::Status CheckLateError(const HttpResponse& response);

// An object that is written from front to back, of any size, in bounded memory.
//
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
