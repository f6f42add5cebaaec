// Runs one conversion over guarded memory.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "gpu_support.h"
#include "loader/device/column_conversion.h"

namespace shardkit::gpu::test {

struct Converted {
  loader::DeviceLayout plan;
  std::vector<uint8_t> bytes;
};

// The test fails on an error, or when memory outside the output or the scratch is written.
inline Converted Convert(const loader::ColumnConversion& conversion, const BatchColumn& column, Backend& backend) {
  Converted converted;
  auto plan = conversion.Prepare(column);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return converted;
  converted.plan = *std::move(plan);
  Guarded values(column.values), metadata(converted.plan.metadata), scratch(converted.plan.scratch_bytes),
      out(converted.plan.output_bytes);
  const absl::Status status = conversion.Launch(backend, nullptr, column, converted.plan, values.data(),
                                                metadata.data(), scratch.data(), out.data());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(scratch.Untouched() && out.Untouched());
  EXPECT_TRUE(std::ranges::equal(values.content(), column.values));
  EXPECT_TRUE(std::ranges::equal(metadata.content(), converted.plan.metadata));
  converted.bytes.assign(out.content().begin(), out.content().end());
  return converted;
}

// The same with the twins (kernels_host.cc) and with the kernels' bodies. All results are equal.
inline Converted ConvertEveryWay(const loader::ColumnConversion& conversion, const BatchColumn& column) {
  KernelBackend twin;
  Converted converted = Convert(conversion, column, twin);
  for (const Emulation& emulation : {Emulation{}, Emulation{2, true}}) {
    KernelBackend emulated(emulation);
    EXPECT_TRUE(Convert(conversion, column, emulated).bytes == converted.bytes);
  }
  return converted;
}

}  // namespace shardkit::gpu::test
