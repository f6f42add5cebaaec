#include "loader/device/uploading_loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "loader/sample_geometry.h"

namespace shardkit::loader {
namespace {

constexpr uint64_t kLeastStaging = uint64_t{1} << 20;
constexpr uint64_t kMostStaging = uint64_t{64} << 20;

// The loader's stages as ranges of the device's profiler.
class ProfilerRanges : public StageObserver {
 public:
  explicit ProfilerRanges(std::shared_ptr<gpu::Backend> backend) : backend_(std::move(backend)) {}
  void Begin(const char* stage) override { backend_->PushRange(stage); }
  void End() override { backend_->PopRange(); }

 private:
  const std::shared_ptr<gpu::Backend> backend_;
};

absl::Status CheckDeviceOptions(const LoaderOptions& options) {
  if (options.device_batches < 2) {
    return InvalidArgument("loader: device_batches is ", options.device_batches, "; give 2 or more");
  }
  if (options.pin_memory) {
    return InvalidArgument(
        "loader: pin_memory is for batches on the host; those of a device are decoded to page-locked ", "memory");
  }
  for (const LoaderColumn& column : options.columns) {
    if (column.decode == ColumnDecode::kViews) {
      return InvalidArgument("loader: column \"", column.name, "\": views cannot be uploaded; choose kStored");
    }
    if (column.deferred) {
      return InvalidArgument("loader: column \"", column.name, "\": leave deferred to device_geometry");
    }
  }
  return absl::OkStatus();
}

// What the device does with a column, or null. Sets column->deferred when the device applies the geometry.
absl::StatusOr<std::unique_ptr<ColumnConversion>> ConversionFor(const LoaderOptions& options, LoaderColumn* column) {
  SHARDKIT_ASSIGN_OR_RETURN(const LoaderColumn* const image, ImageOf(*column, options.columns));
  const bool own = image != nullptr && image->geometry;
  const OutputSize fixed = FixedOutputSize(own ? *image->geometry : options.geometry);
  if (column->decode == ColumnDecode::kMasks || column->decode == ColumnDecode::kPackedMasks) {
    column->deferred = true;
    return NewMaskConversion(column->decode == ColumnDecode::kPackedMasks, column->pad_masks, fixed.height,
                             fixed.width);
  }
  if (column->decode != ColumnDecode::kImage) return nullptr;
  const PixelOutput output = std::exchange(column->output, PixelOutput());
  if (absl::Status status = CheckPixelOutput(output); !status.ok()) {
    return Annotate(status, StrCat("loader: column \"", column->name, "\""));
  }
  if (fixed.width == 0) {
    if (!output.planar) return nullptr;
    return InvalidArgument("loader: column \"", column->name,
                           "\": images of their own sizes cannot become planar on a device; choose a geometry that is ",
                           "not native, for arrays of one shape, too");
  }
  if (options.device_geometry && column->augment.Changes()) {
    return InvalidArgument(
        "loader: column \"", column->name,
        "\": decoding threads change pixels (augment), and with device_geometry have none to change");
  }
  if (options.device_geometry) {
    column->deferred = true;
    return NewResampleConversion(output, fixed.height, fixed.width, column->channels, column->image);
  }
  if (!output.planar) return nullptr;
  return NewNormalizeConversion(output);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> UploadingLoader::Open(std::shared_ptr<gpu::Backend> backend,
                                                              const LoaderOptions& options, const OpenFunction& open) {
  SHARDKIT_RETURN_IF_ERROR(CheckDeviceOptions(options));
  DeviceParts parts;
  parts.backend = std::move(backend);
  parts.device_bytes = options.device_bytes;
  parts.depth = options.device_batches;
  const uint64_t staging = std::clamp(options.pinned_bytes / 8, kLeastStaging, kMostStaging);
  SHARDKIT_ASSIGN_OR_RETURN(parts.staging, gpu::PinnedPool::Create(parts.backend, {.bytes = staging}));
  SHARDKIT_ASSIGN_OR_RETURN(parts.pinned,
                            gpu::PinnedPool::Create(parts.backend, {.bytes = options.pinned_bytes - staging}));
  LoaderOptions inner = options;
  if (inner.observer == nullptr && parts.backend->info().cuda) {
    inner.observer = std::make_shared<ProfilerRanges>(parts.backend);
  }
  for (LoaderColumn& column : inner.columns) {
    SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<ColumnConversion> conversion, ConversionFor(options, &column));
    parts.conversions.push_back(std::move(conversion));
  }
  SHARDKIT_ASSIGN_OR_RETURN(parts.loader, open(inner, parts.pinned));
  auto loader = std::make_unique<UploadingLoader>(std::move(parts));
  SHARDKIT_RETURN_IF_ERROR(loader->Start());
  return loader;
}

UploadingLoader::UploadingLoader(DeviceParts parts)
    : parts_(std::move(parts)),
      cursor_(parts_.loader->cursor()),
      steps_left_(parts_.loader->steps_left()),
      events_(std::make_shared<gpu::EventPool>(parts_.backend)),
      memory_(std::make_shared<gpu::DeviceMemory>(parts_.backend,
                                                  parts_.device_bytes == 0 ? UINT64_MAX : parts_.device_bytes, [this] {
                                                    Lock lock(mutex_);
                                                    changed_.notify_all();
                                                  })) {}

absl::Status UploadingLoader::Start() {
  SHARDKIT_ASSIGN_OR_RETURN(kernel_stream_, parts_.backend->CreateStream());
  gpu::UploaderOptions options;
  options.depth = parts_.depth + 1;  // batches that wait for the consumer, and one under way
  SHARDKIT_ASSIGN_OR_RETURN(uploader_,
                            gpu::Uploader::Create(parts_.backend, gpu::StagingRing::Create(parts_.staging), options));
  SHARDKIT_ASSIGN_OR_RETURN(
      kernels_done_, gpu::CompletionQueue::Create(events_, [this](const absl::Status& failure) { Fail(failure); }));
  try {
    thread_ = std::thread([this] { RunUploads(); });
  } catch (const std::system_error&) {
    return ResourceExhausted("loader: the system starts no thread for uploads");
  }
  return absl::OkStatus();
}

UploadingLoader::~UploadingLoader() {
  Cancel();
  if (thread_.joinable()) thread_.join();
  ready_.clear();
  kernels_done_.reset();
  uploader_.reset();
  if (kernel_stream_ != nullptr) parts_.backend->DestroyStream(kernel_stream_);
  memory_->Close();
}

void UploadingLoader::Cancel() {
  parts_.loader->Cancel();
  {
    Lock lock(mutex_);
    stopped_.Cancel();
    changed_.notify_all();
  }
  if (uploader_ != nullptr) uploader_->Wake();
}

absl::StatusOr<std::shared_ptr<const Batch>> UploadingLoader::Next() {
  if (!finished_.ok()) return finished_;
  const auto begin = std::exchange(waits_since_, std::nullopt).value_or(Clock::now());
  std::optional<Ready> ready;
  {
    Lock lock(mutex_);
    consumer_waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return AnythingToDeliver(); });
    consumer_waiting_ = false;
    if (!failure_.ok()) return finished_ = failure_;
    if (stopped_.cancelled()) return finished_ = stopped_.Check("waiting for a batch on the device");
    ready = std::move(ready_.front());
    const bool end = ready->batch.ok() && *ready->batch == nullptr;
    if (!end) ready_.pop_front();  // the end stays
    changed_.notify_all();
    const auto now = Clock::now();
    parts_.loader->AddTraceEvent("wait", "device consumer", begin, now, report_.batches);
    if (end) return nullptr;
    const double seconds = std::chrono::duration<double>(now - begin).count();
    if (!first_next_) {
      first_next_ = begin;
      first_end_ = now;
      report_.first_batch_seconds = seconds;
    } else {
      report_.consumer_wait_seconds += seconds;
    }
    last_end_ = now;
    if (ready->batch.ok()) {
      ++report_.batches;
      report_.samples += (*ready->batch)->size();
      for (const BatchColumn& column : (*ready->batch)->columns_) report_.bytes += column.values.size();
    }
  }
  if (!ready->batch.ok()) return finished_ = ready->batch.status();
  cursor_ = ready->cursor_after;
  steps_left_ = ready->steps_left_after;
  return std::shared_ptr<const Batch>(*std::move(ready->batch));
}

bool UploadingLoader::WaitFor(Clock::duration timeout) {
  if (!finished_.ok()) return true;
  if (!waits_since_) waits_since_ = Clock::now();
  Lock lock(mutex_);
  consumer_waiting_ = true;
  changed_.notify_all();
  const bool ready = changed_.wait_for(lock, timeout, [&] { return AnythingToDeliver(); });
  consumer_waiting_ = false;
  return ready;
}

// True when there is room for another batch, false when the loader is being stopped.
bool UploadingLoader::WaitForConsumer(Lock& lock) {
  const auto has_room = [&] { return stopped_.cancelled() || ready_.size() < static_cast<size_t>(parts_.depth); };
  if (!has_room()) {
    const auto begin = upload_counter_.BeginWait(Wait::kBlocked);
    changed_.wait(lock, has_room);
    upload_counter_.EndWait(Wait::kBlocked, begin);
  }
  return !stopped_.cancelled();
}

void UploadingLoader::Fail(const absl::Status& failure) {
  Lock lock(mutex_);
  failure_.Update(failure);
  changed_.notify_all();
}

void UploadingLoader::RunUploads() {
  try {
    UploadAll();
  } catch (...) {
    Fail(StatusOfException("loader: uploading"));
  }
}

void UploadingLoader::UploadAll() {
  Lock lock(mutex_);
  while (WaitForConsumer(lock)) {
    const auto waiting = upload_counter_.BeginWait(Wait::kStarved);
    lock.unlock();
    auto batch = parts_.loader->Next();
    lock.lock();
    upload_counter_.EndWait(Wait::kStarved, waiting);
    lock.unlock();
    Ready ready{std::shared_ptr<UploadedBatch>(), parts_.loader->cursor(), parts_.loader->steps_left()};
    const bool last = !batch.ok() || *batch == nullptr;
    if (!batch.ok()) {
      ready.batch = batch.status();
    } else if (*batch != nullptr) {
      parts_.backend->PushRange("upload");
      ready.batch = Guarded("loader: uploading", [&] { return Upload(*std::move(batch)); });
      parts_.backend->PopRange();
    }
    const bool failed = !ready.batch.ok();
    lock.lock();
    try {
      ready_.push_back(std::move(ready));
    } catch (...) {
      // The batch gives its memory back when it goes, and that takes the lock.
      lock.unlock();
      throw;
    }
    changed_.notify_all();
    if (last || failed) return;
  }
}

// Waits until the consumer gives device memory back. When the consumer waits for this very batch, the batch gets memory
// beyond the limit.
absl::Status UploadingLoader::WaitForDeviceMemory(uint64_t bytes) {
  Lock lock(mutex_);
  const auto go_on = [&] {
    return stopped_.cancelled() || memory_->HasRoom(bytes) || (consumer_waiting_ && ready_.empty());
  };
  if (!go_on()) {
    const auto begin = upload_counter_.BeginWait(Wait::kBlocked);
    changed_.wait(lock, go_on);
    upload_counter_.EndWait(Wait::kBlocked, begin);
    report_.memory_wait_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return stopped_.Check("waiting for device memory");
}

void UploadingLoader::CountCopy(uint64_t number, const absl::Status& outcome, double seconds) {
  if (!outcome.ok()) return;
  const auto end = Clock::now();
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  parts_.loader->AddTraceEvent("copy", parts_.backend->info().name + " copy", end - length, end, number);
}

void UploadingLoader::CountKernels(BatchOutcome& outcome, uint64_t number, const absl::Status& status, double seconds) {
  outcome.End(status);
  if (!status.ok()) return Fail(outcome.Named(status));
  const auto end = Clock::now();
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  parts_.loader->AddTraceEvent("kernels", parts_.backend->info().name + " kernels", end - length, end, number);
  Lock lock(mutex_);
  report_.kernel_seconds += seconds;
}

LoaderReport UploadingLoader::Report() const {
  LoaderReport report = parts_.loader->Report();
  const gpu::UploaderReport uploads = uploader_->Report();
  const uint64_t device_memory = memory_->held(), peak_device_memory = memory_->peak();
  Lock lock(mutex_);
  report.upload = upload_counter_.times(1);
  report.memory_wait_seconds = report_.memory_wait_seconds;
  report.kernel_seconds = report_.kernel_seconds;
  report.batches = report_.batches;
  report.samples = report_.samples;
  report.bytes = report_.bytes;
  report.first_batch_seconds = report_.first_batch_seconds;
  report.consumer_wait_seconds = report_.consumer_wait_seconds;
  report.seconds = report.step_seconds = 0;
  if (first_next_) {
    report.seconds = std::chrono::duration<double>(Clock::now() - *first_next_).count();
    report.step_seconds = std::chrono::duration<double>(*last_end_ - *first_end_).count();
  }
  report.uploaded_bytes = uploads.bytes;
  report.staged_bytes = uploads.staged_bytes;
  report.copy_seconds = uploads.copy_seconds;
  report.pinned_memory += parts_.staging->used() + parts_.staging->kept();
  report.peak_pinned_memory += parts_.staging->peak();
  report.device_memory = device_memory;
  report.peak_device_memory = peak_device_memory;
  return report;
}

}  // namespace shardkit::loader
