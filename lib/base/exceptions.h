// Exceptions as statuses. Functions of the library's users may throw, and any allocation may; on a thread of the
// library either would end the process.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace shardkit {

// Of the exception being handled, thrown by `what`: ResourceExhausted for std::bad_alloc, otherwise Internal with the
// exception's text. Where there is no memory for the message, the status has none.
absl::Status StatusOfException(std::string_view what) noexcept;

// What the function returns, a Status or a StatusOr, or that of what it throws.
template <typename Function>
std::invoke_result_t<Function&> Guarded(std::string_view what, Function&& function) {
  try {
    return function();
  } catch (...) {
    return StatusOfException(what);
  }
}

}  // namespace shardkit
