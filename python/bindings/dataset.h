// A dataset and what reading it from many threads of Python takes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "job.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::bindings {

// Ordinals that ascend.
struct ChosenSamples {
  std::shared_ptr<const std::vector<uint64_t>> ordinals;
  uint64_t of = 0;  // samples of the dataset
};

// Thread-safe. Its blocks and scanners share its ownership.
class Dataset {
 public:
  explicit Dataset(std::unique_ptr<DatasetReader> reader) : reader_(std::move(reader)) {}

  const DatasetReader& reader() const { return *reader_; }

  // The result of a function that reads, without the GIL. Only of a URL it is worth a thread, which Ctrl-C ends.
  template <typename Function>
  auto Read(const Function& function,
            const std::shared_ptr<Cancellation>& cancellation = std::make_shared<Cancellation>()) const {
    return remote_ ? Interruptibly(function, cancellation) : WithoutGil(function);
  }

  // A buffer for one call; goes back when it is destroyed, so that a thread that reads on finds its block again.
  class BorrowedBuffer {
   public:
    explicit BorrowedBuffer(const Dataset& from, std::unique_ptr<BlockBuffer> buffer)
        : from_(from), buffer_(std::move(buffer)) {}
    ~BorrowedBuffer() {
      const std::lock_guard lock(from_.mutex_);
      from_.buffers_.push_back(std::move(buffer_));
    }
    BorrowedBuffer(const BorrowedBuffer&) = delete;
    BorrowedBuffer& operator=(const BorrowedBuffer&) = delete;
    BlockBuffer* get() const { return buffer_.get(); }

   private:
    const Dataset& from_;
    std::unique_ptr<BlockBuffer> buffer_;
  };

  BorrowedBuffer Borrow() const {
    const std::lock_guard lock(mutex_);
    if (buffers_.empty()) return BorrowedBuffer(*this, std::make_unique<BlockBuffer>());
    auto buffer = std::move(buffers_.back());
    buffers_.pop_back();
    return BorrowedBuffer(*this, std::move(buffer));
  }

 private:
  const std::unique_ptr<DatasetReader> reader_;
  const bool remote_ = IsUrl(reader_->path());
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<BlockBuffer>> buffers_;
};

}  // namespace shardkit::bindings
