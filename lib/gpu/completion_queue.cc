#include "gpu/completion_queue.h"

#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"

namespace shardkit::gpu {

absl::StatusOr<std::unique_ptr<CompletionQueue>> CompletionQueue::Create(
    std::shared_ptr<EventPool> events, std::function<void(const absl::Status&)> failed) {
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue(std::move(events), std::move(failed)));
  try {
    queue->thread_ = std::thread([queue = queue.get()] { queue->Run(); });
  } catch (const std::system_error&) {
    return ResourceExhausted("device: the system starts no thread to wait for uploads");
  }
  return queue;
}

CompletionQueue::~CompletionQueue() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void CompletionQueue::Add(EventPool::Handle event, std::function<void(const absl::Status&)> done) {
  std::lock_guard lock(mutex_);
  entries_.push_back({std::move(event), std::move(done)});
  changed_.notify_one();
}

void CompletionQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !entries_.empty(); });
    if (entries_.empty()) return;
    {
      Entry entry = std::move(entries_.front());
      entries_.pop_front();
      lock.unlock();
      const absl::Status outcome =
          Guarded("device: waiting", [&] { return events_->backend().Synchronize(entry.event.get()); });
      try {
        entry.done(outcome);
      } catch (...) {
        failed_(StatusOfException("device: what was to be done after an upload"));
      }
    }
    lock.lock();
  }
}

}  // namespace shardkit::gpu
