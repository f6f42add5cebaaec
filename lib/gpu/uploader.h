// Copies to a device, queued in their own stream.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/backend.h"
#include "gpu/event_pool.h"
#include "gpu/staging_ring.h"
#include "shardkit/job.h"

namespace shardkit::gpu {

// Calls functions when the device has reached an event: a thread that waits for events, one after the other, so that
// other threads need not. Thread-safe.
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

// Copies in progress. Thread-safe. May outlive the uploader.
class Transfer {
 public:
  // `end` is recorded behind the copies. `hold` is kept until End.
  Transfer(std::shared_ptr<EventPool> events, EventPool::Handle end, std::shared_ptr<const void> hold)
      : events_(std::move(events)), end_(std::move(end)), hold_(std::move(hold)) {}

  // Work queued in `stream` from now on waits for the copies; the caller does not.
  absl::Status WaitOn(Stream stream) const { return events_->backend().Wait(stream, end_.get()); }

  // Blocks the caller until the copies end, and returns their outcome.
  absl::Status Synchronize() const;

  // Empty while the copies are in progress.
  std::optional<absl::Status> outcome() const {
    std::lock_guard lock(mutex_);
    return outcome_;
  }

  // For the uploader.
  void End(const absl::Status& outcome);
  const EventPool::Handle& end() const { return end_; }

 private:
  const std::shared_ptr<EventPool> events_;
  const EventPool::Handle end_;
  std::shared_ptr<const void> hold_;
  mutable std::mutex mutex_;
  std::optional<absl::Status> outcome_;
};

struct UploadPiece {
  void* to = nullptr;          // device memory
  const void* from = nullptr;  // host memory
  uint64_t bytes = 0;
  // True: `from` is page-locked, does not change until the copy is done, and `hold` keeps it. False: Upload copies it
  // into the staging ring before it returns.
  bool pinned = false;
};

struct UploaderOptions {
  // Transfers in progress at once, 2 or more: with one, the device would wait for the host between transfers.
  int depth = 3;
};

struct UploaderReport {
  uint64_t transfers = 0;     // transfers queued
  uint64_t bytes = 0;         // bytes of them
  uint64_t staged_bytes = 0;  // part of them: through the ring
  double copy_seconds = 0;    // between begin and end of each that has ended, as measured by the device
  uint64_t under_way = 0;     // transfers in progress
};

// Owns a stream. Only its user may queue other work there. Thread-safe.
class Uploader {
 public:
  // InvalidArgument for a depth below 2.
  static absl::StatusOr<std::unique_ptr<Uploader>> Create(std::shared_ptr<Backend> backend,
                                                          std::shared_ptr<StagingRing> ring,
                                                          const UploaderOptions& options);
  ~Uploader();  // waits until no copy is in progress

  // Queues the copies in the given order and returns without waiting for them. Waits only while `depth` transfers are
  // in progress or the ring is full; Cancelled, naming which, when `cancellation` is cancelled (call Wake after
  // cancelling). `hold` is kept until the copies are done. After an error some copies may still be in progress: do not
  // reuse `to` before the stream has reached that point. `done`, if set, is called when the copies are done, on a
  // thread of the uploader, with the outcome and the device seconds. If it throws, later calls return the exception:
  // Internal with its text, or ResourceExhausted for std::bad_alloc.
  absl::StatusOr<std::shared_ptr<const Transfer>> Upload(
      std::span<const UploadPiece> pieces, std::shared_ptr<const void> hold, const Cancellation* cancellation = nullptr,
      std::function<void(const absl::Status& outcome, double seconds)> done = nullptr);

  // Makes waiting calls check their cancellation.
  void Wake();

  Stream stream() const { return stream_; }
  UploaderReport Report() const;

 private:
  Uploader(std::shared_ptr<Backend> backend, std::shared_ptr<StagingRing> ring, const UploaderOptions& options)
      : backend_(std::move(backend)),
        ring_(std::move(ring)),
        depth_(options.depth),
        events_(std::make_shared<EventPool>(backend_)) {}

  absl::Status Start();
  absl::Status TakeTurn(const Cancellation* cancellation);
  void EndTurn();
  absl::StatusOr<std::shared_ptr<const Transfer>> Queue(std::span<const UploadPiece> pieces,
                                                        const Cancellation* cancellation,
                                                        std::shared_ptr<const void> hold,
                                                        std::function<void(const absl::Status&, double)> done);
  absl::Status Stage(const UploadPiece& piece, const Cancellation* cancellation);

  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<StagingRing> ring_;
  const int depth_;
  const std::shared_ptr<EventPool> events_;
  Stream stream_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  UploaderReport report_;
  absl::Status failure_;                          // what a `done` has thrown
  std::unique_ptr<CompletionQueue> completions_;  // last: its functions use all members above
};

}  // namespace shardkit::gpu
