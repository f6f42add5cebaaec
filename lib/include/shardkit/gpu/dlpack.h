// Device batches as DLPack tensors, which PyTorch, JAX, CuPy and NumPy take without a copy.
//
// Source: the DLPack specification (dmlc/dlpack, include/dlpack/dlpack.h), version 1.0 for the versioned tensor and 0.x
// for the other. The two structs are DLPack's own; include its header, or one's framework's, to look into them.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "shardkit/gpu/device_batch.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace shardkit::gpu {

// Which of a column's arrays. All but the values are exported as signed numbers (present as u8), since few frameworks
// know unsigned ones of 64 bits.
enum class DeviceArray { kValues, kOffsets, kItemOffsets, kShapes, kPresent };

// The values have the column's shape, or are one-dimensional where it has none; offsets are one-dimensional, shapes of
// [items, shape_rank]. Compact, row-major, with strides. The tensor keeps the batch until its deleter is called, which
// whoever takes it does. `stream` is the one the taker will use: it waits for the arrays (DeviceBatch::WaitOn).
// Thread-safe.
//
// InvalidArgument for a column or array that is not there.
absl::StatusOr<DLManagedTensor*> ToDlpack(std::shared_ptr<const DeviceBatch> batch, size_t column, DeviceArray array,
                                          Stream stream);
absl::StatusOr<DLManagedTensorVersioned*> ToDlpackVersioned(std::shared_ptr<const DeviceBatch> batch, size_t column,
                                                            DeviceArray array, Stream stream);

}  // namespace shardkit::gpu
