// Calls functions when the device has reached an event.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/event_pool.h"

namespace shardkit::gpu {

// A thread that waits for events, one after the other, so that other threads need not. Thread-safe.
class CompletionQueue {
 public:
  // `failed` gets what a function of Add has thrown, on the queue's thread. ResourceExhausted when the system starts no
  // thread.
  static absl::StatusOr<std::unique_ptr<CompletionQueue>> Create(std::shared_ptr<EventPool> events,
                                                                 std::function<void(const absl::Status&)> failed);
  // Waits for all events added: until then the device may be using memory that their functions hold.
  ~CompletionQueue();

  // `done` is called on the queue's thread when the event has been reached or the work before it has failed; in the
  // order of Add. It is destroyed, with all it holds, right after.
  void Add(EventPool::Handle event, std::function<void(const absl::Status&)> done);

 private:
  CompletionQueue(std::shared_ptr<EventPool> events, std::function<void(const absl::Status&)> failed)
      : events_(std::move(events)), failed_(std::move(failed)) {}
  void Run();

  struct Entry {
    EventPool::Handle event;
    std::function<void(const absl::Status&)> done;
  };

  const std::shared_ptr<EventPool> events_;
  const std::function<void(const absl::Status&)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace shardkit::gpu
