// The loader for a device: batches arrive on it while the step before computes.
//
//   auto device = gpu::OpenDevice("cuda:0");
//   gpu::DeviceLoaderOptions options;
//   options.loader.columns = {{.name = "image", .decode = ColumnDecode::kImage}};
//   options.loader.geometry = {.kind = GeometryOptions::Kind::kRandomResizedCrop, .width = 224};
//   options.images = {{"image", gpu::NormalizedOutput(Type::kBf16, mean, deviation)}};
//   auto loader = gpu::DeviceLoader::Open(*device, *PosixFileSystem(), {{.path = "dataset"}}, options);
//   if (!loader.ok()) return loader.status();
//   while (true) {
//     auto batch = (*loader)->Next();
//     if (!batch.ok()) return batch.status();
//     if (*batch == nullptr) break;   // the end
//     if (absl::Status status = (*batch)->WaitOn(stream); !status.ok()) return status;
//     Train((*batch)->Find("image")->values, stream);   // queues work in `stream`
//   }
//
// Values are decoded straight into page-locked memory and copied from there. Little travels: images as u8, masks as run
// lengths.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/gpu/backend.h"
#include "shardkit/gpu/device_batch.h"
#include "shardkit/gpu/kernels.h"
#include "shardkit/loader.h"

namespace shardkit::gpu {

// What the device makes of the u8 pixels of a kImage column.
struct DeviceImages {
  std::string name;
  PixelOutput output;  // planar outputs need a geometry that is not native
};

struct DeviceLoaderOptions {
  // As for a Loader, and the batches hold the same samples in the same order. Columns that are decoded to masks travel
  // as runs and become masks on the device. kViews is refused: the device needs values in one place.
  LoaderOptions loader;

  std::vector<DeviceImages> images;

  // Resize, crop, mirror and pad images on the device: they are decoded whole and travel at their own size. The pixels
  // are those of ImageDecodeOptions::scaled_decode = false. Takes work off the processor where JPEGs are hardly larger
  // than their output; where they are much larger, decoding only what is needed is less work.
  bool device_geometry = false;

  // Page-locked memory, batches waiting for the device included. Refused where it is more than half of the memory that
  // the process may have (PinnedPoolOptions::most_of_memory). The loader keeps its batches within it; what finds no
  // room is decoded to ordinary memory and copied once more.
  uint64_t pinned_bytes = uint64_t{512} << 20;

  // Device memory of batches, those that the consumer holds included; 0 is as much as is needed, at most twice what was
  // in use at once lately. A consumer that holds more and asks for the next batch is given it all the same.
  uint64_t device_bytes = 0;

  // Batches queued to the device and not yet taken, 2 or more.
  int depth = 2;
};

struct DeviceReport {
  LoaderReport loader;  // its consumer is the upload stage
  StageTimes
      upload;  // queueing copies and kernels; blocked: the consumer has not taken what is there, or memory is full
  double memory_wait_seconds = 0;  // the part of upload.blocked spent waiting for device memory

  // The consumer's, as in LoaderReport.
  double seconds = 0;
  double consumer_wait_seconds = 0;
  double first_batch_seconds = 0;
  double step_seconds = 0;
  uint64_t batches = 0;
  uint64_t samples = 0;

  uint64_t uploaded_bytes = 0;
  uint64_t staged_bytes = 0;   // of them from ordinary memory, copied once more
  double copy_seconds = 0;     // of the device, uploads
  double kernel_seconds = 0;   // of the device
  uint64_t pinned_memory = 0;  // bytes, now
  uint64_t peak_pinned_memory = 0;
  uint64_t device_memory = 0;
  uint64_t peak_device_memory = 0;

  double wait_share() const { return step_seconds > 0 ? consumer_wait_seconds / step_seconds : 0; }
  double bytes_per_sample() const {
    return samples > 0 ? static_cast<double>(uploaded_bytes) / static_cast<double>(samples) : 0;
  }
};

// Stages as Diagnose(LoaderReport), and "copy", "kernel" and "upload".
Diagnosis Diagnose(const DeviceReport& report);

// One thread at a time, except Cancel and Report. Destroying it stops its threads and waits until the device has ended
// the copies under way.
class DeviceLoader {
 public:
  virtual ~DeviceLoader() = default;

  // As Loader::Open; ResourceExhausted for more page-locked memory than may be had. `file_system` must outlive the
  // loader; its batches do not need it.
  static absl::StatusOr<std::unique_ptr<DeviceLoader>> Open(std::shared_ptr<Backend> device, FileSystem& file_system,
                                                            std::vector<LoaderDataset> datasets,
                                                            const DeviceLoaderOptions& options);

  // The next batch, or null at the end. Its arrays may be on their way still (DeviceBatch). Waits only when none has
  // been queued yet. Returns the error of this batch, or one that the device has found in an earlier one; then the
  // loader is finished and returns it again.
  virtual absl::StatusOr<std::shared_ptr<const DeviceBatch>> Next() = 0;

  // As Loader's. The cursor is where a run goes on that has had all batches that Next has returned.
  virtual void Cancel() = 0;
  virtual Cursor cursor() const = 0;
  virtual const Plan& plan() const = 0;
  virtual uint64_t steps_left() const = 0;
  virtual DeviceReport Report() const = 0;
  // With lanes for the device: "cuda:0 copy" and "cuda:0 kernels".
  virtual std::string Trace() const = 0;
  virtual std::string fallback_reason() const = 0;
};

}  // namespace shardkit::gpu
