#include "remote/object_error.h"

#include <algorithm>

#include "base/errors.h"
#include "remote/xml.h"

namespace shardkit::remote {
namespace {

constexpr size_t kShownMessage = 300;

// What the <Error> element of S3 and GCS says.
struct StoreError {
  std::string code;
  std::string message;
};

StoreError ParseStoreError(const HttpResponse& response) {
  StoreError error;
  if (response.body.find("<Error") == std::string::npos) return error;
  // Text that is not well-formed adds nothing to the message.
  (void)ForEachXmlElement(response.body, [&error](std::string_view path, std::string_view text) -> absl::Status {
    if (path == "Error/Code") error.code = text;
    if (path == "Error/Message") error.message = text.substr(0, kShownMessage);
    return absl::OkStatus();
  });
  // Messages that quote the request could quote its signature.
  if (error.code == "SignatureDoesNotMatch" || error.code == "InvalidAccessKeyId") error.message.clear();
  return error;
}

bool IsAny(std::string_view text, std::initializer_list<std::string_view> of) {
  return std::ranges::find(of, text) != of.end();
}

}  // namespace

std::string RequestIdOf(const HttpResponse& response) {
  for (const std::string_view name : {"x-amz-request-id", "x-guploader-uploadid", "x-request-id", "cf-ray"}) {
    const std::string_view id = response.Header(name);
    if (!id.empty()) return StrCat("request id ", id.substr(0, 100));
  }
  return "no request id";
}

absl::Status StatusOfAnswer(const HttpResponse& response) {
  const int status = response.status;
  if (status >= 200 && status < 300) return absl::OkStatus();
  const StoreError error = ParseStoreError(response);
  std::string what = StrCat("status ", status);
  if (!error.code.empty()) what += StrCat(" ", error.code);
  if (!error.message.empty()) what += StrCat(" \"", error.message, "\"");
  what += StrCat(" (", RequestIdOf(response), "): ");
  const std::string_view code = error.code;
  if (IsAny(code, {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Busy", "OperationAborted",
                   "ConditionalRequestConflict"})) {
    return Unavailable(what, "the store is busy; read less at once or try later");
  }
  if (code == "RequestTimeTooSkewed")
    return absl::PermissionDeniedError(ToAbsl(StrCat(what, "set this machine's clock")));
  if (IsAny(code, {"ExpiredToken", "InvalidToken"})) {
    return absl::PermissionDeniedError(ToAbsl(StrCat(what, "the credentials have ended; get new ones")));
  }
  const std::string_view region = response.Header("x-amz-bucket-region");
  if (!region.empty() && (status == 301 || status == 307 || status == 400)) {
    return FailedPrecondition(what, "the bucket is in region ", region, "; set AWS_REGION");
  }
  switch (status) {
    case 401:
    case 403:
      return absl::PermissionDeniedError(ToAbsl(StrCat(what, "check the credentials and what they may read")));
    case 404:
    case 410:
      return NotFound(what, "there is no such object or bucket; check the URL");
    case 412:
      return FailedPrecondition(what, "the object has changed since it was opened; open the dataset again");
    case 416:
      return OutOfRange(what, "the object ends before the range");
    case 408:
    case 429:
      return Unavailable(what, "the server is busy; read less at once or try later");
    default:
      if (status >= 500) return Unavailable(what, "the server failed; try later");
      return InvalidArgument(what, "the server refuses the request; check the URL and the endpoint");
  }
}

}  // namespace shardkit::remote
