// Which stage bounds a device loader.
#include <algorithm>

#include "base/strings.h"
#include "loader/percent.h"
#include "shardkit/gpu/device_loader.h"

namespace shardkit::gpu {

DeviceReport Total(const DeviceReport& first, const DeviceReport& second) {
  DeviceReport total = second;
  total.loader = Total(first.loader, second.loader);
  total.upload.busy += first.upload.busy;
  total.upload.starved += first.upload.starved;
  total.upload.blocked += first.upload.blocked;
  total.memory_wait_seconds += first.memory_wait_seconds;
  total.seconds += first.seconds;
  total.consumer_wait_seconds += first.consumer_wait_seconds;
  if (first.batches > 0) total.first_batch_seconds = first.first_batch_seconds;
  total.step_seconds += first.step_seconds;
  total.batches += first.batches;
  total.samples += first.samples;
  total.uploaded_bytes += first.uploaded_bytes;
  total.staged_bytes += first.staged_bytes;
  total.copy_seconds += first.copy_seconds;
  total.kernel_seconds += first.kernel_seconds;
  total.peak_pinned_memory = std::max(first.peak_pinned_memory, second.peak_pinned_memory);
  total.peak_device_memory = std::max(first.peak_device_memory, second.peak_device_memory);
  return total;
}

Diagnosis Diagnose(const DeviceReport& report) {
  constexpr double kNoWait = 0.01;  // of step time; below it the consumer is the bottleneck
  constexpr double kBusy = 0.7;     // of the run
  constexpr double kStaged = 0.05;  // of the bytes
  constexpr double kMemory = 0.05;  // of the run
  const double wait = report.wait_share();
  if (report.batches < 2) return {"none", "fewer than two batches have been delivered", "go on, and ask again"};
  if (wait < kNoWait) {
    return {"consumer", StrCat("it waits for ", loader::PercentText(wait), " of the time; batches lie ready"),
            "nothing to change here: the time is spent between the calls of Next"};
  }
  const std::string waits = StrCat("the consumer waits for ", loader::PercentText(wait), " of the time; ");
  // Some of these seconds are before the first call of Next, and so not in report.seconds.
  const auto share = [&](double seconds) { return report.seconds > 0 ? std::min(1.0, seconds / report.seconds) : 0; };
  if (share(report.copy_seconds) >= kBusy) {
    return {"copy",
            StrCat(waits, "copies to the device take ", loader::PercentText(share(report.copy_seconds)), " of it"),
            "fewer bytes: a smaller geometry without device_geometry, u8 images, masks as runs, fewer columns"};
  }
  if (share(report.kernel_seconds) >= kBusy) {
    return {"kernel", StrCat(waits, "kernels take ", loader::PercentText(share(report.kernel_seconds)), " of it"),
            "less work on the device: no device_geometry, packed masks; or it is busy with the consumer's own"};
  }
  if (static_cast<double>(report.staged_bytes) > kStaged * static_cast<double>(report.uploaded_bytes) &&
      share(report.upload.busy) >= kBusy) {
    return {"upload",
            StrCat(waits, "the upload stage is busy for ", loader::PercentText(share(report.upload.busy)), ", with ",
                   report.staged_bytes, " of ", report.uploaded_bytes, " bytes that found no page-locked memory"),
            "raise pinned_bytes, or lower batch_size"};
  }
  if (share(report.upload.busy) >= kBusy) {
    return {"upload", StrCat(waits, "the upload stage is busy for ", loader::PercentText(share(report.upload.busy))),
            "a larger batch_size: each batch takes some calls of the device"};
  }
  if (share(report.memory_wait_seconds) >= kMemory) {
    return {"memory",
            StrCat(waits, "the upload stage waits for device memory for ",
                   loader::PercentText(share(report.memory_wait_seconds))),
            "raise device_bytes, or release batches earlier"};
  }
  // The bottleneck is in the loader. The loader's consumer is the upload stage, but the wait to explain is the one
  // reported here.
  LoaderReport loader = report.loader;
  loader.consumer_wait_seconds = report.consumer_wait_seconds;
  loader.step_seconds = report.step_seconds;
  return Diagnose(loader);
}

}  // namespace shardkit::gpu
