// Events that are reused.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "gpu/backend.h"

namespace shardkit::gpu {

// Thread-safe. Lives as long as any of its events.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  // Backend takes the pointer in the handle. The last owner of the handle gives the event back.
  using Handle = std::shared_ptr<void>;

  explicit EventPool(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}
  ~EventPool() {
    for (const Event event : free_) backend_->DestroyEvent(event);
  }

  // An event with timing.
  absl::StatusOr<Handle> Take() {
    Event event = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        event = free_.back();
        free_.pop_back();
      }
    }
    if (event == nullptr) {
      {
        std::lock_guard lock(mutex_);
        free_.reserve(++made_);  // giving an event back must not throw
      }
      SHARDKIT_ASSIGN_OR_RETURN(event, backend_->CreateEvent(true));
    }
    return Handle(event, [pool = shared_from_this()](Event given) {
      std::lock_guard lock(pool->mutex_);
      pool->free_.push_back(given);
    });
  }

  // An event that has been recorded in `stream`.
  absl::StatusOr<Handle> Record(Stream stream) {
    SHARDKIT_ASSIGN_OR_RETURN(Handle event, Take());
    SHARDKIT_RETURN_IF_ERROR(backend_->Record(event.get(), stream));
    return event;
  }

  Backend& backend() const { return *backend_; }

 private:
  const std::shared_ptr<Backend> backend_;
  std::mutex mutex_;
  std::vector<Event> free_;
  size_t made_ = 0;
};

}  // namespace shardkit::gpu
