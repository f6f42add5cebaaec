#include "remote/range_answer.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "base/checked.h"
#include "base/errors.h"
#include "remote/object_error.h"

namespace shardkit::remote {
namespace {

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

}  // namespace

absl::Status CheckRange(const ObjectVersion& expected, uint64_t offset, uint64_t length, const HttpResponse& response) {
  const std::string_view etag = response.Header("etag");
  if (!expected.etag.empty() && etag != expected.etag) return Changed("its ETag differs", response);
  if (response.partial() || response.status == 206) {
    const std::optional<ContentRange> range = ParseContentRange(response.Header("content-range"));
    if (range && expected.size == 0 && offset == 0) length = std::min(length, range->size);
    if (!range || range->first != offset || range->last != offset + length - 1 || range->last >= range->size) {
      return DataLoss("the server answers with another range (", RequestIdOf(response), "); ask who runs it");
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

}  // namespace shardkit::remote
