#include "shardkit/job.h"

#include <utility>

#include "base/errors.h"

namespace shardkit {
namespace {

thread_local std::shared_ptr<const Cancellation> current;

}  // namespace

absl::Status Cancellation::Check(std::string_view stage) const {
  if (cancelled()) [[unlikely]]
    return Cancelled("cancelled while ", stage);
  return absl::OkStatus();
}

CancellationScope::CancellationScope(std::shared_ptr<const Cancellation> cancellation)
    : before_(std::exchange(current, std::move(cancellation))) {}

CancellationScope::~CancellationScope() { current = std::move(before_); }

const std::shared_ptr<const Cancellation>& CancellationScope::Current() { return current; }

}  // namespace shardkit
