// Copies to a device, queued in a stream of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/gpu/backend.h"
#include "shardkit/gpu/staging_ring.h"

namespace shardkit::gpu {

// Some copies on their way. Thread-safe. May outlive the uploader.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // Work queued in `stream` from now on waits for the copies; the caller does not.
  virtual absl::Status WaitOn(Stream stream) const = 0;

  // The caller waits, asleep, and gets the copies' outcome.
  virtual absl::Status Synchronize() const = 0;

  // Empty while under way.
  virtual std::optional<absl::Status> outcome() const = 0;
};

struct UploadPiece {
  void* to = nullptr;          // of the device
  const void* from = nullptr;  // of the host
  uint64_t bytes = 0;
  // `from` is page-locked, stays as it is until the copy is done, and is kept by `hold`. Otherwise it is copied into
  // the staging ring before Upload returns.
  bool pinned = false;
};

struct UploaderOptions {
  // Transfers under way at once, 2 or more: with one, the device would wait for the host between them.
  int depth = 3;
};

struct UploaderReport {
  uint64_t transfers = 0;     // done
  uint64_t bytes = 0;         // of them
  uint64_t staged_bytes = 0;  // of them through the ring
  double copy_seconds = 0;    // between their begin and end, as the device tells it
  uint64_t under_way = 0;     // transfers
};

// Owns a stream in which nothing else is queued but what its user adds. Thread-safe.
class Uploader {
 public:
  virtual ~Uploader() = default;  // waits until no copy is under way

  // InvalidArgument for a depth below 2.
  static absl::StatusOr<std::unique_ptr<Uploader>> Create(std::shared_ptr<Backend> backend,
                                                          std::shared_ptr<StagingRing> ring,
                                                          const UploaderOptions& options);

  // Queues the copies in the order given and returns without waiting for them. Waits only while `depth` transfers are
  // under way or the ring is full; Cancelled, naming that, when `cancellation` is (who cancels calls Wake). `hold` is
  // kept until the copies are done. After an error some copies may be under way still: `to` is theirs until the stream
  // has come so far. `done`, when there is one, is called then, on a thread of the uploader's, with the outcome and the
  // seconds that the device took. What it throws is what later calls return: Internal with its text, or
  // ResourceExhausted for std::bad_alloc.
  virtual absl::StatusOr<std::shared_ptr<const Transfer>> Upload(
      std::span<const UploadPiece> pieces, std::shared_ptr<const void> hold, const Cancellation* cancellation = nullptr,
      std::function<void(const absl::Status& outcome, double seconds)> done = nullptr) = 0;

  // Makes waiting calls look at their cancellation.
  virtual void Wake() = 0;

  virtual Stream stream() const = 0;
  virtual UploaderReport Report() const = 0;
};

}  // namespace shardkit::gpu
