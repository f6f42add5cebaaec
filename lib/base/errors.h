// Constructors for the error classes of Shardkit. Every message reads "PATH: what, where, what to do".
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/strings.h"
#include "shardkit/error_place.h"

namespace shardkit {

template <typename... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(StrCat(parts...));
}
template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(StrCat(parts...));
}
template <typename... Parts>
absl::Status NotFound(const Parts&... parts) {
  return absl::NotFoundError(StrCat(parts...));
}
template <typename... Parts>
absl::Status Unimplemented(const Parts&... parts) {
  return absl::UnimplementedError(StrCat(parts...));
}
template <typename... Parts>
absl::Status ResourceExhausted(const Parts&... parts) {
  return absl::ResourceExhaustedError(StrCat(parts...));
}
template <typename... Parts>
absl::Status OutOfRange(const Parts&... parts) {
  return absl::OutOfRangeError(StrCat(parts...));
}
template <typename... Parts>
absl::Status FailedPrecondition(const Parts&... parts) {
  return absl::FailedPreconditionError(StrCat(parts...));
}
template <typename... Parts>
absl::Status Internal(const Parts&... parts) {
  return absl::InternalError(StrCat(parts...));
}
template <typename... Parts>
absl::Status Unavailable(const Parts&... parts) {
  return absl::UnavailableError(StrCat(parts...));
}
template <typename... Parts>
absl::Status Cancelled(const Parts&... parts) {
  return absl::CancelledError(StrCat(parts...));
}

// OK in place of NotFound, for the removal of what may be gone already.
inline absl::Status IgnoreNotFound(absl::Status status) { return absl::IsNotFound(status) ? absl::OkStatus() : status; }

// The same error with what it did not know yet of its place; OK stays OK.
absl::Status At(absl::Status status, const ErrorPlace& place);

// The same error, which is not OK, as one of the system with this number.
absl::Status OfSystem(absl::Status status, int error_number);

// The same error, which is not OK, with another message.
absl::Status WithMessage(const absl::Status& status, std::string_view message);

// The same error with "context: " in front of its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  return status.ok() ? status : WithMessage(status, StrCat(context, ": ", ToStd(status.message())));
}

}  // namespace shardkit
