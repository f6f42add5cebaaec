// Who a request is from.
//
// Secrets never appear in a status, and the library has no log.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace shardkit::remote {

// The value of an environment variable; nullopt when it is not set. Called from many threads.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// The process's own environment.
std::optional<std::string> ProcessEnvironment(const char* name);

// For signatures.
struct KeyCredentials {
  std::string key_id;
  std::string secret_key;
  std::string session_token;  // empty for permanent keys

  friend bool operator==(const KeyCredentials&, const KeyCredentials&) = default;
};

// Exactly one of the two is used: `bearer_token` when it is not empty, else `keys` when `keys.key_id` is not empty.
// Requests are anonymous when both are empty.
struct Credentials {
  KeyCredentials keys;
  std::string bearer_token;
  std::optional<std::chrono::system_clock::time_point> expiry;  // nullopt: they do not end

  bool anonymous() const { return bearer_token.empty() && keys.key_id.empty(); }

  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// Whose they are, as far as they tell: Amazon's number of the account, which its key identities hold, so that keys for
// an hour do not differ; another store's key identity. Empty for bearer tokens, whose stores have each bucket's name
// once, and for anonymous requests. Pure.
std::string AccountOf(const Credentials& credentials);

// Fetches credentials again. Called from many threads. May send requests and wait for them, so never call it on an
// HttpClient's thread. nullopt when this source is not set up on this machine; an error when it is and does not work.
using CredentialSource = std::function<absl::StatusOr<std::optional<Credentials>>()>;

// Keeps credentials, and fetches new ones before they end or after they were refused. Thread-safe.
class CredentialCache {
 public:
  using Clock = std::function<std::chrono::system_clock::time_point()>;

  // The time before their end from which new ones are fetched.
  static constexpr std::chrono::minutes kMargin{5};

  // After a look for others in place of refused ones, for so long there is no other look: a store refuses each object
  // of a folder that the user may not read.
  static constexpr std::chrono::seconds kPause{10};

  explicit CredentialCache(CredentialSource source, Clock clock = std::chrono::system_clock::now)
      : source_(std::move(source)), clock_(std::move(clock)) {}

  // One caller at a time fetches. The others get the present credentials at once, or wait for it when there are none
  // that are still good. An error of the source shows only when the present ones have ended. Anonymous credentials when
  // the source has none. Same threads as the source.
  absl::StatusOr<Credentials> Get();

  // In place of those that a store has refused, which may be anonymous: asks the source again, once for all callers
  // that were refused the same. Returns `refused` when it has no others. Same threads as the source.
  absl::StatusOr<Credentials> Renew(const Credentials& refused);

 private:
  // The present credentials when they are good for at least `margin`.
  std::optional<Credentials> Present(std::chrono::seconds margin);

  const CredentialSource source_;
  const Clock clock_;
  std::mutex fetching_;
  std::mutex mutex_;  // guards present_
  std::optional<Credentials> present_;
  std::optional<std::chrono::system_clock::time_point> renewed_;  // the last time; guarded by fetching_
};

}  // namespace shardkit::remote
