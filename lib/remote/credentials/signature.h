// AWS Signature Version 4, which S3, GCS (with HMAC keys) and most other stores take.
//
// All functions are pure and thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "remote/credentials/credentials.h"
#include "remote/http/http_client.h"
#include "remote/url.h"

namespace shardkit::remote {

struct SigningScope {
  std::string region;
  std::string service = "s3";
  std::chrono::system_clock::time_point time;  // now; servers accept 15 minutes of difference
};

// The hash in place of the body's where the connection is trusted to deliver the body.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

// Lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

// Adds the headers of a signature to those that the request has, all of which are signed, together with "host".
// `payload_hash`: Sha256Hex of the body, or kUnsignedPayload. Internal when OpenSSL fails.
absl::Status Sign(const SigningScope& scope, const KeyCredentials& credentials, std::string_view method,
                  const Target& target, std::string_view payload_hash, std::vector<HttpHeader>* headers);

// The parts of it, for tests with published vectors.
namespace internal {

// The request as it is signed. `headers` need not be sorted and hold "host".
std::string CanonicalRequest(std::string_view method, const Target& target, std::vector<HttpHeader> headers,
                             std::string_view payload_hash);

// "a;b;c": the names of the headers, sorted.
std::string SignedHeaders(std::vector<HttpHeader> headers);

// Hexadecimal digits; empty when OpenSSL fails. `date_time`: "20130524T000000Z".
std::string Signature(std::string_view secret_key, std::string_view date_time, const SigningScope& scope,
                      std::string_view canonical_request);

}  // namespace internal
}  // namespace shardkit::remote
