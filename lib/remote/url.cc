#include "remote/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>

#include "base/errors.h"
#include "shardkit/remote.h"

namespace shardkit::remote {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

bool StartsWith(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// Scheme, host and port end where the path, the query or the fragment begins.
std::string_view Origin(std::string_view url) {
  const size_t authority = url.find("://");
  if (authority == url.npos) return {};
  return url.substr(0, url.find_first_of("/?#", authority + 3));
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// With the port left out where it is the scheme's own.
std::string CanonicalOrigin(std::string_view url) {
  std::string origin = Lower(Origin(url));
  for (const std::string_view scheme_and_port : {"http:80", "https:443"}) {
    const size_t colon = scheme_and_port.find(':');
    const std::string_view port = scheme_and_port.substr(colon);
    if (StartsWith(origin, StrCat(scheme_and_port.substr(0, colon), "://")) && origin.ends_with(port)) {
      origin.resize(origin.size() - port.size());
    }
  }
  return origin;
}

struct KeptQuery {
  std::string url, query;
  const KeptQuery* before;
};

// The newest first. No lock, because a child of a fork could find it held; none is deleted, because another thread may
// be reading it.
std::atomic<const KeptQuery*> kept_queries = nullptr;

// That of the longest URL that `url` is, lies below, or continues after a dot. What lies beside one gets none.
void AddKeptQuery(std::string_view url, ObjectUrl* parsed) {
  if (parsed->key.find_first_of("?#") != std::string::npos) return;
  const size_t least = Origin(url).size();  // a longer name may be another's host
  const std::string_view folder = url.substr(0, url.rfind('/') + 1);
  const KeptQuery* longest = nullptr;
  for (const KeptQuery* kept = kept_queries.load(); kept != nullptr; kept = kept->before) {
    const size_t size = kept->url.size();
    if (StartsWith(kept->url, folder)) parsed->derived = true;
    if (size < least || !StartsWith(url, kept->url)) continue;
    if (size < url.size() && url[size] != '/' && url[size] != '.') continue;
    if (longest == nullptr || size > longest->url.size()) longest = kept;
  }
  if (longest == nullptr) return;
  parsed->derived = longest->url.size() != url.size();
  parsed->key += "?" + longest->query;
}

}  // namespace

bool IsRemotePath(std::string_view path) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"s3://", "gs://", "http://", "https://", "hf://"},
                             [path](std::string_view scheme) { return StartsWith(path, scheme); });
}

absl::StatusOr<ObjectUrl> ParseObjectUrl(std::string_view url) {
  if (!IsRemotePath(url)) {
    return InvalidArgument(WithoutSecrets(url), ": is no URL of s3://, gs://, http://, https:// or hf://");
  }
  if (std::ranges::any_of(url, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; })) {
    return InvalidArgument(WithoutSecrets(url), ": the URL has a control character; percent-encode it");
  }
  ObjectUrl parsed;
  const size_t colon = url.find(':');
  const std::string_view rest = url.substr(colon + 3);
  if (StartsWith(url, "http")) {
    const std::string_view origin = Origin(url);
    if (origin.find('@') != origin.npos) {
      return InvalidArgument(
          WithoutSecrets(url),
          ": has a user name; leave it out, and give a login as a header: --header or SHARDKIT_HTTP_HEADERS");
    }
    parsed.bucket = origin;
    parsed.key = url.substr(origin.size());
    if (StartsWith(parsed.key, "/")) parsed.key.erase(0, 1);
    AddKeptQuery(url, &parsed);
    if (rest.size() == 0 || origin.size() == colon + 3) return InvalidArgument(WithoutSecrets(url), ": has no host");
    return parsed;
  }
  if (StartsWith(url, "hf")) {
    parsed.scheme = Scheme::kHuggingFace;
    constexpr std::string_view kDatasets = "datasets/";
    const size_t slash = StartsWith(rest, kDatasets) ? rest.find('/', kDatasets.size()) : rest.npos;
    if (slash == rest.npos) return InvalidArgument(url, ": write hf://datasets/OWNER/NAME[@REVISION]/PATH");
    const size_t end = std::min(rest.find('/', slash + 1), rest.size());
    std::string_view repository = rest.substr(kDatasets.size(), end - kDatasets.size());
    const size_t at = repository.find('@');
    parsed.revision = at == repository.npos ? "main" : repository.substr(at + 1);
    parsed.bucket = repository.substr(0, at);
    if (parsed.bucket.ends_with('/') || StartsWith(parsed.bucket, "/") || parsed.revision.empty()) {
      return InvalidArgument(url, ": write hf://datasets/OWNER/NAME[@REVISION]/PATH");
    }
    parsed.key = end < rest.size() ? rest.substr(end + 1) : "";
    return parsed;
  }
  parsed.scheme = StartsWith(url, "s3") ? Scheme::kS3 : Scheme::kGoogle;
  const size_t slash = std::min(rest.find('/'), rest.size());
  parsed.bucket = rest.substr(0, slash);
  if (slash < rest.size()) parsed.key = rest.substr(slash + 1);
  // Whatever else a bucket's name held would become part of a host name.
  const bool sound = std::ranges::all_of(parsed.bucket, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
  if (parsed.bucket.empty() || !sound) {
    return InvalidArgument(url, ": \"", parsed.bucket, "\" is no name of a bucket; write ", url.substr(0, colon),
                           "://BUCKET/KEY");
  }
  return parsed;
}

std::string Describe(const ObjectUrl& url) {
  switch (url.scheme) {
    case Scheme::kS3:
      return StrCat("s3://", url.bucket, "/", url.key);
    case Scheme::kGoogle:
      return StrCat("gs://", url.bucket, "/", url.key);
    case Scheme::kHuggingFace:
      return StrCat("hf://datasets/", url.bucket, url.revision == "main" ? "" : "@",
                    url.revision == "main" ? "" : url.revision, "/", url.key);
    case Scheme::kHttp:
      break;
  }
  return WithoutSecrets(StrCat(url.bucket, "/", url.key));
}

std::string WithoutSecrets(std::string_view url) {
  const size_t query = url.find_first_of("?#");
  std::string shown(url.substr(0, query));
  const size_t authority = shown.find("://");
  if (authority != shown.npos) {
    const size_t end = std::min(shown.find('/', authority + 3), shown.size());
    const size_t at = shown.rfind('@', end);
    if (at != shown.npos && at > authority && StartsWith(shown, "http")) shown.erase(authority + 3, at - authority - 2);
  }
  return query == url.npos ? shown : shown + "?…";
}

std::string Target::Host() const { return origin.substr(origin.find("://") + 3); }

std::string Target::Url() const {
  return query.empty() ? origin + path : StrCat(origin, path, "?", EncodeQuery(query));
}

std::string PercentEncode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/');
    if (unreserved) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15];
    }
  }
  return encoded;
}

std::string EncodeQuery(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& parameter : query) {
    encoded.emplace_back(PercentEncode(parameter.first, false), PercentEncode(parameter.second, false));
  }
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& parameter : encoded) text += StrCat(text.empty() ? "" : "&", parameter.first, "=", parameter.second);
  return text;
}

std::string_view AmazonDomain(std::string_view region) {
  return StartsWith(region, "cn-") ? ".amazonaws.com.cn" : ".amazonaws.com";
}

Target S3Target(const Endpoint& endpoint, std::string_view bucket, std::string_view key) {
  std::string origin = endpoint.origin;
  if (origin.empty()) {
    origin = StrCat("https://s3.", endpoint.region, AmazonDomain(endpoint.region));
  }
  const std::string path = "/" + PercentEncode(key, true);
  // A certificate of "*.host" does not hold for a bucket with a dot, and capitals do not survive in a host name.
  const bool in_host = !endpoint.path_style && std::ranges::all_of(bucket, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!in_host) return {origin, StrCat("/", bucket, key.empty() ? "" : path), {}};
  const size_t host = origin.find("://") + 3;
  return {StrCat(origin.substr(0, host), bucket, ".", origin.substr(host)), path, {}};
}

Target HuggingFaceTarget(std::string_view origin, const ObjectUrl& url) {
  return {std::string(origin),
          StrCat("/datasets/", PercentEncode(url.bucket, true), "/resolve/", PercentEncode(url.revision, false), "/",
                 PercentEncode(url.key, true)),
          {}};
}

absl::StatusOr<std::string> CheckOrigin(std::string_view origin, std::string_view what) {
  const std::string_view given = origin;
  if (origin.ends_with('/')) origin.remove_suffix(1);
  const std::string_view host = origin.substr(std::min(origin.find("://"), origin.size()));
  if (!(StartsWith(origin, "http://") || StartsWith(origin, "https://")) || host.size() <= 3 ||
      host.substr(3).find_first_of("/?#@ \t\r\n") != host.npos) {
    return InvalidArgument(what, ": \"", WithoutSecrets(given),
                           "\" is no address; write http://HOST[:PORT] or https://HOST[:PORT]");
  }
  return std::string(origin);
}

absl::StatusOr<std::string> ResolveRedirect(const std::string& from, const std::string& location) {
  const std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  char* text = nullptr;
  if (!url || curl_url_set(url.get(), CURLUPART_URL, from.c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK ||
      curl_url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) {
    return InvalidArgument(WithoutSecrets(from), ": the server redirects to something that is no URL");
  }
  std::string resolved(text);
  curl_free(text);
  const std::string scheme = resolved.substr(0, resolved.find(':'));
  if (scheme != "https" && (scheme != "http" || StartsWith(from, "https:"))) {
    return InvalidArgument(WithoutSecrets(from), ": the server redirects to ", WithoutSecrets(resolved),
                           ", which is less safe; it was not followed");
  }
  return resolved;
}

bool IsPublicAddress(const std::string& address) {
  std::array<uint8_t, 16> bytes;
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) {
    constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    constexpr std::array<uint8_t, 12> kTranslated = {0, 0x64, 0xff, 0x9b};  // NAT64
    const bool holds_ipv4 = std::equal(kMapped.begin(), kMapped.end(), bytes.begin()) ||
                            std::equal(kTranslated.begin(), kTranslated.end(), bytes.begin());
    if (!holds_ipv4) return (bytes[0] & 0xe0) == 0x20;  // 2000::/3
    std::copy(bytes.begin() + 12, bytes.end(), bytes.begin());
  } else if (inet_pton(AF_INET, address.c_str(), bytes.data()) != 1) {
    return false;
  }
  const uint8_t a = bytes[0], b = bytes[1];
  return a != 0 && a != 10 && a != 127 && a < 224 && !(a == 100 && b >= 64 && b < 128) && !(a == 169 && b == 254) &&
         !(a == 172 && b >= 16 && b < 32) && !(a == 192 && b == 168);
}

bool SameOrigin(std::string_view a, std::string_view b) { return CanonicalOrigin(a) == CanonicalOrigin(b); }

}  // namespace shardkit::remote

namespace shardkit {

std::string KeepQuery(const std::string& path) {
  const size_t question = path.find('?');
  if ((path.substr(0, 7) != "http://" && path.substr(0, 8) != "https://") || question == std::string::npos) return path;
  const std::string url = path.substr(0, question);
  auto kept = std::make_unique<remote::KeptQuery>();
  kept->url = url.substr(0, url.find_last_not_of('/') + 1);
  kept->query = path.substr(question + 1, path.find('#') - question - 1);
  kept->before = remote::kept_queries.load();
  for (const remote::KeptQuery* each = kept->before; each != nullptr; each = each->before) {
    if (each->url != kept->url) continue;
    if (each->query == kept->query) return url;
    break;
  }
  while (!remote::kept_queries.compare_exchange_weak(kept->before, kept.get())) {
  }
  (void)kept.release();
  return url;
}

}  // namespace shardkit
