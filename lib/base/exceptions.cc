#include "base/exceptions.h"

#include <exception>
#include <new>

#include "base/errors.h"

namespace shardkit {

absl::Status StatusOfException(std::string_view what) noexcept {
  absl::StatusCode code = absl::StatusCode::kInternal;
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      code = absl::StatusCode::kResourceExhausted;
      return ResourceExhausted(what, ": there is no memory for it");
    } catch (const std::exception& exception) {
      return Internal(what, ": threw an exception: ", exception.what());
    } catch (...) {
      return Internal(what, ": threw an exception that is no std::exception");
    }
  } catch (...) {
    return absl::Status(code, "");
  }
}

}  // namespace shardkit
