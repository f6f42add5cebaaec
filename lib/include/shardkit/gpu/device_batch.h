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

// As BatchColumn, with the arrays on the device. Everything is borrowed from the batch.
struct DeviceColumn {
  std::string_view name;
  BatchLayout layout = BatchLayout::kTensor;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;

  // Of the device, aligned to 256 bytes; null where empty. May be written to, in streams that the batch knows of.
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

// What it says of its samples is known at once; its arrays are there when the device has come so far. Thread-safe. May
// outlive its loader.
//
// A consumer's work is ordered with the batch by WaitOn: it waits for the arrays, and later batches use the memory only
// after the work that is in that stream when the batch is destroyed. Whoever uses the arrays in other ways calls
// Synchronize before, and has finished when the batch is destroyed.
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

  // Work queued in `stream` from now on sees the arrays; the caller does not wait. `stream` has to outlive the batch.
  virtual absl::Status WaitOn(Stream stream) const = 0;

  // The caller waits, asleep. The outcome of the copies and kernels of this batch: an error that the device found while
  // they ran shows here, and in the loader's next Next().
  virtual absl::Status Synchronize() const = 0;

  // The same without waiting; empty while under way.
  virtual std::optional<absl::Status> outcome() const = 0;

  virtual const DeviceInfo& device() const = 0;

  // Bytes of the device that it holds.
  virtual uint64_t memory() const = 0;
};

}  // namespace shardkit::gpu
