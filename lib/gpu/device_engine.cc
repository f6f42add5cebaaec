#include "gpu/device_engine.h"

#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"

namespace shardkit::gpu {

DeviceEngine::DeviceEngine(DeviceParts parts)
    : parts_(std::move(parts)),
      cursor_(parts_.loader->cursor()),
      steps_left_(parts_.loader->steps_left()),
      events_(std::make_shared<EventPool>(parts_.backend)),
      memory_(std::make_shared<DeviceMemory>(parts_.backend,
                                             parts_.device_bytes == 0 ? UINT64_MAX : parts_.device_bytes, [this] {
                                               Lock lock(mutex_);
                                               changed_.notify_all();
                                             })) {}

absl::Status DeviceEngine::Start() {
  SHARDKIT_ASSIGN_OR_RETURN(kernel_stream_, parts_.backend->CreateStream());
  UploaderOptions options;
  options.depth = parts_.depth + 1;  // batches that wait for the consumer, and one under way
  SHARDKIT_ASSIGN_OR_RETURN(uploader_, Uploader::Create(parts_.backend, StagingRing::Create(parts_.staging), options));
  SHARDKIT_ASSIGN_OR_RETURN(kernels_done_,
                            CompletionQueue::Create(events_, [this](const absl::Status& failure) { Fail(failure); }));
  try {
    thread_ = std::thread([this] { RunUploads(); });
  } catch (const std::system_error&) {
    return ResourceExhausted("loader: the system starts no thread for uploads");
  }
  return absl::OkStatus();
}

DeviceEngine::~DeviceEngine() {
  Cancel();
  if (thread_.joinable()) thread_.join();
  ready_.clear();
  kernels_done_.reset();
  uploader_.reset();
  if (kernel_stream_ != nullptr) parts_.backend->DestroyStream(kernel_stream_);
  memory_->Close();
}

void DeviceEngine::Cancel() {
  parts_.loader->Cancel();
  {
    Lock lock(mutex_);
    stopped_.Cancel();
    changed_.notify_all();
  }
  if (uploader_ != nullptr) uploader_->Wake();
}

absl::StatusOr<std::shared_ptr<const DeviceBatch>> DeviceEngine::Next() {
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
    }
  }
  if (!ready->batch.ok()) return finished_ = ready->batch.status();
  cursor_ = ready->cursor_after;
  steps_left_ = ready->steps_left_after;
  return std::shared_ptr<const DeviceBatch>(*std::move(ready->batch));
}

bool DeviceEngine::WaitFor(Clock::duration timeout) {
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
bool DeviceEngine::WaitForConsumer(Lock& lock) {
  const auto has_room = [&] { return stopped_.cancelled() || ready_.size() < static_cast<size_t>(parts_.depth); };
  if (!has_room()) {
    const auto begin = upload_counter_.BeginWait(loader::Wait::kBlocked);
    changed_.wait(lock, has_room);
    upload_counter_.EndWait(loader::Wait::kBlocked, begin);
  }
  return !stopped_.cancelled();
}

void DeviceEngine::Fail(const absl::Status& failure) {
  Lock lock(mutex_);
  failure_.Update(failure);
  changed_.notify_all();
}

void DeviceEngine::RunUploads() {
  try {
    UploadAll();
  } catch (...) {
    Fail(StatusOfException("device loader: uploading"));
  }
}

void DeviceEngine::UploadAll() {
  Lock lock(mutex_);
  while (WaitForConsumer(lock)) {
    const auto waiting = upload_counter_.BeginWait(loader::Wait::kStarved);
    lock.unlock();
    auto batch = parts_.loader->Next();
    lock.lock();
    upload_counter_.EndWait(loader::Wait::kStarved, waiting);
    lock.unlock();
    Ready ready{std::shared_ptr<LoadedBatch>(), parts_.loader->cursor(), parts_.loader->steps_left()};
    const bool last = !batch.ok() || *batch == nullptr;
    if (!batch.ok()) {
      ready.batch = batch.status();
    } else if (*batch != nullptr) {
      parts_.backend->PushRange("upload");
      ready.batch = Guarded("device loader: uploading", [&] { return Upload(*std::move(batch)); });
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
absl::Status DeviceEngine::WaitForDeviceMemory(uint64_t bytes) {
  Lock lock(mutex_);
  const auto go_on = [&] {
    return stopped_.cancelled() || memory_->HasRoom(bytes) || (consumer_waiting_ && ready_.empty());
  };
  if (!go_on()) {
    const auto begin = upload_counter_.BeginWait(loader::Wait::kBlocked);
    changed_.wait(lock, go_on);
    upload_counter_.EndWait(loader::Wait::kBlocked, begin);
    report_.memory_wait_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return stopped_.Check("waiting for device memory");
}

void DeviceEngine::CountCopy(uint64_t number, const absl::Status& outcome, double seconds) {
  if (!outcome.ok()) return;
  const auto end = Clock::now();
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  parts_.loader->AddTraceEvent("copy", parts_.backend->info().name + " copy", end - length, end, number);
}

void DeviceEngine::CountKernels(BatchOutcome& outcome, uint64_t number, const absl::Status& status, double seconds) {
  outcome.End(status);
  if (!status.ok()) return Fail(outcome.Named(status));
  const auto end = Clock::now();
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  parts_.loader->AddTraceEvent("kernels", parts_.backend->info().name + " kernels", end - length, end, number);
  Lock lock(mutex_);
  report_.kernel_seconds += seconds;
}

DeviceReport DeviceEngine::Report() const {
  const LoaderReport loader = parts_.loader->Report();
  const UploaderReport uploads = uploader_->Report();
  const uint64_t device_memory = memory_->held(), peak_device_memory = memory_->peak();
  Lock lock(mutex_);
  DeviceReport report = report_;
  report.loader = loader;
  report.upload = upload_counter_.times(1);
  if (first_next_) {
    report.seconds = std::chrono::duration<double>(Clock::now() - *first_next_).count();
    report.step_seconds = std::chrono::duration<double>(*last_end_ - *first_end_).count();
  }
  report.uploaded_bytes = uploads.bytes;
  report.staged_bytes = uploads.staged_bytes;
  report.copy_seconds = uploads.copy_seconds;
  report.pinned_memory =
      parts_.pinned->used() + parts_.pinned->kept() + parts_.staging->used() + parts_.staging->kept();
  report.peak_pinned_memory = parts_.pinned->peak() + parts_.staging->peak();
  report.device_memory = device_memory;
  report.peak_device_memory = peak_device_memory;
  return report;
}

}  // namespace shardkit::gpu
