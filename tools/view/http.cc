#include "view/http.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
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

// A percent sign that begins no encoded byte stays what it is.
std::string Decode(std::string_view text, bool plus) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
        absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      decoded += absl::HexStringToBytes(absl::string_view(text.data() + i + 1, 2));
      i += 2;
    } else {
      decoded += plus && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
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

absl::StatusOr<RequestHead> ParseRequestHead(std::string_view header) {
  const auto refuse = [](std::string_view why) { return absl::InvalidArgumentError(std::string(why)); };
  const auto take_line = [&header] {
    const size_t end = std::min(header.find("\r\n"), header.size());
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(std::min(end + 2, header.size()));
    return line;
  };
  RequestHead head;
  std::string_view line = take_line();
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || last <= first + 1 || line[first + 1] != '/') return refuse("this is no request");
  if (line.substr(last + 1) != "HTTP/1.1") return refuse("only HTTP/1.1 is spoken here");
  head.method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.find(' ') != target.npos) return refuse("this is no request");
  target = target.substr(0, target.find('#'));
  const size_t question = std::min(target.find('?'), target.size());
  head.request.path = Decode(target.substr(0, question), /*plus=*/false);
  for (std::string_view rest = target.substr(std::min(question + 1, target.size())); !rest.empty();) {
    const std::string_view parameter = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(parameter.size() + 1, rest.size()));
    const size_t equals = std::min(parameter.find('='), parameter.size());
    if (parameter.empty()) continue;
    head.request.parameters.emplace(Decode(parameter.substr(0, equals), true),
                                    Decode(parameter.substr(std::min(equals + 1, parameter.size())), true));
  }
  bool has_host = false, has_origin = false;
  for (line = take_line(); !line.empty(); line = take_line()) {
    const size_t colon = line.find(':');
    if (colon == 0 || colon == line.npos || line.substr(0, colon).find_first_of(" \t") != line.npos) {
      return refuse("this is no header");
    }
    const std::string name = absl::AsciiStrToLower(std::string(line.substr(0, colon)));
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    if (std::ranges::any_of(value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; })) {
      return refuse("this is no header");
    }
    if (name == "host" && std::exchange(has_host, true)) return refuse("a request has one Host");
    if (name == "origin" && std::exchange(has_origin, true)) return refuse("a request has one Origin");
    if (name == "host") head.host = value;
    if (name == "origin") head.origin = value;
    if (name == "range") head.range = value;
    if (name == "cookie") head.cookie += head.cookie.empty() ? std::string(value) : "; " + std::string(value);
    if (name == "connection") head.closes = head.closes || absl::EqualsIgnoreCase(std::string(value), "close");
    // A body would be taken for the next request.
    if (name == "transfer-encoding" || (name == "content-length" && value != "0")) head.closes = true;
  }
  return head;
}

std::optional<std::pair<size_t, size_t>> PartOf(std::string_view range, size_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const size_t minus = range.find('-');
  if (!range.starts_with(kUnit) || minus == range.npos || size == 0) return std::nullopt;
  const std::string_view from = range.substr(kUnit.size(), minus - kUnit.size()), to = range.substr(minus + 1);
  const auto first = ParseCount(from, 0, size - 1);
  if (from.empty()) {
    const auto count = ParseCount(to, 1, UINT64_MAX);
    if (!count.ok()) return std::nullopt;
    return std::pair<size_t, size_t>(size - std::min<uint64_t>(*count, size), size);
  }
  const auto last = to.empty() ? size - 1 : ParseCount(to, 0, UINT64_MAX);
  if (!first.ok() || !last.ok() || *last < *first) return std::nullopt;
  return std::pair<size_t, size_t>(*first, std::min<uint64_t>(*last, size - 1) + 1);
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
