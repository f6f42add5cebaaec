// A loader whose batches lie on a device: a thread takes batches from a loader and queues their copies and kernels.
//
//   loader -> copies (the uploader's stream) -> kernels (a stream of their own) -> queue -> Next
//
// The host waits for the device only in separate threads (CompletionQueue), which then do what follows.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "gpu/device_memory.h"
#include "gpu/event_pool.h"
#include "gpu/pinned_pool.h"
#include "gpu/staging_ring.h"
#include "gpu/uploader.h"
#include "loader/device/column_conversion.h"
#include "loader/trace.h"
#include "shardkit/job.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// A column's parts on the host, which outlive the loader's batch.
struct UploadedColumn {
  std::string name;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> item_offsets;
  std::vector<uint64_t> shapes;
  std::vector<uint8_t> present;
  std::vector<Geometry> geometries;
};

// How the device's work for a batch has ended. Outlives the batch, because code that waits for the work must not keep
// the batch's memory or the streams of its consumer.
class BatchOutcome {
 public:
  // Names the batch in errors, such as "cuda:0: batch of epoch 0, step 3".
  explicit BatchOutcome(std::string name) : name_(std::move(name)) {}

  absl::Status Named(const absl::Status& status) const { return Annotate(status, name_); }
  void End(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    status_ = Named(status);
  }
  std::optional<absl::Status> status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  const std::string name_;
  mutable std::mutex mutex_;
  std::optional<absl::Status> status_;
};

class UploadedBatch : public Batch {
 public:
  UploadedBatch(std::shared_ptr<gpu::Backend> backend, std::shared_ptr<gpu::EventPool> events, std::string name)
      : backend_(std::move(backend)),
        events_(std::move(events)),
        outcome_(std::make_shared<BatchOutcome>(std::move(name))) {}

  ~UploadedBatch() override {
    if (block_ == nullptr) return;
    if (ready_ != nullptr) block_->UsedUntil(ready_);
    for (const DeviceStream stream : streams_) {
      auto used = Guarded("device: marking a batch's end", [&] { return events_->Record(stream); });
      if (used.ok()) {
        block_->UsedUntil(*std::move(used));
      } else {
        (void)backend_->SynchronizeStream(stream);
      }
    }
  }

  uint64_t epoch() const override { return epoch_; }
  uint64_t step() const override { return step_; }
  size_t size() const override { return samples_.size(); }
  std::span<const BatchSample> samples() const override { return samples_; }
  std::string_view key(size_t i) const override {
    if (key_ends_.empty()) return {};
    const size_t begin = i == 0 ? 0 : key_ends_[i - 1];
    return std::string_view(keys_).substr(begin, key_ends_[i] - begin);
  }
  std::span<const BadSample> skipped() const override { return skipped_; }
  size_t column_count() const override { return columns_.size(); }
  const BatchColumn& column(size_t i) const override { return columns_[i]; }
  const DeviceInfo& device() const override { return backend_->info(); }
  uint64_t memory() const override { return block_ != nullptr ? block_->size() : 0; }

  absl::Status WaitOn(DeviceStream stream) const override {
    {
      std::lock_guard lock(mutex_);
      streams_.insert(stream);
    }
    return backend_->Wait(stream, ready_.get());
  }

  absl::Status Synchronize() const override {
    if (const auto known = outcome()) return *known;
    return outcome_->Named(backend_->Synchronize(ready_.get()));
  }

  std::optional<absl::Status> outcome() const override { return outcome_->status(); }

  uint64_t epoch_ = 0;
  uint64_t step_ = 0;
  std::vector<BatchSample> samples_;
  std::string keys_;
  std::vector<size_t> key_ends_;
  std::vector<BadSample> skipped_;
  std::vector<UploadedColumn> host_columns_;
  std::vector<BatchColumn> columns_;
  std::shared_ptr<gpu::DeviceBlock> block_;
  gpu::EventPool::Handle ready_;

  const std::shared_ptr<gpu::Backend> backend_;
  const std::shared_ptr<gpu::EventPool> events_;
  const std::shared_ptr<BatchOutcome> outcome_;

 private:
  mutable std::mutex mutex_;
  mutable std::set<DeviceStream> streams_;
};

// Pieces of memory one after the other, each aligned for a device.
class Layout {
 public:
  // Where the piece begins.
  uint64_t Add(uint64_t bytes) {
    const uint64_t begin = (size_ + kAlignment - 1) / kAlignment * kAlignment;
    size_ = begin + bytes;
    return begin;
  }
  uint64_t size() const { return size_; }

 private:
  static constexpr uint64_t kAlignment = 256;
  uint64_t size_ = 0;
};

// What an UploadingLoader is made of.
struct DeviceParts {
  std::shared_ptr<gpu::Backend> backend;
  std::shared_ptr<gpu::PinnedPool> pinned;                     // of batches
  std::shared_ptr<gpu::PinnedPool> staging;                    // of the ring
  std::vector<std::unique_ptr<ColumnConversion>> conversions;  // by column; the last columns may have none
  std::unique_ptr<Loader> loader;
  uint64_t device_bytes = 0;
  int depth = 2;
};

class UploadingLoader : public Loader {
 public:
  // Opens the loader that the batches come from, which decodes to `pinned`.
  using OpenFunction = std::function<absl::StatusOr<std::unique_ptr<Loader>>(const LoaderOptions& options,
                                                                             std::shared_ptr<gpu::PinnedPool> pinned)>;

  static absl::StatusOr<std::unique_ptr<Loader>> Open(std::shared_ptr<gpu::Backend> backend,
                                                      const LoaderOptions& options, const OpenFunction& open);

  explicit UploadingLoader(DeviceParts parts);
  ~UploadingLoader() override;

  absl::Status Start();

  absl::StatusOr<std::shared_ptr<const Batch>> Next() override;
  bool WaitFor(Clock::duration timeout) override;
  void Cancel() override;
  Cursor cursor() const override { return cursor_; }
  const Plan& plan() const override { return parts_.loader->plan(); }
  uint64_t steps_left() const override { return steps_left_; }
  LoaderReport Report() const override;
  std::string Trace() const override { return parts_.loader->Trace(); }
  void AddTraceEvent(const char* name, std::string_view lane, Clock::time_point begin, Clock::time_point end,
                     uint64_t number) override {
    parts_.loader->AddTraceEvent(name, lane, begin, end, number);
  }
  std::string fallback_reason() const override { return parts_.loader->fallback_reason(); }

 private:
  using Lock = std::unique_lock<std::mutex>;

  // A batch queued to the device, or why there is none; null at the end.
  struct Ready {
    absl::StatusOr<std::shared_ptr<UploadedBatch>> batch;
    Cursor cursor_after;
    uint64_t steps_left_after = 0;
  };

  void RunUploads();
  void UploadAll();
  void Fail(const absl::Status& failure);
  bool WaitForConsumer(Lock& lock);
  bool AnythingToDeliver() const { return stopped_.cancelled() || !failure_.ok() || !ready_.empty(); }
  absl::StatusOr<std::shared_ptr<UploadedBatch>> Upload(std::shared_ptr<const Batch> batch);
  absl::Status WaitForDeviceMemory(uint64_t bytes);
  // Null where values stay as the loader delivers them.
  const ColumnConversion* Conversion(size_t column) const {
    return column < parts_.conversions.size() ? parts_.conversions[column].get() : nullptr;
  }

  // The parts of an upload (device_upload.cc).
  struct Plans;
  absl::StatusOr<Plans> Prepare(const Batch& batch, UploadedBatch* loaded) const;
  absl::Status Queue(const std::shared_ptr<const Batch>& batch, const Plans& plans, gpu::DeviceBlock& work,
                     UploadedBatch* loaded);

  void CountCopy(uint64_t number, const absl::Status& outcome, double seconds);
  void CountKernels(BatchOutcome& outcome, uint64_t number, const absl::Status& status, double seconds);

  DeviceParts parts_;
  Cancellation stopped_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ready> ready_;
  bool consumer_waiting_ = false;
  absl::Status failure_;  // the first that the device has reported
  LoaderReport report_;   // the consumer's figures, and the kernels' time
  std::optional<Clock::time_point> first_next_, first_end_, last_end_;
  StageCounter upload_counter_;

  // Used by the consumer's thread only.
  Cursor cursor_;
  uint64_t steps_left_ = 0;
  absl::Status finished_;
  std::optional<Clock::time_point> waits_since_;  // the consumer, in WaitFor()

  uint64_t next_number_ = 0;  // used by the upload thread only

  std::shared_ptr<gpu::EventPool> events_;
  std::shared_ptr<gpu::DeviceMemory> memory_;
  DeviceStream kernel_stream_ = nullptr;
  std::unique_ptr<gpu::Uploader> uploader_;
  std::unique_ptr<gpu::CompletionQueue> kernels_done_;
  std::thread thread_;
};

// As Loader::Open, with this device in place of LoaderOptions::device.
absl::StatusOr<std::unique_ptr<Loader>> OpenOnDevice(std::shared_ptr<gpu::Backend> backend,
                                                     ReadableFileSystem& file_system,
                                                     const std::vector<LoaderDataset>& datasets,
                                                     const LoaderOptions& options);

}  // namespace shardkit::loader
