// Copies to a device, queued in their own stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/staging_ring.h"
#include "shardkit/gpu/backend.h"
#include "shardkit/job.h"

namespace shardkit::gpu {

// Copies in progress. Thread-safe. May outlive the uploader.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // Work queued in `stream` from now on waits for the copies; the caller does not.
  virtual absl::Status WaitOn(Stream stream) const = 0;

  // Blocks the caller until the copies end, and returns their outcome.
  virtual absl::Status Synchronize() const = 0;

  // Empty while the copies are in progress.
  virtual std::optional<absl::Status> outcome() const = 0;
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
  uint64_t transfers = 0;     // finished transfers
  uint64_t bytes = 0;         // bytes of them
  uint64_t staged_bytes = 0;  // part of them: through the ring
  double copy_seconds = 0;    // between begin and end of each, as measured by the device
  uint64_t under_way = 0;     // transfers in progress
};

// Owns a stream. Only its user may queue other work there. Thread-safe.
class Uploader {
 public:
  virtual ~Uploader() = default;  // waits until no copy is in progress

  // InvalidArgument for a depth below 2.
  static absl::StatusOr<std::unique_ptr<Uploader>> Create(std::shared_ptr<Backend> backend,
                                                          std::shared_ptr<StagingRing> ring,
                                                          const UploaderOptions& options);

  // Queues the copies in the given order and returns without waiting for them. Waits only while `depth` transfers are
  // in progress or the ring is full; Cancelled, naming which, when `cancellation` is cancelled (call Wake after
  // cancelling). `hold` is kept until the copies are done. After an error some copies may still be in progress: do not
  // reuse `to` before the stream has reached that point. `done`, if set, is called when the copies are done, on a
  // thread of the uploader, with the outcome and the device seconds. If it throws, later calls return the exception:
  // Internal with its text, or ResourceExhausted for std::bad_alloc.
  virtual absl::StatusOr<std::shared_ptr<const Transfer>> Upload(
      std::span<const UploadPiece> pieces, std::shared_ptr<const void> hold, const Cancellation* cancellation = nullptr,
      std::function<void(const absl::Status& outcome, double seconds)> done = nullptr) = 0;

  // Makes waiting calls check their cancellation.
  virtual void Wake() = 0;

  virtual Stream stream() const = 0;
  virtual UploaderReport Report() const = 0;
};

}  // namespace shardkit::gpu
