#include "shardkit/dlpack.h"

#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "loader/device/dlpack_abi.h"

namespace shardkit {
namespace loader {
namespace {

// What an exported tensor keeps alive. Owns the tensor's shape and strides.
struct Export {
  std::shared_ptr<const Batch> batch;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  DLTensor tensor{};
  DLManagedTensor unversioned{};
  DLManagedTensorVersioned versioned{};
};

absl::StatusOr<DLDataType> TypeOf(Type type) {
  const auto bits = static_cast<uint8_t>(8 * ScalarSize(type));
  switch (type) {
    case Type::kI8:
    case Type::kI16:
    case Type::kI32:
    case Type::kI64:
    case Type::kTimestampS:
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return DLDataType{kDlpackInt, bits, 1};
    case Type::kF16:
    case Type::kF32:
    case Type::kF64:
      return DLDataType{kDlpackFloat, bits, 1};
    case Type::kBf16:
      return DLDataType{kDlpackBfloat, bits, 1};
    case Type::kComplex64:
    case Type::kComplex128:
      return DLDataType{kDlpackComplex, bits, 1};
    case Type::kBool:
      return DLDataType{kDlpackBool, bits, 1};
    case Type::kF8E4M3:
    case Type::kF8E5M2:
      return Unimplemented("dlpack: version 1.0 has no ", TypeName(type), ": use the batch's own arrays");
    default:
      return DLDataType{kDlpackUint, bits, 1};
  }
}

absl::StatusOr<std::unique_ptr<Export>> DescribeExport(std::shared_ptr<const Batch> batch, size_t column,
                                                       BatchArray array) {
  if (column >= batch->column_count()) {
    return InvalidArgument("dlpack: column ", column, " of ", batch->column_count());
  }
  auto made = std::make_unique<Export>();
  const BatchColumn& from = batch->column(column);
  DLTensor& tensor = made->tensor;
  tensor.dtype = {kDlpackInt, 64, 1};
  // Arrays of the host, or their copies on the device.
  const BatchColumn::Arrays arrays =
      batch->device().name != "host"
          ? from.on_device
          : BatchColumn::Arrays{from.offsets.data(), from.item_offsets.data(), from.shapes.data(), from.present.data()};
  const auto numbers = [&](const uint64_t* data, std::span<const uint64_t> host, uint32_t rank) {
    tensor.data = const_cast<uint64_t*>(data);
    made->shape = {static_cast<int64_t>(host.size())};
    if (rank != 0) made->shape = {static_cast<int64_t>(host.size() / rank), static_cast<int64_t>(rank)};
    return !host.empty();
  };
  bool there = true;
  switch (array) {
    case BatchArray::kValues: {
      there = from.layout != BatchLayout::kViews;
      tensor.data = from.values.data();
      SHARDKIT_ASSIGN_OR_RETURN(tensor.dtype, TypeOf(from.dtype));
      for (const uint64_t size : from.shape) made->shape.push_back(static_cast<int64_t>(size));
      if (from.shape.empty()) made->shape = {static_cast<int64_t>(from.values.size() / ScalarSize(from.dtype))};
      break;
    }
    case BatchArray::kOffsets:
      there = numbers(arrays.offsets, from.offsets, 0);
      break;
    case BatchArray::kItemOffsets:
      there = numbers(arrays.item_offsets, from.item_offsets, 0);
      break;
    case BatchArray::kShapes:
      there = numbers(arrays.shapes, from.shapes, from.shape_rank);
      break;
    case BatchArray::kPresent:
      tensor.data = const_cast<uint8_t*>(arrays.present);
      tensor.dtype = {kDlpackUint, 8, 1};
      made->shape = {static_cast<int64_t>(from.present.size())};
      there = !from.present.empty();
      break;
  }
  if (!there) return InvalidArgument("dlpack: column \"", from.name, "\" has no such array in this batch");
  made->strides.assign(made->shape.size(), 1);
  for (size_t i = made->shape.size() - 1; i > 0; --i) made->strides[i - 1] = made->strides[i] * made->shape[i];
  const DeviceInfo& device = batch->device();
  tensor.device = {device.cuda ? kDlpackCuda : kDlpackCpu, device.cuda ? device.index : 0};
  tensor.ndim = static_cast<int32_t>(made->shape.size());
  tensor.shape = made->shape.data();
  tensor.strides = made->strides.data();
  made->batch = std::move(batch);
  return made;
}

}  // namespace
}  // namespace loader

absl::StatusOr<DLManagedTensor*> ToDlpack(std::shared_ptr<const Batch> batch, size_t column, BatchArray array,
                                          DeviceStream stream) {
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<loader::Export> made,
                            loader::DescribeExport(std::move(batch), column, array));
  SHARDKIT_RETURN_IF_ERROR(made->batch->WaitOn(stream));
  DLManagedTensor& tensor = made->unversioned;
  tensor.dl_tensor = made->tensor;
  tensor.manager_ctx = made.get();
  tensor.deleter = [](DLManagedTensor* self) { delete static_cast<loader::Export*>(self->manager_ctx); };
  return &made.release()->unversioned;
}

void DeleteDlpack(DLManagedTensor* tensor) { tensor->deleter(tensor); }

absl::StatusOr<DLManagedTensorVersioned*> ToDlpackVersioned(std::shared_ptr<const Batch> batch, size_t column,
                                                            BatchArray array, DeviceStream stream) {
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<loader::Export> made,
                            loader::DescribeExport(std::move(batch), column, array));
  SHARDKIT_RETURN_IF_ERROR(made->batch->WaitOn(stream));
  DLManagedTensorVersioned& tensor = made->versioned;
  tensor.version = {1, 0};
  tensor.dl_tensor = made->tensor;
  tensor.manager_ctx = made.get();
  tensor.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<loader::Export*>(self->manager_ctx); };
  return &made.release()->versioned;
}

}  // namespace shardkit
