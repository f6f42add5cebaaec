#include "remote/http/answers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
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

struct ContentRange {
  uint64_t first = 0, last = 0, size = 0;
};

// "bytes 0-9/100". The size may be "*", which is nullopt as well: without it a change would pass unnoticed.
std::optional<ContentRange> ParseContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-'), slash = text.find('/');
  ContentRange range;
  if (text.substr(0, kUnit.size()) != kUnit || dash == text.npos || slash == text.npos || slash < dash ||
      !absl::SimpleAtoi(ToAbsl(text.substr(kUnit.size(), dash - kUnit.size())), &range.first) ||
      !absl::SimpleAtoi(ToAbsl(text.substr(dash + 1, slash - dash - 1)), &range.last) ||
      !absl::SimpleAtoi(ToAbsl(text.substr(slash + 1)), &range.size)) {
    return std::nullopt;
  }
  return range;
}

absl::Status Changed(std::string_view what, const HttpResponse& response) {
  return FailedPrecondition(what, " (", RequestIdOf(response),
                            "): the object has changed since it was opened; open the dataset again");
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
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

absl::Status CheckRange(const ObjectVersion& expected, uint64_t offset, uint64_t length, const HttpResponse& response) {
  const std::string_view etag = response.Header("etag");
  if (!expected.etag.empty() && etag != expected.etag) return Changed("its ETag differs", response);
  if (response.partial() || response.status == 206) {
    const std::optional<ContentRange> range = ParseContentRange(response.Header("content-range"));
    if (range && expected.size == 0 && offset == 0) length = std::min(length, range->size);
    if (!range || range->first != offset || range->last != offset + length - 1 || range->last >= range->size) {
      return DataLoss("the server answers with another range (", RequestIdOf(response), "); ask its operator");
    }
    if (expected.size != 0 && range->size != expected.size)
      return Changed(StrCat("it has ", range->size, " bytes, not ", expected.size), response);
    if (response.buffer_bytes != length) return DataLoss("the answer has ", response.buffer_bytes, " bytes");
    return absl::OkStatus();
  }
  if (response.status != 200)
    return InvalidArgument("status ", response.status, " is no answer to a request for a range");
  if (expected.size != 0 && response.body.size() != expected.size)
    return Changed(StrCat("it has ", response.body.size(), " bytes, not ", expected.size), response);
  if (expected.size == 0 && offset == 0 && !response.body.empty()) return absl::OkStatus();
  if (!RangeWithin(offset, length, response.body.size()))
    return OutOfRange("the object has only ", response.body.size(), " bytes");
  return absl::OkStatus();
}

ObjectVersion VersionOf(const HttpResponse& response) {
  const std::optional<ContentRange> range = ParseContentRange(response.Header("content-range"));
  return {range ? range->size : response.body.size(), std::string(response.Header("etag")),
          std::string(response.Header("x-goog-generation"))};
}

absl::StatusOr<std::string> DecodeListed(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = text.size() - i > 2 ? DigitOf(text[i + 1]) : -1,
              low = text.size() - i > 2 ? DigitOf(text[i + 2]) : -1;
    if (high < 0 || low < 0) return DataLoss("a key is badly encoded");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

absl::StatusOr<ListingPage> ParseListing(std::string_view document) {
  ListingPage page;
  bool listing = false, truncated = false, encoded = false;
  ListedObject object;
  SHARDKIT_RETURN_IF_ERROR(
      ForEachXmlElement(document, [&](std::string_view path, std::string_view text) -> absl::Status {
        constexpr std::string_view kRoot = "ListBucketResult";
        if (path.substr(0, kRoot.size()) != kRoot) return DataLoss("it is no listing");
        path.remove_prefix(kRoot.size());
        if (path.empty()) listing = true;
        if (path == "/IsTruncated") truncated = text == "true";
        if (path == "/EncodingType") encoded = text == "url";
        if (path == "/NextContinuationToken") page.continuation = text;
        if (path == "/Contents/Key" || path == "/CommonPrefixes/Prefix") object.name = text;
        if (path == "/Contents/Size" && !absl::SimpleAtoi(ToAbsl(text), &object.size))
          return DataLoss("a size is no number");
        if (path == "/Contents" || path == "/CommonPrefixes") {
          object.folder = path == "/CommonPrefixes";
          page.objects.push_back(std::exchange(object, {}));
        }
        return absl::OkStatus();
      }));
  if (!listing) return DataLoss("it is no listing");
  if (!truncated) page.continuation.clear();
  if (truncated && page.continuation.empty()) return DataLoss("it has more pages, but no token for the next");
  // Where the store says so; its word may stand behind the keys.
  for (ListedObject& listed : page.objects) {
    if (!encoded) break;
    SHARDKIT_ASSIGN_OR_RETURN(listed.name, DecodeListed(listed.name));
  }
  return page;
}

}  // namespace shardkit::remote
