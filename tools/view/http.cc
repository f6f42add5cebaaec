#include "view/http.h"

#include "shardctl/numbers.h"

namespace shardctl {
namespace {

int HttpStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
      return 404;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
      return 422;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

std::string_view Request::Text(std::string_view name) const {
  const auto found = parameters.find(std::string(name));
  return found == parameters.end() ? std::string_view() : found->second;
}

absl::StatusOr<uint64_t> Request::Count(std::string_view name, uint64_t otherwise, uint64_t minimum,
                                        uint64_t maximum) const {
  if (!Has(name)) return otherwise;
  const auto count = ParseCount(Text(name), minimum, maximum);
  if (!count.ok()) return absl::InvalidArgumentError(std::string(name) + ": " + std::string(count.status().message()));
  return *count;
}

Reply JsonReply(const Json& document) {
  Reply reply;
  reply.body = FormatJson(document);
  return reply;
}

Reply ErrorReply(const absl::Status& error) {
  Reply reply = JsonReply(Json{{"error", std::string(error.message())}});
  reply.status = HttpStatus(error.code());
  return reply;
}

}  // namespace shardctl
