#include "remote/credentials.h"

#include <cstdlib>

namespace shardkit::remote {

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
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
  absl::StatusOr<std::optional<Credentials>> fetched = source_->Fetch();
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
  absl::StatusOr<std::optional<Credentials>> fetched = source_->Fetch();
  renewed_ = clock_();
  if (!fetched.ok()) return fetched.status();
  const std::lock_guard lock(mutex_);
  present_ = (*std::move(fetched)).value_or(Credentials());
  return *present_;
}

}  // namespace shardkit::remote
