// The device that the tests of this folder run on: the host, or the one that SHARDKIT_TEST_DEVICE names.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "loader/loader_support.h"

namespace shardkit::test {

inline std::shared_ptr<gpu::Backend> TestDevice() {
  const char* const name = std::getenv("SHARDKIT_TEST_DEVICE");
  auto device = gpu::OpenDevice(name != nullptr ? name : "emulated");
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *device : nullptr;
}

// Memory of a device that frees itself.
class DeviceBytes {
 public:
  DeviceBytes(std::shared_ptr<gpu::Backend> device, uint64_t size) : device_(std::move(device)), size_(size) {
    const auto memory = device_->AllocateDevice(size == 0 ? 1 : size);
    EXPECT_TRUE(memory.ok()) << memory.status();
    if (memory.ok()) data_ = static_cast<uint8_t*>(*memory);
  }
  ~DeviceBytes() {
    if (data_ != nullptr) device_->FreeDevice(data_, size_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  uint8_t* data() const { return data_; }

 private:
  const std::shared_ptr<gpu::Backend> device_;
  const uint64_t size_;
  uint8_t* data_ = nullptr;
};

// Copies bytes from the device, which has finished its work on them.
inline std::vector<uint8_t> Fetch(gpu::Backend& device, const void* memory, uint64_t size) {
  std::vector<uint8_t> bytes(size);
  if (size == 0) return bytes;
  const auto stream = device.CreateStream();
  EXPECT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE(device.Copy(bytes.data(), memory, size, gpu::CopyKind::kDeviceToHost, *stream).ok());
  EXPECT_TRUE(device.SynchronizeStream(*stream).ok());
  device.DestroyStream(*stream);
  return bytes;
}

}  // namespace shardkit::test
