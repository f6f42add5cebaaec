#include "remote/credentials/credentials.h"

#include <cstdlib>

namespace shardkit::remote {

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

std::string AccountOf(const Credentials& credentials) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const std::string& id = credentials.keys.key_id;
  if (!credentials.bearer_token.empty()) return {};
  if (id.size() != 20 || (!id.starts_with("AKIA") && !id.starts_with("ASIA"))) return id;
  // After the kind of key, digits of five bits each: one bit, then the 40 of the account.
  uint64_t number = 0;
  for (const char c : id.substr(4, 9)) {
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return id;
    number = number << 5 | digit;
  }
  return std::to_string(number >> 4 & ((uint64_t{1} << 40) - 1));
}

std::optional<Credentials> CredentialCache::Present(std::chrono::seconds margin) {
  std::lock_guard lock(mutex_);
  if (!present_ || (present_->expiry && *present_->expiry - margin <= clock_())) return std::nullopt;
  return present_;
}

absl::StatusOr<Credentials> CredentialCache::Get() {
  if (std::optional<Credentials> present = Present(kMargin)) return *std::move(present);
  std::unique_lock fetching(fetching_, std::try_to_lock);
  if (!fetching.owns_lock()) {
    if (std::optional<Credentials> present = Present({})) return *std::move(present);
    fetching.lock();
    if (std::optional<Credentials> present = Present({})) return *std::move(present);
  }
  absl::StatusOr<std::optional<Credentials>> fetched = source_();
  if (!fetched.ok()) {
    if (std::optional<Credentials> present = Present({})) return *std::move(present);
    return fetched.status();
  }
  std::lock_guard lock(mutex_);
  present_ = (*std::move(fetched)).value_or(Credentials());
  return *present_;
}

absl::StatusOr<Credentials> CredentialCache::Renew(const Credentials& refused) {
  const std::lock_guard fetching(fetching_);
  {
    const std::lock_guard lock(mutex_);
    if (present_ && *present_ != refused) return *present_;
  }
  if (renewed_ && clock_() < *renewed_ + kPause) return refused;
  absl::StatusOr<std::optional<Credentials>> fetched = source_();
  renewed_ = clock_();
  if (!fetched.ok()) return fetched.status();
  const std::lock_guard lock(mutex_);
  present_ = (*std::move(fetched)).value_or(Credentials());
  return *present_;
}

}  // namespace shardkit::remote
