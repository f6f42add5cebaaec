#include "gpu/uploader.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"

namespace shardkit::gpu {
namespace {

// Memory that is not page-locked goes through the ring in pieces of this size. One is filled while another is copied.
constexpr uint64_t kStagedPiece = uint64_t{4} << 20;

}  // namespace

absl::Status Transfer::Synchronize() const {
  if (const auto known = outcome()) return *known;
  return events_->backend().Synchronize(end_.get());
}

void Transfer::End(const absl::Status& outcome) {
  {
    std::lock_guard lock(mutex_);
    outcome_ = outcome;
  }
  hold_.reset();
}

Uploader::~Uploader() {
  completions_.reset();
  if (stream_ != nullptr) backend_->DestroyStream(stream_);
}

absl::Status Uploader::Start() {
  SHARDKIT_ASSIGN_OR_RETURN(stream_, backend_->CreateStream());
  SHARDKIT_ASSIGN_OR_RETURN(completions_, CompletionQueue::Create(events_, [this](const absl::Status& failure) {
                              std::lock_guard lock(mutex_);
                              failure_.Update(failure);
                            }));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Transfer>> Uploader::Upload(
    std::span<const UploadPiece> pieces, std::shared_ptr<const void> hold, const Cancellation* cancellation,
    std::function<void(const absl::Status&, double)> done) {
  SHARDKIT_RETURN_IF_ERROR(TakeTurn(cancellation));
  auto transfer = Guarded("uploader: queueing copies",
                          [&] { return Queue(pieces, cancellation, std::move(hold), std::move(done)); });
  if (!transfer.ok()) EndTurn();
  return transfer;
}

void Uploader::Wake() {
  {
    std::lock_guard lock(mutex_);
    room_.notify_all();
  }
  ring_->Wake();
}

UploaderReport Uploader::Report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

absl::Status Uploader::TakeTurn(const Cancellation* cancellation) {
  std::unique_lock lock(mutex_);
  const auto cancelled = [&] { return cancellation != nullptr && cancellation->cancelled(); };
  room_.wait(lock, [&] { return cancelled() || report_.under_way < static_cast<uint64_t>(depth_); });
  SHARDKIT_RETURN_IF_ERROR(failure_);
  if (cancelled()) return cancellation->Check("waiting for an upload to end");
  ++report_.under_way;
  return absl::OkStatus();
}

void Uploader::EndTurn() {
  std::lock_guard lock(mutex_);
  --report_.under_way;
  room_.notify_all();
}

// On an error, queued copies still hold all they need.
absl::StatusOr<std::shared_ptr<const Transfer>> Uploader::Queue(std::span<const UploadPiece> pieces,
                                                                const Cancellation* cancellation,
                                                                std::shared_ptr<const void> hold,
                                                                std::function<void(const absl::Status&, double)> done) {
  SHARDKIT_ASSIGN_OR_RETURN(EventPool::Handle begin, events_->Record(stream_));
  SHARDKIT_ASSIGN_OR_RETURN(const EventPool::Handle end, events_->Take());
  const auto transfer = std::make_shared<Transfer>(events_, end, std::move(hold));
  // When anything throws, waits for the copies queued so far, which read what the transfer holds.
  struct Wait {
    Uploader& uploader;
    bool needed = true;
    ~Wait() {
      if (needed) (void)uploader.backend_->SynchronizeStream(uploader.stream_);
    }
  } wait{*this};
  uint64_t bytes = 0, staged = 0;
  absl::Status status;
  for (const UploadPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    status = piece.pinned ? backend_->Copy(piece.to, piece.from, piece.bytes, CopyKind::kHostToDevice, stream_)
                          : Stage(piece, cancellation);
    if (!status.ok()) break;
    bytes += piece.bytes;
    if (!piece.pinned) staged += piece.bytes;
  }
  const absl::Status recorded = backend_->Record(end.get(), stream_);
  if (status.ok()) status = recorded;
  if (!status.ok()) {
    if (recorded.ok()) {
      completions_->Add(end, [transfer](const absl::Status& outcome) { transfer->End(outcome); });
      wait.needed = false;
    }
    return status;
  }
  completions_->Add(
      end, [this, transfer, begin = std::move(begin), done = std::move(done)](const absl::Status& outcome) {
        struct Turn {  // ends the turn even when `done` throws
          Uploader& uploader;
          ~Turn() { uploader.EndTurn(); }
        } turn{*this};
        const auto elapsed = outcome.ok() ? backend_->ElapsedSeconds(begin.get(), transfer->end().get()) : 0.0;
        const double seconds = elapsed.ok() ? *elapsed : 0;
        transfer->End(outcome);
        if (done) done(outcome, seconds);
        std::lock_guard lock(mutex_);
        report_.copy_seconds += seconds;
      });
  wait.needed = false;
  // Counted here: who waits for a transfer's event may ask for the report before the queue's thread has run.
  std::lock_guard lock(mutex_);
  ++report_.transfers;
  report_.bytes += bytes;
  report_.staged_bytes += staged;
  return transfer;
}

absl::Status Uploader::Stage(const UploadPiece& piece, const Cancellation* cancellation) {
  const uint64_t most = std::max<uint64_t>(std::min(kStagedPiece, ring_->bytes() / 4), 1);
  for (uint64_t offset = 0; offset < piece.bytes; offset += most) {
    const uint64_t bytes = std::min(most, piece.bytes - offset);
    SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<StagingSlot> slot, ring_->Acquire(bytes, cancellation));
    std::memcpy(slot->data(), static_cast<const uint8_t*>(piece.from) + offset, bytes);
    SHARDKIT_ASSIGN_OR_RETURN(const EventPool::Handle copied, events_->Take());
    SHARDKIT_RETURN_IF_ERROR(backend_->Copy(static_cast<uint8_t*>(piece.to) + offset, slot->data(), bytes,
                                            CopyKind::kHostToDevice, stream_));
    const absl::Status status = Guarded("uploader: queueing copies", [&] {
      const absl::Status recorded = backend_->Record(copied.get(), stream_);
      if (recorded.ok()) completions_->Add(copied, [slot](const absl::Status&) {});
      return recorded;
    });
    if (status.ok()) continue;
    (void)backend_->SynchronizeStream(stream_);  // the slot is still being read
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Uploader>> Uploader::Create(std::shared_ptr<Backend> backend,
                                                           std::shared_ptr<StagingRing> ring,
                                                           const UploaderOptions& options) {
  if (options.depth < 2) return InvalidArgument("uploader: a depth of ", options.depth, "; give 2 or more");
  std::unique_ptr<Uploader> uploader(new Uploader(std::move(backend), std::move(ring), options));
  SHARDKIT_RETURN_IF_ERROR(uploader->Start());
  return uploader;
}

absl::StatusOr<std::unique_ptr<CompletionQueue>> CompletionQueue::Create(
    std::shared_ptr<EventPool> events, std::function<void(const absl::Status&)> failed) {
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue(std::move(events), std::move(failed)));
  try {
    queue->thread_ = std::thread([queue = queue.get()] { queue->Run(); });
  } catch (const std::system_error&) {
    return ResourceExhausted("device: the system starts no thread to wait for uploads");
  }
  return queue;
}

CompletionQueue::~CompletionQueue() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void CompletionQueue::Add(EventPool::Handle event, std::function<void(const absl::Status&)> done) {
  std::lock_guard lock(mutex_);
  entries_.push_back({std::move(event), std::move(done)});
  changed_.notify_one();
}

void CompletionQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !entries_.empty(); });
    if (entries_.empty()) return;
    {
      Entry entry = std::move(entries_.front());
      entries_.pop_front();
      lock.unlock();
      const absl::Status outcome =
          Guarded("device: waiting", [&] { return events_->backend().Synchronize(entry.event.get()); });
      try {
        entry.done(outcome);
      } catch (...) {
        failed_(StatusOfException("device: what was to be done after an upload"));
      }
    }
    lock.lock();
  }
}

}  // namespace shardkit::gpu
