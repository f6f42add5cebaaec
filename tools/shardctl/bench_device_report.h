// The texts and JSON of bench about a device.
#pragma once

#include <string>

#include "bench_options.h"
#include "bench_run.h"
#include "json.h"
#include "shardkit/device.h"

namespace shardctl {

// The copies and overlaps, in tables.
std::string DeviceText(const shardkit::DeviceMeasurements& measurements);

// Lines about the loader's run on the device.
std::string UploadText(const shardkit::LoaderReport& report);

// `run` is null where only the device was measured.
Json DeviceJson(const BenchArguments& arguments, const shardkit::DeviceMeasurements& measurements, const BenchRun* run);

}  // namespace shardctl
