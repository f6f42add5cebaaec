// The loader for a device: it uploads batches while the step before computes.
//
//   auto device = gpu::OpenDevice("cuda:0");
//   gpu::DeviceLoaderOptions options;
//   options.loader.columns = {{.name = "image", .decode = ColumnDecode::kImage,
//                              .output = NormalizedOutput(Type::kBf16, mean, deviation)}};
//   options.loader.geometry = {.kind = GeometryOptions::Kind::kRandomResizedCrop, .width = 224};
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
// Values are decoded directly into page-locked memory and copied from there. The uploads are small: images travel as
// u8, masks as run lengths.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/gpu/backend.h"
#include "shardkit/loader.h"

namespace shardkit::gpu {

// A batch on a device.

// Like BatchColumn, with the arrays on the device. The batch owns all that this points to.
struct DeviceColumn {
  std::string_view name;
  BatchLayout layout = BatchLayout::kTensor;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;

  // Device memory, aligned to 256 bytes; null where empty. May be written to, in streams that were passed to WaitOn.
  void* values = nullptr;
  uint64_t bytes = 0;  // of values
  const uint64_t* offsets = nullptr;
  const uint64_t* item_offsets = nullptr;
  const uint64_t* shapes = nullptr;
  const uint8_t* present = nullptr;

  // The same arrays on the host.
  std::span<const uint64_t> host_offsets;
  std::span<const uint64_t> host_item_offsets;
  std::span<const uint64_t> host_shapes;
  std::span<const uint8_t> host_present;
  uint32_t shape_rank = 0;
};

// A batch on a device. The data about its samples is valid at once. Its arrays are valid only when the device has
// finished its copies and kernels. Thread-safe. May outlive its loader.
//
// WaitOn orders a consumer's work with the batch. The stream's later work waits for the arrays. Later batches reuse the
// memory only after the work that is in the stream when the batch is destroyed. To use the arrays in other ways, call
// Synchronize first, and finish before the batch is destroyed.
class DeviceBatch {
 public:
  virtual ~DeviceBatch() = default;

  virtual uint64_t epoch() const = 0;
  virtual uint64_t step() const = 0;
  virtual size_t size() const = 0;
  virtual std::span<const BatchSample> samples() const = 0;
  virtual std::string_view key(size_t i) const = 0;
  virtual std::span<const BadSample> skipped() const = 0;
  virtual size_t column_count() const = 0;
  virtual const DeviceColumn& column(size_t i) const = 0;

  const DeviceColumn* Find(std::string_view name) const {
    for (size_t i = 0; i < column_count(); ++i) {
      if (column(i).name == name) return &column(i);
    }
    return nullptr;
  }

  // Work queued in `stream` from now on waits for the arrays; the caller does not wait. `stream` must outlive the
  // batch.
  virtual absl::Status WaitOn(Stream stream) const = 0;

  // Blocks the caller until the copies and kernels of this batch end, and returns their outcome. The loader's next
  // Next() also returns an error that the device found.
  virtual absl::Status Synchronize() const = 0;

  // The outcome without waiting; empty while the work is in progress.
  virtual std::optional<absl::Status> outcome() const = 0;

  virtual const DeviceInfo& device() const = 0;

  // Bytes of device memory that the batch holds.
  virtual uint64_t memory() const = 0;
};

struct DeviceLoaderOptions {
  // As for a Loader: the batches hold the same samples in the same order. Masks are uploaded as runs and rasterised on
  // the device; images are uploaded as u8, and become LoaderColumn::output there. kViews is refused, because the device
  // needs a column's values in one place.
  LoaderOptions loader;

  // Resize, crop, mirror and pad images on the device. Images are then decoded and uploaded at their full size. The
  // pixels are those of ImageDecodeOptions::scaled_decode = false. Saves processor time where JPEGs are hardly larger
  // than their output. Where they are much larger, it is less work to decode only the needed part.
  bool device_geometry = false;

  // Page-locked memory, including batches that wait for the device. Open refuses more than half of the memory that the
  // process may have (PinnedPoolOptions::most_of_memory). The loader keeps its batches within this. Values that find no
  // room here are decoded to ordinary memory and copied once more.
  uint64_t pinned_bytes = uint64_t{512} << 20;

  // Device memory of batches, including those that the consumer holds. 0: as much as needed, at most twice the recent
  // peak use. A consumer that holds more still gets the next batch that it asks for.
  uint64_t device_bytes = 0;

  // Batches queued to the device that the consumer has not taken yet, 2 or more.
  int depth = 2;
};

struct DeviceReport {
  LoaderReport loader;  // its consumer is the upload stage
  StageTimes upload;    // queueing copies and kernels; blocked: ready batches are not taken, or memory is full
  double memory_wait_seconds = 0;  // part of upload.blocked: waiting for device memory

  // For the consumer, as in LoaderReport.
  double seconds = 0;
  double consumer_wait_seconds = 0;
  double first_batch_seconds = 0;
  double step_seconds = 0;
  uint64_t batches = 0;
  uint64_t samples = 0;

  uint64_t uploaded_bytes = 0;
  uint64_t staged_bytes = 0;   // part of them: from ordinary memory, copied once more
  double copy_seconds = 0;     // device time of uploads
  double kernel_seconds = 0;   // device time of kernels
  uint64_t pinned_memory = 0;  // bytes, now
  uint64_t peak_pinned_memory = 0;
  uint64_t device_memory = 0;
  uint64_t peak_device_memory = 0;

  double wait_share() const { return step_seconds > 0 ? consumer_wait_seconds / step_seconds : 0; }
  double bytes_per_sample() const {
    return samples > 0 ? static_cast<double>(uploaded_bytes) / static_cast<double>(samples) : 0;
  }
};

// As of LoaderReport.
DeviceReport Total(const DeviceReport& first, const DeviceReport& second);

// Stages as in Diagnose(LoaderReport), and also "copy", "kernel" and "upload".
Diagnosis Diagnose(const DeviceReport& report);

// One thread at a time, except Cancel and Report. The destructor stops the threads and waits until the device has
// finished the copies in progress.
class DeviceLoader {
 public:
  virtual ~DeviceLoader() = default;

  // As Loader::Open; also ResourceExhausted for too much page-locked memory. `file_system` must outlive the loader; its
  // batches do not need it.
  static absl::StatusOr<std::unique_ptr<DeviceLoader>> Open(std::shared_ptr<Backend> device,
                                                            ReadableFileSystem& file_system,
                                                            std::vector<LoaderDataset> datasets,
                                                            const DeviceLoaderOptions& options);

  // The next batch, or null at the end. The uploads of its arrays may still be in progress (see DeviceBatch). Waits
  // only when no batch has been queued yet. Returns the error of this batch, or one that the device found in an earlier
  // batch. The loader is then finished and returns that error again.
  virtual absl::StatusOr<std::shared_ptr<const DeviceBatch>> Next() = 0;

  // As Loader::WaitFor.
  virtual bool WaitFor(std::chrono::steady_clock::duration timeout) = 0;

  // As for Loader. The cursor is where a later run continues after all batches that Next has returned.
  virtual void Cancel() = 0;
  virtual Cursor cursor() const = 0;
  virtual const Plan& plan() const = 0;
  virtual uint64_t steps_left() const = 0;
  virtual DeviceReport Report() const = 0;
  // Has lanes for the device: "cuda:0 copy" and "cuda:0 kernels".
  virtual std::string Trace() const = 0;
  virtual std::string fallback_reason() const = 0;
};

}  // namespace shardkit::gpu
