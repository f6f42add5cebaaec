// The texts and JSON of bench about a device.
#pragma once

#include <string>

#include "bench_device.h"
#include "json.h"

namespace shardctl {

// The copies and overlaps, in tables.
std::string DeviceText(const DeviceResult& device);

// Lines about the loader's run on the device.
std::string DeviceEpochText(const DeviceEpoch& epoch);

Json DeviceJson(const BenchArguments& arguments, const DeviceResult& device);

}  // namespace shardctl
