// A batch on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/batch.h"
#include "shardkit/gpu/backend.h"

namespace shardkit::gpu {

// Like BatchColumn, with the arrays on the device. The batch owns all that this points to.
struct DeviceColumn {
  std::string_view name;
  BatchLayout layout = BatchLayout::kTensor;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;

  // Device memory, aligned to 256 bytes; null where empty. May be written to, in streams that were passed to WaitOn.
  void* values = nullptr;
  uint64_t bytes = 0;  // of values
  const uint64_t* offsets = nullptr;
  const uint64_t* item_offsets = nullptr;
  const uint64_t* shapes = nullptr;
  const uint8_t* present = nullptr;

  // The same arrays on the host.
  std::span<const uint64_t> host_offsets;
  std::span<const uint64_t> host_item_offsets;
  std::span<const uint64_t> host_shapes;
  std::span<const uint8_t> host_present;
  uint32_t shape_rank = 0;
};

// A batch on a device. The data about its samples is valid at once. Its arrays are valid only when the device has
// finished its copies and kernels. Thread-safe. May outlive its loader.
//
// WaitOn orders a consumer's work with the batch. The stream's later work waits for the arrays. Later batches reuse the
// memory only after the work that is in the stream when the batch is destroyed. To use the arrays in other ways, call
// Synchronize first, and finish before the batch is destroyed.
class DeviceBatch {
 public:
  virtual ~DeviceBatch() = default;

  virtual uint64_t epoch() const = 0;
  virtual uint64_t step() const = 0;
  virtual size_t size() const = 0;
  virtual std::span<const BatchSample> samples() const = 0;
  virtual std::string_view key(size_t i) const = 0;
  virtual std::span<const BadSample> skipped() const = 0;
  virtual size_t column_count() const = 0;
  virtual const DeviceColumn& column(size_t i) const = 0;

  const DeviceColumn* Find(std::string_view name) const {
    for (size_t i = 0; i < column_count(); ++i) {
      if (column(i).name == name) return &column(i);
    }
    return nullptr;
  }

  // Work queued in `stream` from now on waits for the arrays; the caller does not wait. `stream` must outlive the
  // batch.
  virtual absl::Status WaitOn(Stream stream) const = 0;

  // Blocks the caller until the copies and kernels of this batch end, and returns their outcome. The loader's next
  // Next() also returns an error that the device found.
  virtual absl::Status Synchronize() const = 0;

  // The outcome without waiting; empty while the work is in progress.
  virtual std::optional<absl::Status> outcome() const = 0;

  virtual const DeviceInfo& device() const = 0;

  // Bytes of device memory that the batch holds.
  virtual uint64_t memory() const = 0;
};

}  // namespace shardkit::gpu
