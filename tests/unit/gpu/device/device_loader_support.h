// Batches on a device, shown in the same way as loader_support.h shows a loader's batches.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "loader/device/uploading_loader.h"
#include "loader/loader_support.h"
#include "unit/gpu/device/device_support.h"

namespace shardkit::test {

// Fetches the batch's arrays, which are complete, from the device. Arrays that the batch also has on the host are the
// same.
inline std::string ShowEnded(gpu::Backend& device, const Batch& batch) {
  std::string text = "epoch " + std::to_string(batch.epoch()) + " step " + std::to_string(batch.step()) + ":";
  for (size_t i = 0; i < batch.size(); ++i) {
    const BatchSample& sample = batch.samples()[i];
    text += " " + std::to_string(sample.dataset) + "/" + std::to_string(sample.ordinal) + "@" +
            std::to_string(sample.position) + "=" + std::string(batch.key(i));
  }
  for (size_t c = 0; c < batch.column_count(); ++c) {
    const BatchColumn& column = batch.column(c);
    text += "\n " + std::string(column.name) + " layout " + std::to_string(static_cast<int>(column.layout)) + " shape";
    for (const uint64_t size : column.shape) text += " " + std::to_string(size);
    const auto numbers = [&](const uint64_t* values, std::span<const uint64_t> host) {
      const std::vector<uint8_t> bytes = Fetch(device, values, host.size_bytes());
      EXPECT_TRUE(host.empty() || std::memcmp(bytes.data(), host.data(), bytes.size()) == 0);
      for (const uint64_t value : host) text += " " + std::to_string(value);
    };
    text += " offsets";
    numbers(column.on_device.offsets, column.offsets);
    text += " items";
    numbers(column.on_device.item_offsets, column.item_offsets);
    text += " shapes";
    numbers(column.on_device.shapes, column.shapes);
    text += " present";
    const std::vector<uint8_t> present = Fetch(device, column.on_device.present, column.present.size());
    EXPECT_TRUE(std::ranges::equal(present, column.present));
    for (const uint8_t byte : present) text += byte ? " 1" : " 0";
    text += " values ";
    const std::vector<uint8_t> values = Fetch(device, column.values.data(), column.values.size());
    text.append(values.begin(), values.end());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(column.values.data()) % 256, 0u);
  }
  for (const BadSample& bad : batch.skipped()) {
    text += "\n bad " + std::to_string(bad.sample.ordinal) + " " + std::string(bad.status.message());
  }
  return text;
}

inline std::string Show(gpu::Backend& device, const Batch& batch) {
  const absl::Status status = batch.Synchronize();
  EXPECT_TRUE(status.ok()) << status;
  return ShowEnded(device, batch);
}

inline std::unique_ptr<Loader> OpenDeviceLoader(std::shared_ptr<gpu::Backend> device, FileSystem& files,
                                                const LoaderOptions& options, const std::string& path = "/data") {
  auto loader = loader::OpenOnDevice(std::move(device), files, {{.path = path}}, options);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return loader.ok() ? *std::move(loader) : nullptr;
}

// Every batch, and the error at the end if there is one. Keeps `hold` batches before it examines the first one.
inline std::vector<std::string> Deliver(gpu::Backend& device, Loader& loader, size_t hold = 0) {
  std::vector<std::string> shown;
  std::vector<std::shared_ptr<const Batch>> held;
  while (true) {
    auto batch = loader.Next();
    if (!batch.ok()) {
      shown.push_back(batch.status().ToString());
      return shown;
    }
    if (*batch != nullptr) held.push_back(*batch);
    while (!held.empty() && (held.size() > hold || *batch == nullptr)) {
      shown.push_back(Show(device, *held.front()));
      held.erase(held.begin());
    }
    if (*batch == nullptr) return shown;
  }
}

}  // namespace shardkit::test
