// What the answers of object stores and web servers mean. All functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "remote/http/http_client.h"

namespace shardkit::remote {

// OK for a status of 200 to 299. Otherwise an error with the status, the store's code and message where the body has
// them, the request's id, and what to do: NotFound (404), PermissionDenied (401, 403), FailedPrecondition (the object
// has changed: 412; or the bucket is elsewhere), OutOfRange (416), Unavailable (408, 429, 5xx, SlowDown and the like),
// InvalidArgument (others).
absl::Status StatusOfAnswer(const HttpResponse& response);

// "request id …", for messages; "no request id" when the server names none.
std::string RequestIdOf(const HttpResponse& response);

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

struct ListedObject {
  std::string name;
  uint64_t size = 0;  // bytes; 0 for folders
  bool folder = false;
};

struct ListingPage {
  std::vector<ListedObject> objects;  // with their whole keys as names; folders end with '/'
  std::string continuation;           // of the next page; empty on the last one
};

// The answer to ListObjectsV2 with encoding-type=url. DataLoss when it is malformed.
absl::StatusOr<ListingPage> ParseListing(std::string_view document);

// A key in an answer with encoding-type=url, which encodes as forms do: a space is a plus sign. DataLoss when it is
// malformed.
absl::StatusOr<std::string> DecodeListed(std::string_view text);

}  // namespace shardkit::remote
