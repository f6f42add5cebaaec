// What a server answers to a request for a range of an object. All functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "remote/http_client.h"

namespace shardkit::remote {

// What tells one content of an object from another.
struct ObjectVersion {
  uint64_t size = 0;            // bytes
  std::string etag;             // as the server writes it, with its quotes; empty when it has none
  std::string generation = {};  // Google's number of it; empty elsewhere
};

// Whether an answer of status 200 to 299 has the bytes, all of them, of the expected object: in HttpRequest::buffer, or
// in the body when that is the whole object. DataLoss for other or fewer bytes, FailedPrecondition when the object is
// another one, OutOfRange when it is too short. An empty ETag and a size of 0 are not compared; where the
// size is 0, which means unknown, an answer from byte 0 may be the whole of a shorter object.
absl::Status CheckRange(const ObjectVersion& expected, uint64_t offset, uint64_t length, const HttpResponse& response);

// The object's version, after CheckRange.
ObjectVersion VersionOf(const HttpResponse& response);

}  // namespace shardkit::remote
