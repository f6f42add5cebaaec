// Requests and replies of `shardctl view`, without a network: handlers are functions from one to the other.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardctl/json.h"
#include "shardkit/shard.h"

namespace shardctl {

// What a browser asks for. All of it is untrusted. Names and values are decoded.
struct Request {
  std::string path;
  std::multimap<std::string, std::string> parameters;

  // The first with this name, or an empty text.
  std::string_view Text(std::string_view name) const;

  bool Has(std::string_view name) const { return parameters.contains(std::string(name)); }

  // Decimal digits, `otherwise` where there is no such parameter. InvalidArgument, naming it, for anything else.
  absl::StatusOr<uint64_t> Count(std::string_view name, uint64_t otherwise, uint64_t minimum, uint64_t maximum) const;
};

// The header of a request as it came, up to the empty line.
struct RequestHead {
  std::string method;
  Request request;
  std::string host, origin, cookie, range;  // of the headers with these names; empty when there is none
  bool closes = false;                      // no other request follows on the connection
};

// InvalidArgument, without quoting it, for what is no request of HTTP/1.1 without a body: also for a second Host or
// Origin (RFC 9112, section 3.2), and folded lines.
absl::StatusOr<RequestHead> ParseRequestHead(std::string_view header);

// The first byte and the one behind the last of a part of `size` bytes that a header "Range" asks for. nullopt where it
// asks for all, for several parts, or for what is not there: then it gets all.
std::optional<std::pair<size_t, size_t>> PartOf(std::string_view range, size_t size);

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body;

  // In place of the body, for values of any size: called once. An error cuts the reply off, so that the browser knows
  // that it is not whole.
  std::function<absl::Status(const shardkit::ByteSink& sink)> stream;

  // Where it is set, the browser stores the reply under this name.
  std::optional<std::string> file_name;
};

Reply JsonReply(const Json& document);

// {"error": MESSAGE} with the status of HTTP that suits the status.
Reply ErrorReply(const absl::Status& error);

}  // namespace shardctl
