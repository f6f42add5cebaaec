#include "remote/listing.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "remote/xml.h"

namespace shardkit::remote {
namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

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
