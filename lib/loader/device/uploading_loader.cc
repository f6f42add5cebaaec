#include "loader/device/uploading_loader.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "loader/columns/sample_geometry.h"

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
  if (column->channels == 4 && (output.planar || options.device_geometry)) {
    return InvalidArgument("loader: column \"", column->name,
                           "\": a device neither converts nor resizes RGBA: leave it as u8 of layout hwc, without ",
                           "device_geometry, or take 3 channels");
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

namespace {

// Uploads one batch to the device.

template <typename T>
std::vector<T> CopyOf(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace

// Where the parts of a batch are put, in two blocks: one for the consumer, and one for work, which is reused when the
// kernels are done. The small arrays of each block are together at its beginning, so that they are one copy.
struct UploadingLoader::Plans {
  struct Place {
    DeviceLayout conversion;
    uint64_t bytes = 0;   // of values
    uint64_t values = 0;  // this to `present`: in the consumer's block
    uint64_t offsets = 0;
    uint64_t item_offsets = 0;
    uint64_t shapes = 0;
    uint64_t present = 0;
    uint64_t input = 0;  // this to `scratch`: in the block for work, for converted columns
    uint64_t metadata = 0;
    uint64_t scratch = 0;
  };

  std::vector<Place> places;      // by column
  std::vector<uint8_t> arrays;    // the first bytes of the consumer's block
  std::vector<uint8_t> metadata;  // the first bytes of the block for work
  uint64_t bytes = 0;
  uint64_t work_bytes = 0;
};

absl::StatusOr<UploadingLoader::Plans> UploadingLoader::Prepare(const Batch& batch, UploadedBatch* loaded) const {
  Plans plans;
  plans.places.resize(batch.column_count());
  loaded->host_columns_.resize(batch.column_count());
  loaded->columns_.resize(batch.column_count());
  Layout out, work;
  const auto add = [](Layout* layout, std::vector<uint8_t>* bytes, const auto& array) {
    const size_t length = array.size() * sizeof(array[0]);
    const uint64_t begin = layout->Add(length);
    bytes->resize(layout->size());
    if (length != 0) std::memcpy(bytes->data() + begin, array.data(), length);
    return begin;
  };
  for (size_t c = 0; c < batch.column_count(); ++c) {
    const BatchColumn& from = batch.column(c);
    UploadedColumn& host = loaded->host_columns_[c];
    BatchColumn& to = loaded->columns_[c];
    host.name = from.name;
    host.present = CopyOf(from.present);
    // Of masks they are done with when the kernels are.
    if (from.layout != BatchLayout::kMaskRuns) host.geometries = CopyOf(from.geometries);
    if (const ColumnConversion* const conversion = Conversion(c)) {
      SHARDKIT_ASSIGN_OR_RETURN(DeviceLayout plan, conversion->Prepare(from));
      plans.places[c].metadata = add(&work, &plans.metadata, plan.metadata);
      host.offsets = std::move(plan.offsets);
      host.item_offsets = std::move(plan.item_offsets);
      host.shapes = std::move(plan.shapes);
      to.layout = plan.layout;
      to.dtype = plan.dtype;
      to.shape = std::move(plan.shape);
      to.shape_rank = plan.shape_rank;
      plans.places[c].bytes = plan.output_bytes;
      plans.places[c].conversion = std::move(plan);
    } else {
      host.offsets = CopyOf(from.offsets);
      host.item_offsets = CopyOf(from.item_offsets);
      host.shapes = CopyOf(from.shapes);
      to.layout = from.layout;
      to.dtype = from.dtype;
      to.shape = from.shape;
      to.shape_rank = from.shape_rank;
      plans.places[c].bytes = from.values.size();
    }
    to.name = host.name;
    to.stored = from.stored;
    to.offsets = host.offsets;
    to.item_offsets = host.item_offsets;
    to.shapes = host.shapes;
    to.present = host.present;
    to.geometries = host.geometries;
    plans.places[c].offsets = add(&out, &plans.arrays, host.offsets);
    plans.places[c].item_offsets = add(&out, &plans.arrays, host.item_offsets);
    plans.places[c].shapes = add(&out, &plans.arrays, host.shapes);
    plans.places[c].present = add(&out, &plans.arrays, host.present);
  }
  for (size_t c = 0; c < batch.column_count(); ++c) {
    plans.places[c].values = out.Add(plans.places[c].bytes);
    if (Conversion(c) == nullptr) continue;
    plans.places[c].input = work.Add(batch.column(c).values.size());
    plans.places[c].scratch = work.Add(plans.places[c].conversion.scratch_bytes);
  }
  plans.bytes = out.size();
  plans.work_bytes = work.size();
  return plans;
}

namespace {

template <typename T>
const T* Address(const gpu::DeviceBlock& block, uint64_t place, std::span<const T> array) {
  return array.empty() ? nullptr : reinterpret_cast<const T*>(block.data() + place);
}

}  // namespace

// Queues copies and kernels. On an error some of them may be under way.
absl::Status UploadingLoader::Queue(const std::shared_ptr<const Batch>& batch, const Plans& plans,
                                    gpu::DeviceBlock& work, UploadedBatch* loaded) {
  gpu::Backend& backend = *parts_.backend;
  const gpu::DeviceBlock& out = *loaded->block_;
  std::vector<gpu::UploadPiece> pieces;
  pieces.push_back({out.data(), plans.arrays.data(), plans.arrays.size(), false});
  pieces.push_back({work.data(), plans.metadata.data(), plans.metadata.size(), false});
  for (size_t c = 0; c < batch->column_count(); ++c) {
    const std::span<const uint8_t> values = batch->column(c).values;
    const Plans::Place& place = plans.places[c];
    BatchColumn& column = loaded->columns_[c];
    if (place.bytes != 0) column.values = {out.data() + place.values, place.bytes};
    column.on_device = {Address(out, place.offsets, column.offsets),
                        Address(out, place.item_offsets, column.item_offsets),
                        Address(out, place.shapes, column.shapes), Address(out, place.present, column.present)};
    pieces.push_back({Conversion(c) != nullptr ? work.data() + place.input : out.data() + place.values, values.data(),
                      values.size(), parts_.pinned->Contains(values.data(), values.size())});
  }
  const uint64_t number = next_number_++;
  SHARDKIT_ASSIGN_OR_RETURN(
      const std::shared_ptr<const gpu::Transfer> transfer,
      uploader_->Upload(pieces, batch, &stopped_, [this, number](const absl::Status& outcome, double seconds) {
        CountCopy(number, outcome, seconds);
      }));
  SHARDKIT_RETURN_IF_ERROR(transfer->WaitOn(kernel_stream_));
  SHARDKIT_ASSIGN_OR_RETURN(gpu::EventPool::Handle begin, events_->Record(kernel_stream_));
  backend.PushRange("kernels");
  absl::Status status;
  for (size_t c = 0; c < batch->column_count() && status.ok(); ++c) {
    if (Conversion(c) == nullptr) continue;
    const Plans::Place& place = plans.places[c];
    status =
        Conversion(c)->Launch(backend, kernel_stream_, batch->column(c), place.conversion, work.data() + place.input,
                              work.data() + place.metadata, work.data() + place.scratch, out.data() + place.values);
  }
  backend.PopRange();
  SHARDKIT_RETURN_IF_ERROR(status);
  SHARDKIT_ASSIGN_OR_RETURN(loaded->ready_, events_->Record(kernel_stream_));
  kernels_done_->Add(loaded->ready_, [this, begin = std::move(begin), end = loaded->ready_, outcome = loaded->outcome_,
                                      number](const absl::Status& ended) {
    const auto elapsed =
        ended.ok() ? parts_.backend->ElapsedSeconds(begin.get(), end.get()) : absl::StatusOr<double>(0.0);
    CountKernels(*outcome, number, ended, elapsed.value_or(0));
  });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<UploadedBatch>> UploadingLoader::Upload(std::shared_ptr<const Batch> batch) {
  auto loaded = std::make_shared<UploadedBatch>(
      parts_.backend, events_,
      StrCat(parts_.backend->info().name, ": batch of epoch ", batch->epoch(), ", step ", batch->step()));
  loaded->epoch_ = batch->epoch();
  loaded->step_ = batch->step();
  loaded->samples_ = CopyOf(batch->samples());
  loaded->skipped_ = CopyOf(batch->skipped());
  for (size_t i = 0; i < batch->size(); ++i) {
    loaded->keys_ += batch->key(i);
    loaded->key_ends_.push_back(loaded->keys_.size());
  }
  absl::StatusOr<Plans> plans = Prepare(*batch, loaded.get());
  if (!plans.ok()) return loaded->outcome_->Named(plans.status());
  SHARDKIT_RETURN_IF_ERROR(WaitForDeviceMemory(plans->bytes + plans->work_bytes));
  auto out = memory_->Take(std::max<uint64_t>(plans->bytes, 1), uploader_->stream());
  if (!out.ok()) return loaded->outcome_->Named(out.status());
  loaded->block_ = *std::move(out);
  auto work = memory_->Take(std::max<uint64_t>(plans->work_bytes, 1), uploader_->stream());
  if (!work.ok()) return loaded->outcome_->Named(work.status());
  const auto begin = Clock::now();
  absl::Status status =
      Guarded("queueing copies and kernels", [&] { return Queue(batch, *plans, **work, loaded.get()); });
  upload_counter_.AddBusy(Clock::now() - begin);
  if (!status.ok()) {
    // Queued work uses the blocks, and later nobody would wait for it.
    (void)parts_.backend->SynchronizeStream(uploader_->stream());
    (void)parts_.backend->SynchronizeStream(kernel_stream_);
    return absl::IsCancelled(status) ? status : loaded->outcome_->Named(status);
  }
  (*work)->UsedUntil(loaded->ready_);
  return loaded;
}

}  // namespace shardkit::loader
