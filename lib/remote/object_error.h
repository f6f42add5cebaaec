// What the answers of object stores and web servers mean.
#pragma once

#include "absl/status/status.h"
#include "remote/http_client.h"

namespace shardkit::remote {

// OK for a status of 200 to 299. Otherwise an error with the status, the store's code and message where the body has
// them, the request's id, and what to do: NotFound (404), PermissionDenied (401, 403), FailedPrecondition (the object
// has changed: 412; or the bucket is elsewhere), OutOfRange (416), Unavailable (408, 429, 5xx, SlowDown and the like),
// InvalidArgument (others). Thread-safe.
absl::Status StatusOfAnswer(const HttpResponse& response);

// "request id …", for messages; "no request id" when the server names none.
std::string RequestIdOf(const HttpResponse& response);

}  // namespace shardkit::remote
