#include "remote/credentials/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <ctime>

#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"

namespace shardkit::remote {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

// The raw bytes; empty when OpenSSL fails.
std::string HmacSha256(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), digest, &size) == nullptr) {
    return {};
  }
  return {reinterpret_cast<const char*>(digest), size};
}

std::string ToHex(std::string_view bytes) {
  return shardkit::internal::ToHexDigits(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

// Without spaces at the ends, and with one where there were several.
std::string CanonicalValue(std::string_view value) {
  std::string canonical;
  for (const char c : value) {
    if (c != ' ') {
      canonical += c;
    } else if (!canonical.empty() && canonical.back() != ' ') {
      canonical += ' ';
    }
  }
  if (canonical.ends_with(' ')) canonical.pop_back();
  return canonical;
}

void SortByName(std::vector<HttpHeader>* headers) {
  std::ranges::sort(*headers, {}, [](const HttpHeader& header) { return header.name; });
}

std::string FormatDateTime(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts)};
}

// What a key is good for: "20130524/us-east-1/s3/aws4_request".
std::string ScopeName(const SigningScope& scope, std::string_view date_time) {
  return StrCat(date_time.substr(0, 8), "/", scope.region, "/", scope.service, "/aws4_request");
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1) return {};
  return shardkit::internal::ToHexDigits(digest, size);
}

namespace internal {

std::string SignedHeaders(std::vector<HttpHeader> headers) {
  SortByName(&headers);
  std::string names;
  for (const HttpHeader& header : headers) names += StrCat(names.empty() ? "" : ";", header.name);
  return names;
}

std::string CanonicalRequest(std::string_view method, const Target& target, std::vector<HttpHeader> headers,
                             std::string_view payload_hash) {
  SortByName(&headers);
  std::string request = StrCat(method, "\n", target.path, "\n", EncodeQuery(target.query), "\n");
  for (const HttpHeader& header : headers) request += StrCat(header.name, ":", CanonicalValue(header.value), "\n");
  return StrCat(request, "\n", SignedHeaders(headers), "\n", payload_hash);
}

std::string Signature(std::string_view secret_key, std::string_view date_time, const SigningScope& scope,
                      std::string_view canonical_request) {
  const std::string to_sign =
      StrCat(kAlgorithm, "\n", date_time, "\n", ScopeName(scope, date_time), "\n", Sha256Hex(canonical_request));
  std::string key = StrCat("AWS4", secret_key);
  for (const std::string_view part : {date_time.substr(0, 8), std::string_view(scope.region),
                                      std::string_view(scope.service), std::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  return ToHex(HmacSha256(key, to_sign));
}

}  // namespace internal

absl::Status Sign(const SigningScope& scope, const KeyCredentials& credentials, std::string_view method,
                  const Target& target, std::string_view payload_hash, std::vector<HttpHeader>* headers) {
  const std::string date_time = FormatDateTime(scope.time);
  headers->push_back({"x-amz-content-sha256", std::string(payload_hash)});
  headers->push_back({"x-amz-date", date_time});
  if (!credentials.session_token.empty()) {
    headers->push_back({"x-amz-security-token", credentials.session_token, /*secret=*/true});
  }
  std::vector<HttpHeader> signed_headers = *headers;
  signed_headers.push_back({"host", target.Host()});  // libcurl sends it
  const std::string canonical = internal::CanonicalRequest(method, target, signed_headers, payload_hash);
  const std::string signature = internal::Signature(credentials.secret_key, date_time, scope, canonical);
  if (signature.empty()) return Internal("OpenSSL cannot compute an HMAC with SHA-256");
  headers->push_back(
      {"authorization",
       StrCat(kAlgorithm, " Credential=", credentials.key_id, "/", ScopeName(scope, date_time),
              ",SignedHeaders=", internal::SignedHeaders(std::move(signed_headers)), ",Signature=", signature),
       /*secret=*/true});
  return absl::OkStatus();
}

}  // namespace shardkit::remote
