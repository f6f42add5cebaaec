// Measures the cost of masks that are uploaded as run lengths.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/bandwidth.h"
#include "gpu/kernels.h"
#include "gpu/measuring.h"
#include "shardkit/rle.h"

namespace shardkit::gpu {
namespace {

// One blob per mask, an ellipse whose edges wander by a pixel from column to column.
RleList MakeBlobs(const MaskSetup& setup) {
  std::mt19937_64 random(1);
  RleList masks;
  const double height = setup.height;
  for (uint32_t i = 0; i < setup.count; ++i) {
    Rle mask{setup.height, setup.width, {}};
    const uint64_t left = random() % (setup.width - setup.columns + 1);
    const double center = height * (0.3 + 0.4 * static_cast<double>(random() % 1024) / 1024);
    double wander = 0;
    uint64_t last = 0;
    for (uint32_t x = 0; x < setup.columns; ++x) {
      const double across = (x + 0.5) / setup.columns * 2 - 1;
      const double radius = 1 + height / 6 * std::sqrt(1 - across * across);
      wander = std::clamp(wander + static_cast<double>(random() % 3) - 1, -height / 16, height / 16);
      const uint64_t column = (left + x) * setup.height;
      const uint64_t top = column + static_cast<uint64_t>(std::clamp(center + wander - radius, 0.0, height - 1));
      const uint64_t bottom = column + static_cast<uint64_t>(std::clamp(center + wander + radius, 0.0, height - 1));
      mask.runs.push_back(static_cast<uint32_t>(top - last));
      mask.runs.push_back(static_cast<uint32_t>(bottom - top));
      last = bottom;
    }
    mask.runs.push_back(static_cast<uint32_t>(uint64_t{setup.height} * setup.width - last));
    masks.Append(mask);
  }
  return masks;
}

double SecondsOf(const std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The memory on both sides. The stream is the last member, so that it is destroyed first.
struct MaskExperiment {
  Backend& backend;
  const RleList& masks;
  uint64_t mask_bytes = 0;     // dense, of one
  uint64_t records_bytes = 0;  // of the RasterizeMask records
  uint64_t run_bytes = 0;
  RasterizeMasks arguments;
  std::shared_ptr<uint8_t> small;  // records, then runs
  std::shared_ptr<uint8_t> dense;
  std::unique_ptr<DeviceBuffer> device_small;
  std::unique_ptr<DeviceBuffer> ends;
  std::unique_ptr<DeviceBuffer> out;
  std::unique_ptr<MeasuredStream> stream;

  uint64_t dense_bytes() const { return mask_bytes * masks.size(); }
  uint64_t small_bytes() const { return records_bytes + run_bytes; }

  absl::Status Prepare(const std::shared_ptr<Backend>& shared) {
    SHARDKIT_ASSIGN_OR_RETURN(small, PinnedMemory(shared, small_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(dense, PinnedMemory(shared, dense_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(device_small, DeviceBuffer::Create(backend, small_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(ends, DeviceBuffer::Create(backend, run_bytes));
    SHARDKIT_ASSIGN_OR_RETURN(out, DeviceBuffer::Create(backend, dense_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(stream, MeasuredStream::Create(backend));
    std::vector<RasterizeMask> records(masks.size());
    for (size_t i = 0; i < records.size(); ++i) {
      RasterizeMask& record = records[i];
      record.runs = masks.run_begin[i];
      record.run_count = masks.run_begin[i + 1] - masks.run_begin[i];
      record.out = i * mask_bytes;
      record.first_tile = arguments.tiles;
      record.stored_height = record.height = record.content_height = masks.heights[i];
      record.stored_width = record.width = record.content_width = masks.widths[i];
      arguments.tiles += (mask_bytes + kMaskTileBytes - 1) / kMaskTileBytes;
    }
    std::memcpy(small.get(), records.data(), records_bytes);
    std::memcpy(small.get() + records_bytes, masks.runs.data(), run_bytes);
    arguments.masks = reinterpret_cast<const RasterizeMask*>(device_small->data());
    arguments.runs = reinterpret_cast<const uint32_t*>(device_small->data() + records_bytes);
    arguments.ends = reinterpret_cast<uint32_t*>(ends->data());
    arguments.out = out->data();
    arguments.count = masks.size();
    return absl::OkStatus();
  }

  absl::StatusOr<double> Rasterize() {
    return DeviceSeconds(backend, stream->get(), [&] { return backend.Launch(arguments, stream->get()); });
  }
  absl::StatusOr<double> Fill() {
    return DeviceSeconds(backend, stream->get(),
                         [&] { return backend.Fill(out->data(), 1, dense_bytes(), stream->get()); });
  }

  absl::StatusOr<double> Runs() {
    const auto begin = std::chrono::steady_clock::now();
    SHARDKIT_RETURN_IF_ERROR(
        backend.Copy(device_small->data(), small.get(), small_bytes(), CopyKind::kHostToDevice, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.Launch(arguments, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.SynchronizeStream(stream->get()));
    return SecondsOf(begin);
  }

  absl::StatusOr<double> Dense(const Cancellation& cancellation) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < masks.size(); ++i) {
      SHARDKIT_RETURN_IF_ERROR(cancellation.Check("decoding masks"));
      SHARDKIT_RETURN_IF_ERROR(DecodeDense(masks[i], {dense.get() + i * mask_bytes, mask_bytes}));
    }
    SHARDKIT_RETURN_IF_ERROR(
        backend.Copy(out->data(), dense.get(), dense_bytes(), CopyKind::kHostToDevice, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.SynchronizeStream(stream->get()));
    return SecondsOf(begin);
  }

  // Checks that the device's masks are those that DecodeDense makes.
  absl::Status Verify() {
    SHARDKIT_RETURN_IF_ERROR(
        backend.Copy(dense.get(), out->data(), dense_bytes(), CopyKind::kDeviceToHost, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.SynchronizeStream(stream->get()));
    std::vector<uint8_t> expected(mask_bytes);
    for (size_t i = 0; i < masks.size(); ++i) {
      SHARDKIT_RETURN_IF_ERROR(DecodeDense(masks[i], expected));
      if (std::memcmp(expected.data(), dense.get() + i * mask_bytes, mask_bytes) != 0) {
        return Internal(backend.info().name, ": mask ", i, " of the measurement is not what it is on the processor");
      }
    }
    return absl::OkStatus();
  }
};

absl::Status Check(const Backend& backend, const MaskSetup& setup) {
  if (setup.count == 0 || setup.height < 16 || setup.columns == 0 || setup.columns > setup.width ||
      uint64_t{setup.height} * setup.width > kMaxMaskPixels) {
    return InvalidArgument("masks to measure: ", setup.count, " of ", setup.width, " x ", setup.height,
                           " with blobs of ", setup.columns, " columns; see MaskSetup");
  }
  const uint64_t bytes =
      uint64_t{setup.count} * (uint64_t{setup.height} * setup.width + uint64_t{setup.columns} * 16 + 128);
  return CheckMemory(backend, bytes, bytes);
}

}  // namespace

absl::StatusOr<MaskFigures> MeasureMasks(const std::shared_ptr<Backend>& backend, const MaskSetup& setup,
                                         const Cancellation& cancellation) {
  SHARDKIT_RETURN_IF_ERROR(Check(*backend, setup));
  const RleList masks = MakeBlobs(setup);
  MaskExperiment experiment{.backend = *backend, .masks = masks};
  experiment.mask_bytes = uint64_t{setup.height} * setup.width;
  experiment.records_bytes = masks.size() * sizeof(RasterizeMask);
  experiment.run_bytes = masks.runs.size() * sizeof(uint32_t);
  SHARDKIT_RETURN_IF_ERROR(experiment.Prepare(backend));
  // Checks the kernels' result, which replaces bytes that are all 1.
  SHARDKIT_RETURN_IF_ERROR(experiment.Fill().status());
  SHARDKIT_RETURN_IF_ERROR(experiment.Runs().status());
  SHARDKIT_RETURN_IF_ERROR(experiment.Verify());
  SHARDKIT_RETURN_IF_ERROR(experiment.Dense(cancellation).status());
  std::vector<double> rasterize, fill, runs, dense;
  for (Rounds rounds; rounds.Next();) {
    SHARDKIT_RETURN_IF_ERROR(cancellation.Check("measuring masks"));
    SHARDKIT_ASSIGN_OR_RETURN(const double fill_seconds, experiment.Fill());
    SHARDKIT_ASSIGN_OR_RETURN(const double rasterize_seconds, experiment.Rasterize());
    SHARDKIT_ASSIGN_OR_RETURN(const double runs_seconds, experiment.Runs());
    SHARDKIT_ASSIGN_OR_RETURN(const double dense_seconds, experiment.Dense(cancellation));
    fill.push_back(fill_seconds);
    rasterize.push_back(rasterize_seconds);
    runs.push_back(runs_seconds);
    dense.push_back(dense_seconds);
  }
  MaskFigures figures;
  figures.dense_bytes = experiment.dense_bytes();
  figures.run_bytes = experiment.run_bytes;
  figures.rasterize_seconds = Median(std::move(rasterize));
  figures.fill_seconds = Median(std::move(fill));
  figures.runs_seconds = Median(std::move(runs));
  figures.dense_seconds = Median(std::move(dense));
  return figures;
}

}  // namespace shardkit::gpu
