#include "shardkit/cancellation.h"

#include "base/errors.h"

namespace shardkit {

absl::Status Cancellation::Check(std::string_view stage) const {
  if (cancelled()) [[unlikely]]
    return Cancelled("cancelled while ", stage);
  return absl::OkStatus();
}

}  // namespace shardkit
