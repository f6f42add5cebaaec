// Measures copies and uploads.
#include "gpu/bandwidth.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/measuring.h"
#include "gpu/pinned_pool.h"
#include "gpu/staging_ring.h"
#include "gpu/uploader.h"

namespace shardkit {
namespace gpu {
namespace {

constexpr uint64_t kCopiedAtOnce = uint64_t{64} << 20;
constexpr uint64_t kUnderWay = uint64_t{32} << 20;
constexpr uint64_t kLeastPool = uint64_t{1} << 20;  // PinnedPool's

// A ring with room for `slots` slots of `bytes`, all of which have been written to.
absl::StatusOr<std::shared_ptr<StagingRing>> TouchedRing(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                                         uint64_t slots) {
  // A ring may round slot sizes up to powers of two. With a smaller budget Acquire would wait for slots taken here.
  const uint64_t budget = slots * std::bit_ceil(std::max(bytes, kLeastPool));
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<PinnedPool> pool, PinnedPool::Create(backend, {.bytes = budget}));
  auto ring = StagingRing::Create(pool);
  std::vector<std::shared_ptr<StagingSlot>> all;
  for (uint64_t i = 0; i < slots; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<StagingSlot> slot, ring->Acquire(bytes));
    std::memset(slot->data(), 0x5a, bytes);
    all.push_back(std::move(slot));
  }
  return ring;
}

// Measures uploads from slots that are taken from the ring and given back.
absl::StatusOr<double> RingSeconds(Backend& backend, StagingRing& ring, Uploader& uploader, uint8_t* to, uint64_t bytes,
                                   uint64_t times, const Cancellation& cancellation) {
  return DeviceSeconds(backend, uploader.stream(), [&]() -> absl::Status {
    for (uint64_t i = 0; i < times; ++i) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<StagingSlot> slot, ring.Acquire(bytes, &cancellation));
      const UploadPiece piece{.to = to, .from = slot->data(), .bytes = bytes, .pinned = true};
      SHARDKIT_ASSIGN_OR_RETURN(const auto transfer, uploader.Upload({&piece, 1}, slot, &cancellation));
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<double> MeasureCopy(const std::shared_ptr<Backend>& backend, uint64_t bytes, CopyKind kind, bool pinned,
                                   const Cancellation& cancellation) {
  const bool within = kind == CopyKind::kDeviceToDevice;
  SHARDKIT_RETURN_IF_ERROR(CheckTransfer(*backend, bytes, 1));
  SHARDKIT_ASSIGN_OR_RETURN(const auto device, DeviceBuffer::Create(*backend, bytes));
  // The side that is not `device`.
  std::unique_ptr<DeviceBuffer> within_device;
  std::shared_ptr<uint8_t> of_host;
  uint8_t* other = nullptr;
  if (within) {
    SHARDKIT_ASSIGN_OR_RETURN(within_device, DeviceBuffer::Create(*backend, bytes));
    other = within_device->data();
  } else {
    SHARDKIT_ASSIGN_OR_RETURN(of_host, pinned ? PinnedMemory(backend, bytes) : TouchedMemory(bytes));
    other = of_host.get();
  }
  const bool to_host = kind == CopyKind::kDeviceToHost;
  uint8_t* const to = to_host ? other : device->data();
  const uint8_t* const from = to_host ? device->data() : other;
  SHARDKIT_ASSIGN_OR_RETURN(const auto stream, MeasuredStream::Create(*backend));
  // Writes the device's memory before it is measured. The host's memory was written already.
  SHARDKIT_RETURN_IF_ERROR(backend->Fill(device->data(), 0x5a, bytes, stream->get()));
  if (within) SHARDKIT_RETURN_IF_ERROR(backend->Fill(other, 0x5a, bytes, stream->get()));
  const uint64_t times = Repetitions(bytes, kCopiedAtOnce);
  const auto measure = [&] {
    return DeviceSeconds(*backend, stream->get(), [&]() -> absl::Status {
      for (uint64_t i = 0; i < times; ++i)
        SHARDKIT_RETURN_IF_ERROR(backend->Copy(to, from, bytes, kind, stream->get()));
      return absl::OkStatus();
    });
  };
  SHARDKIT_RETURN_IF_ERROR(measure().status());
  std::vector<double> seconds;
  for (Rounds rounds; rounds.Next();) {
    SHARDKIT_RETURN_IF_ERROR(cancellation.Check("measuring copies"));
    SHARDKIT_ASSIGN_OR_RETURN(const double measured, measure());
    seconds.push_back(measured);
  }
  return static_cast<double>(times) * static_cast<double>(bytes) / Median(std::move(seconds));
}

absl::StatusOr<UploadFigures> MeasureUploads(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                             const Cancellation& cancellation) {
  if (bytes == 0) return InvalidArgument(backend->info().name, ": a measurement of 0 bytes");
  // Enough uploads under way that the device has work until the host knows what is done. Of large ones two are enough.
  const uint64_t depth = std::clamp<uint64_t>(kUnderWay / bytes, 3, 32);
  const uint64_t slots = bytes <= kUnderWay ? depth + 1 : 2;
  SHARDKIT_RETURN_IF_ERROR(CheckTransfer(*backend, bytes, slots));
  SHARDKIT_ASSIGN_OR_RETURN(const auto device, DeviceBuffer::Create(*backend, bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<StagingRing> ring, TouchedRing(backend, bytes, slots));
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<Uploader> uploader,
                            Uploader::Create(backend, ring, {.depth = static_cast<int>(depth)}));
  SHARDKIT_ASSIGN_OR_RETURN(const auto stream, MeasuredStream::Create(*backend));
  const uint64_t times = std::max<uint64_t>(4, Repetitions(bytes, kComparedAtOnce));
  const auto through_ring = [&] {
    return RingSeconds(*backend, *ring, *uploader, device->data(), bytes, times, cancellation);
  };
  // Copies from the same memory, so that caches do not change the ratio.
  const auto plain = [&]() -> absl::StatusOr<double> {
    std::vector<std::shared_ptr<StagingSlot>> all(slots);
    for (std::shared_ptr<StagingSlot>& slot : all) {
      SHARDKIT_ASSIGN_OR_RETURN(slot, ring->Acquire(bytes, &cancellation));
    }
    return DeviceSeconds(*backend, stream->get(), [&]() -> absl::Status {
      for (uint64_t i = 0; i < times; ++i) {
        const uint8_t* const from = all[i % slots]->data();
        SHARDKIT_RETURN_IF_ERROR(backend->Copy(device->data(), from, bytes, CopyKind::kHostToDevice, stream->get()));
      }
      return absl::OkStatus();
    });
  };
  SHARDKIT_RETURN_IF_ERROR(through_ring().status());
  SHARDKIT_RETURN_IF_ERROR(plain().status());
  std::vector<double> ring_seconds, plain_seconds, ratios;
  for (Rounds rounds; rounds.Next();) {
    SHARDKIT_RETURN_IF_ERROR(cancellation.Check("measuring uploads"));
    SHARDKIT_ASSIGN_OR_RETURN(const double ring_time, through_ring());
    SHARDKIT_ASSIGN_OR_RETURN(const double plain_time, plain());
    ring_seconds.push_back(ring_time);
    plain_seconds.push_back(plain_time);
    ratios.push_back(plain_time / ring_time);
  }
  const double moved = static_cast<double>(times) * static_cast<double>(bytes);
  return UploadFigures{moved / Median(std::move(ring_seconds)), moved / Median(std::move(plain_seconds)),
                       Median(std::move(ratios))};
}

}  // namespace gpu

absl::StatusOr<DeviceMeasurements> MeasureDevice(std::string_view device, const DeviceSizes& sizes,
                                                 const Cancellation& cancellation,
                                                 const std::function<void(uint64_t, uint64_t)>& progress) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<gpu::Backend> backend, gpu::OpenDevice(device));
  DeviceMeasurements measurements{.device = backend->info()};
  const uint64_t total = 5 * sizes.copies.size() + sizes.overlaps.size();
  uint64_t done = 0;
  // Stores what was measured, or why it was skipped (ResourceExhausted). Returns other errors, which end all
  // experiments.
  const auto take = [&](auto measured, auto* figure, std::string* skipped) -> absl::Status {
    if (measured.ok()) {
      *figure = *measured;
    } else if (absl::IsResourceExhausted(measured.status())) {
      *skipped = std::string(ToStd(measured.status().message()));
    } else {
      return measured.status();
    }
    return absl::OkStatus();
  };
  const auto step = [&] {
    if (progress) progress(done, total);
    ++done;
    return cancellation.Check("measuring the device");
  };
  for (const uint64_t bytes : sizes.copies) {
    for (const bool to_device : {true, false}) {
      for (const bool pinned : {false, true}) {
        SHARDKIT_RETURN_IF_ERROR(step());
        CopyMeasurement copy{.bytes = bytes, .to_device = to_device, .pinned = pinned};
        const auto kind = to_device ? gpu::CopyKind::kHostToDevice : gpu::CopyKind::kDeviceToHost;
        SHARDKIT_RETURN_IF_ERROR(
            take(gpu::MeasureCopy(backend, bytes, kind, pinned, cancellation), &copy.bytes_per_second, &copy.skipped));
        measurements.copies.push_back(std::move(copy));
      }
    }
    SHARDKIT_RETURN_IF_ERROR(step());
    UploadMeasurement upload{.bytes = bytes};
    SHARDKIT_RETURN_IF_ERROR(take(gpu::MeasureUploads(backend, bytes, cancellation), &upload.figures, &upload.skipped));
    measurements.uploads.push_back(std::move(upload));
  }
  for (const uint64_t bytes : sizes.overlaps) {
    SHARDKIT_RETURN_IF_ERROR(step());
    OverlapMeasurement overlap{.bytes = bytes};
    SHARDKIT_RETURN_IF_ERROR(
        take(gpu::MeasureOverlap(backend, bytes, cancellation), &overlap.figures, &overlap.skipped));
    measurements.overlaps.push_back(std::move(overlap));
  }
  return measurements;
}

}  // namespace shardkit
