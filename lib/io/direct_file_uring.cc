// The io_uring engine: a pool of rings, one per thread that reads.
#include <liburing.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "base/exceptions.h"
#include "base/strings.h"
#include "io/direct_file.h"
#include "io/posix_error.h"

namespace shardkit::io {
namespace {

constexpr unsigned kRingEntries = 128;                // most pieces in flight in one call
constexpr size_t kPieceLength = size_t{1} << 20;      // large enough for any device to stream at full speed
constexpr size_t kPiecesPerRead = 8;                  // when this many are in flight
constexpr unsigned kGroup = 4;                        // short pieces submitted to the kernel together
constexpr size_t kIdleRings = 16;                     // most rings kept for later calls
constexpr size_t kBounceBytesKept = size_t{4} << 20;  // most bytes kept by one idle ring

// Used only by the thread that made it. Read returns only after everything submitted has completed.
class Ring {
 public:
  // nullptr, with *error_number set, when the kernel refuses.
  static std::unique_ptr<Ring> Create(int* error_number) {
    std::unique_ptr<Ring> ring(new Ring);
    int result = -EINVAL;
    // Uses the best mode of this kernel: completions are handled when this thread waits for them, in batches and
    // without interrupts (Linux 6.1), or at least without interrupts (5.19).
#ifdef IORING_SETUP_DEFER_TASKRUN
    result = io_uring_queue_init(kRingEntries, &ring->ring_, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
#endif
#ifdef IORING_SETUP_COOP_TASKRUN
    if (result == -EINVAL) {
      result = io_uring_queue_init(kRingEntries, &ring->ring_, IORING_SETUP_COOP_TASKRUN);
    }
#endif
    if (result == -EINVAL) result = io_uring_queue_init(kRingEntries, &ring->ring_, 0);
    if (result < 0) {
      *error_number = -result;
      return nullptr;
    }
    ring->initialised_ = true;
    return ring;
  }

  ~Ring() {
    if (initialised_) io_uring_queue_exit(&ring_);
  }

  // The kernel batches better for a single issuer. After fork() this also keeps parent and child from using the same
  // shared memory.
  bool OwnedByThisThread() const { return thread_ == gettid(); }

  // False after the kernel has refused requests for an unexpected reason.
  bool usable() const { return usable_; }

  absl::Status Read(const DirectDescriptor& file, std::span<const ReadRequest> requests, size_t depth) {
    PieceSource source(requests, kPieceLength);
    const size_t slot_limit = std::min<size_t>(std::max(depth, kPiecesPerRead), kRingEntries);
    std::vector<size_t> pieces_in_flight(requests.size());
    size_t requests_in_flight = 0;
    size_t in_flight = 0;  // slots in use, submitted or not
    absl::Status first_error;
    const auto end_slot = [&](Slot& slot, int64_t result) {
      // Must not throw, not even for a message's memory: the kernel is writing into the caller's buffers.
      first_error.Update(Guarded("reading", [&] { return file.Finish(slot.piece, slot.memory, result); }));
      slot.busy = false;
      --in_flight;
      if (--pieces_in_flight[slot.piece.request] == 0) --requests_in_flight;
    };
    while (true) {
      // After an error nothing new is started, but the loop continues until the kernel no longer uses the buffers.
      while (in_flight < slot_limit && !source.done() && first_error.ok() && usable_) {
        size_t& pieces = pieces_in_flight[source.next_request()];
        if (pieces == 0 && requests_in_flight == depth) break;
        if (!Queue(file, source.Next(), FreeSlot())) {
          first_error = Guarded("reading", [&] { return PosixError(file.path(), "read", ENOMEM); });
          break;
        }
        if (pieces++ == 0) ++requests_in_flight;
        ++in_flight;
        // Submit repeats and handles a failure of this call.
        if (GroupIsFull()) (void)io_uring_submit(&ring_);
      }
      if (in_flight == 0) break;
      if (usable_) Submit(in_flight);
      if (!usable_ && in_flight == io_uring_sq_ready(&ring_)) {
        // The kernel has none of the requests, and will not get them.
        for (Slot& slot : slots_) {
          if (slot.busy) end_slot(slot, 0);
        }
        break;
      }
      if (!usable_) WaitAlone();
      io_uring_cqe* completion;
      while (io_uring_peek_cqe(&ring_, &completion) == 0) {
        Slot& slot = *static_cast<Slot*>(io_uring_cqe_get_data(completion));
        const int result = completion->res;
        io_uring_cqe_seen(&ring_, completion);
        end_slot(slot, result);
      }
    }
    if (first_error.ok() && !source.done()) first_error = file.ReadOneByOne(source);
    TrimBounceBuffers();
    return first_error;
  }

 private:
  struct Slot {
    DirectPiece piece;
    char* memory = nullptr;
    AlignedBuffer bounce;
    bool busy = false;
  };

  Ring() : thread_(gettid()) {}

  // REQUIRES: fewer than kRingEntries slots are busy.
  Slot& FreeSlot() {
    while (slots_[next_slot_].busy) next_slot_ = (next_slot_ + 1) % kRingEntries;
    return slots_[next_slot_];
  }

  // False when there is no memory. Must not throw: the kernel is writing into the caller's buffers.
  bool Queue(const DirectDescriptor& file, const DirectPiece& piece, Slot& slot) {
    slot.piece = piece;
    slot.memory = piece.target != nullptr ? piece.target : slot.bounce.Reserve(piece.length);
    if (slot.memory == nullptr) return false;
    slot.busy = true;
    last_length_ = piece.length;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);  // never null: there are as many entries as slots
    io_uring_prep_read(entry, file.descriptor(), slot.memory, static_cast<unsigned>(piece.length), piece.offset);
    io_uring_sqe_set_data(entry, &slot);
    return true;
  }

  // The device starts only what has been submitted. If all 32 reads of a batch are submitted at once, the device idles
  // while they are prepared. On a virtual disk this costs a fifth of the reads per second.
  bool GroupIsFull() const { return io_uring_sq_ready(&ring_) >= kGroup || last_length_ > kBounceLength; }

  // Submits the queued requests and waits for at least one completion.
  void Submit(size_t in_flight) {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    if (result >= 0 || result == -EINTR) return;
    // The kernel lacks a resource that pending completions will free.
    const bool will_pass = result == -EAGAIN || result == -EBUSY;
    if (!will_pass || in_flight == io_uring_sq_ready(&ring_)) usable_ = false;
  }

  // Waits without submitting anything.
  void WaitAlone() {
    io_uring_cqe* completion;
    if (io_uring_wait_cqe(&ring_, &completion) < 0) sched_yield();
  }

  void TrimBounceBuffers() {
    size_t kept = 0;
    for (Slot& slot : slots_) {
      kept += slot.bounce.capacity();
      if (kept <= kBounceBytesKept) continue;
      kept -= slot.bounce.capacity();
      slot.bounce.Release();
    }
  }

  const pid_t thread_;
  io_uring ring_ = {};
  bool initialised_ = false;
  bool usable_ = true;
  std::array<Slot, kRingEntries> slots_;
  size_t next_slot_ = 0;
  size_t last_length_ = 0;  // of the last queued piece
};

class UringEngine final : public DirectEngine {
 public:
  // Starts with the ring that has shown that the kernel allows io_uring.
  explicit UringEngine(std::unique_ptr<Ring> first) { idle_.push_back(std::move(first)); }

  absl::Status Read(const DirectDescriptor& file, std::span<const ReadRequest> requests, int depth) override {
    std::unique_ptr<Ring> ring = Take();
    // No ring because descriptors or locked memory have run out for now. Plain reads are slower but work.
    if (ring == nullptr) return file.ReadOneByOne(PieceSource(requests, kPieceLength));
    absl::Status status = ring->Read(file, requests, static_cast<size_t>(std::max(depth, 1)));
    GiveBack(std::move(ring));
    return status;
  }

 private:
  std::unique_ptr<Ring> Take() {
    {
      std::lock_guard lock(mutex_);
      const auto own = std::find_if(idle_.begin(), idle_.end(),
                                    [](const std::unique_ptr<Ring>& ring) { return ring->OwnedByThisThread(); });
      if (own != idle_.end()) {
        std::unique_ptr<Ring> ring = std::move(*own);
        idle_.erase(own);
        return ring;
      }
    }
    int error_number = 0;
    return Ring::Create(&error_number);
  }

  void GiveBack(std::unique_ptr<Ring> ring) {
    if (!ring->usable()) return;
    std::unique_ptr<Ring> oldest;  // perhaps of a thread that has ended; destroyed without the lock
    std::lock_guard lock(mutex_);
    if (idle_.size() == kIdleRings) {
      oldest = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
    idle_.push_back(std::move(ring));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> idle_;
};

}  // namespace

std::shared_ptr<DirectEngine> AcquireDirectEngine(std::string* reason) {
  // One pool for all files, because each ring takes a descriptor and there may be thousands of shards. Only these two
  // small objects outlive the last open file.
  static std::mutex& mutex = *new std::mutex;
  static std::weak_ptr<DirectEngine>& shared = *new std::weak_ptr<DirectEngine>;
  std::lock_guard lock(mutex);
  std::shared_ptr<DirectEngine> engine = shared.lock();
  if (engine == nullptr) {
    int error_number = 0;
    std::unique_ptr<Ring> ring = Ring::Create(&error_number);
    if (ring == nullptr) {
      *reason =
          StrCat("io_uring refused by the kernel (", ErrorText(error_number), "): O_DIRECT with one read in flight");
      return nullptr;
    }
    engine = std::make_shared<UringEngine>(std::move(ring));
    shared = engine;
  }
  return engine;
}

}  // namespace shardkit::io
