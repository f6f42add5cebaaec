// The batches of an UploadingLoader.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/exceptions.h"
#include "gpu/device_memory.h"
#include "gpu/event_pool.h"
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

}  // namespace shardkit::loader
