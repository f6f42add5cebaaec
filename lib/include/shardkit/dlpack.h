// Batches as DLPack tensors, which PyTorch, JAX, CuPy and NumPy use without a copy.
//
// Source: the DLPack specification (dmlc/dlpack, include/dlpack/dlpack.h), version 1.0 for the versioned tensor and 0.x
// for the other. The two structs are DLPack's own; to access their members, include its header or a framework's.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "shardkit/loader.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace shardkit {

// The array of a column to export. All arrays except the values are exported as signed numbers (`present` as u8),
// because few frameworks have unsigned 64-bit numbers.
enum class BatchArray { kValues, kOffsets, kItemOffsets, kShapes, kPresent };

// The values have the column's shape, or one dimension if it has none. Offsets have one dimension; shapes are [items,
// shape_rank]. Compact, row-major, with strides. The tensor keeps the batch alive until its deleter is called; the
// consumer of the tensor must call it. `stream` is the consumer's stream: it waits for the arrays (Batch::WaitOn).
// Thread-safe.
//
// InvalidArgument if the column or array does not exist (kViews has none); Unimplemented for f8e4m3 and f8e5m2, for
// which DLPack 1.0 has no numbers.
absl::StatusOr<DLManagedTensor*> ToDlpack(std::shared_ptr<const Batch> batch, size_t column, BatchArray array,
                                          DeviceStream stream);
// Calls the deleter of a tensor that no consumer has taken.
void DeleteDlpack(DLManagedTensor* tensor);

absl::StatusOr<DLManagedTensorVersioned*> ToDlpackVersioned(std::shared_ptr<const Batch> batch, size_t column,
                                                            BatchArray array, DeviceStream stream);

}  // namespace shardkit
