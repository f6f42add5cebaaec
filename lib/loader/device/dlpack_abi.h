// The structs of DLPack, as its specification lays them out (dmlc/dlpack, include/dlpack/dlpack.h, 1.0). They are in no
// namespace, because other projects know them by these names.
#pragma once

#include <cstdint>

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

namespace shardkit::loader {

inline constexpr int32_t kDlpackCpu = 1;
inline constexpr int32_t kDlpackCuda = 2;

inline constexpr uint8_t kDlpackInt = 0;
inline constexpr uint8_t kDlpackUint = 1;
inline constexpr uint8_t kDlpackFloat = 2;
inline constexpr uint8_t kDlpackBfloat = 4;
inline constexpr uint8_t kDlpackComplex = 5;
inline constexpr uint8_t kDlpackBool = 6;

}  // namespace shardkit::loader
