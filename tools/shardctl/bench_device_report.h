// What bench says of a device.
#pragma once

#include <string>

#include "bench_device.h"
#include "json.h"

namespace shardctl {

// The copies and overlaps, in tables.
std::string DeviceText(const DeviceResult& device);

// What the epoch did on the device, in lines.
std::string DeviceEpochText(const DeviceEpoch& epoch);

Json DeviceJson(const BenchArguments& arguments, const DeviceResult& device);

}  // namespace shardctl
