#include "shardkit/gpu/device_loader.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/device_engine.h"
#include "loader/sample_geometry.h"

namespace shardkit::gpu {
namespace {

constexpr uint64_t kLeastPinned = uint64_t{4} << 20;
constexpr uint64_t kLeastStaging = uint64_t{1} << 20;
constexpr uint64_t kMostStaging = uint64_t{64} << 20;

// The loader's stages as ranges of the device's profiler.
class ProfilerRanges : public StageObserver {
 public:
  explicit ProfilerRanges(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}
  void Begin(const char* stage) override { backend_->PushRange(stage); }
  void End() override { backend_->PopRange(); }

 private:
  const std::shared_ptr<Backend> backend_;
};

absl::Status Check(const DeviceLoaderOptions& options) {
  if (options.depth < 2) return InvalidArgument("device loader: a depth of ", options.depth, "; give 2 or more");
  if (options.pinned_bytes < kLeastPinned) {
    return InvalidArgument("device loader: pinned_bytes is ", options.pinned_bytes, "; give at least ", kLeastPinned);
  }
  if (options.loader.follow) {
    return InvalidArgument("device loader: follow is for the loader alone; ask NewestGenerations between epochs, and ",
                           "open the device loader anew where one is newer, with first_epoch");
  }
  if (options.loader.batch_memory != nullptr) {
    return InvalidArgument("device loader: it brings its own batch_memory; leave that of the loader's options empty");
  }
  for (const LoaderColumn& column : options.loader.columns) {
    if (column.decode == ColumnDecode::kViews) {
      return InvalidArgument("device loader: column \"", column.name, "\": views cannot be uploaded; choose kStored");
    }
    if (column.deferred) {
      return InvalidArgument("device loader: column \"", column.name, "\": leave deferred to device_geometry");
    }
  }
  return absl::OkStatus();
}

// What the device does with a column, or null. Sets column->deferred when the device applies the geometry.
absl::StatusOr<std::unique_ptr<ColumnConversion>> ConversionFor(const DeviceLoaderOptions& options,
                                                                LoaderColumn* column) {
  const loader::OutputSize fixed = loader::FixedOutputSize(options.loader.geometry);
  if (column->decode == ColumnDecode::kMasks || column->decode == ColumnDecode::kPackedMasks) {
    column->deferred = true;
    return NewMaskConversion(column->decode == ColumnDecode::kPackedMasks, column->pad_masks, fixed.height,
                             fixed.width);
  }
  if (column->decode != ColumnDecode::kImage) return nullptr;
  const PixelOutput output = std::exchange(column->output, PixelOutput());
  if (absl::Status status = CheckPixelOutput(output); !status.ok()) {
    return Annotate(status, StrCat("device loader: column \"", column->name, "\""));
  }
  if (fixed.width == 0) {
    if (!output.planar) return nullptr;
    return InvalidArgument("device loader: column \"", column->name,
                           "\": images of their own sizes cannot become planar; choose a geometry that is not native");
  }
  if (options.device_geometry) {
    column->deferred = true;
    return NewResampleConversion(output, fixed.height, fixed.width, column->channels, column->image.fill);
  }
  if (!output.planar) return nullptr;
  return NewNormalizeConversion(output);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLoader>> DeviceLoader::Open(std::shared_ptr<Backend> device,
                                                                 ReadableFileSystem& file_system,
                                                                 std::vector<LoaderDataset> datasets,
                                                                 const DeviceLoaderOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(Check(options));
  DeviceParts parts;
  parts.backend = std::move(device);
  parts.device_bytes = options.device_bytes;
  parts.depth = options.depth;
  const uint64_t staging = std::clamp(options.pinned_bytes / 8, kLeastStaging, kMostStaging);
  SHARDKIT_ASSIGN_OR_RETURN(parts.staging, PinnedPool::Create(parts.backend, {.bytes = staging}));
  SHARDKIT_ASSIGN_OR_RETURN(parts.pinned, PinnedPool::Create(parts.backend, {.bytes = options.pinned_bytes - staging}));
  LoaderOptions loader = options.loader;
  loader.batch_memory = parts.pinned;
  if (loader.observer == nullptr && parts.backend->info().cuda)
    loader.observer = std::make_shared<ProfilerRanges>(parts.backend);
  for (LoaderColumn& column : loader.columns) {
    SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<ColumnConversion> conversion, ConversionFor(options, &column));
    parts.conversions.push_back(std::move(conversion));
  }
  SHARDKIT_ASSIGN_OR_RETURN(parts.loader, Loader::Open(file_system, std::move(datasets), loader));
  auto engine = std::make_unique<DeviceEngine>(std::move(parts));
  SHARDKIT_RETURN_IF_ERROR(engine->Start());
  return engine;
}

}  // namespace shardkit::gpu
