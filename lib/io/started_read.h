// A read that goes on while its caller does something else.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/errors.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// RandomAccessFile::StartRead, and its end. For one thread. The file and the buffers must outlive it.
class StartedRead {
 public:
  StartedRead(const RandomAccessFile& file, std::span<const ReadRequest> requests) : state_(std::make_shared<State>()) {
    file.StartRead(requests, [state = state_](absl::Status status) {
      const std::lock_guard lock(state->mutex);
      state->status = std::move(status);
      state->ended.notify_one();
    });
  }

  // Waits, because the buffers are written to until the end.
  ~StartedRead() { Wait().IgnoreError(); }

  StartedRead(const StartedRead&) = delete;
  StartedRead& operator=(const StartedRead&) = delete;

  // Waits for the end, as ReadBatch does.
  absl::Status Wait() const {
    std::unique_lock lock(state_->mutex);
    state_->ended.wait(lock, [this] { return state_->status.has_value(); });
    // A copy that shares nothing: thread sanitizers do not see how Abseil counts the references of an error.
    return state_->status->ok() ? absl::OkStatus() : WithMessage(*state_->status, ToStd(state_->status->message()));
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<absl::Status> status;
  };

  // Shared with the function that ends the read: it may still hold the lock when this is destroyed.
  const std::shared_ptr<State> state_;
};

}  // namespace shardkit::io
