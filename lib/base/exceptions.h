// Converts exceptions to statuses. User functions may throw, and so may any allocation. On a thread of the library, an
// exception that is not caught would end the process.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace shardkit {

// The status of the exception being handled, thrown by `what`: ResourceExhausted for std::bad_alloc, otherwise Internal
// with the exception's text. The status has no message when there is no memory for one.
absl::Status StatusOfException(std::string_view what) noexcept;

// Calls the function and returns its Status or StatusOr, or the status of the exception that it throws.
template <typename Function>
std::invoke_result_t<Function&> Guarded(std::string_view what, Function&& function) {
  try {
    return function();
  } catch (...) {
    return StatusOfException(what);
  }
}

}  // namespace shardkit
