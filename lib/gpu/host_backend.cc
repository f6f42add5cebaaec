#include "gpu/host_backend.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "gpu/kernels/kernels.h"

namespace shardkit::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kDeviceAlignment = 256;
constexpr uint64_t kPinnedAlignment = 4096;

absl::StatusOr<void*> AllocateAligned(uint64_t bytes, uint64_t alignment, const char* what) {
  void* memory = nullptr;
  if (bytes > PTRDIFF_MAX - alignment) bytes = PTRDIFF_MAX - alignment;  // refused in the next line
  memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) return ResourceExhausted("host: there are no ", bytes, " bytes of ", what, " memory");
  return memory;
}

// One recording of an event: reached once, by the stream it was recorded in.
class Recording {
 public:
  void Reach(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    status_ = status;
    time_ = Clock::now();
    reached_.notify_all();
  }
  absl::Status WaitUntilReached() {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [&] { return time_.has_value(); });
    return status_;
  }
  std::optional<absl::Status> status() {
    std::lock_guard lock(mutex_);
    return time_ ? std::optional(status_) : std::nullopt;
  }
  std::optional<Clock::time_point> time() {
    std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  absl::Status status_;
  std::optional<Clock::time_point> time_;
};

class HostEvent {
 public:
  std::shared_ptr<Recording> last() {
    std::lock_guard lock(mutex_);
    return last_;
  }
  void set_last(std::shared_ptr<Recording> recording) {
    std::lock_guard lock(mutex_);
    last_ = std::move(recording);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Recording> last_;
};

}  // namespace

struct HostStream {
  struct Work {
    std::function<absl::Status()> run;
    std::shared_ptr<Recording> reach;  // in place of run; reached even when the stream has failed
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  uint64_t added = 0, done = 0;  // pieces of work
  bool closing = false;
  bool ended = false;
  absl::Status failure;
  std::thread thread;

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return closing || !queue.empty(); });
      if (queue.empty()) break;
      Work work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      absl::Status status = failure;
      if (work.reach != nullptr) {
        work.reach->Reach(status);
      } else if (status.ok()) {
        status = Guarded("host: work in a stream", work.run);
      }
      lock.lock();
      failure = std::move(status);
      ++done;
      changed.notify_all();
    }
    ended = true;
  }

  void Add(Work work) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    ++added;
    changed.notify_all();
  }

  // Allocates nothing, because callers need it when there is no memory.
  absl::Status WaitForAll() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&, wanted = added] { return done >= wanted; });
    return failure;
  }
};

namespace {

HostStream* HostStreamOf(Stream stream) { return static_cast<HostStream*>(stream); }
HostEvent* HostEventOf(Event event) { return static_cast<HostEvent*>(event); }

uint64_t MemoryOfMachine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

DeviceInfo HostInfo() {
  DeviceInfo info;
  info.name = "emulated";
  info.description = "host memory";
  info.memory_bytes = MemoryOfMachine();
  return info;
}

}  // namespace

HostBackend::HostBackend() : info_(HostInfo()) {}

HostBackend::~HostBackend() {
  for (const auto& stream : streams_) {
    {
      std::lock_guard lock(stream->mutex);
      stream->closing = true;
      stream->changed.notify_all();
    }
    stream->thread.join();
  }
  for (const auto& stream : ending_) stream->thread.join();
}

absl::StatusOr<void*> HostBackend::AllocateDevice(uint64_t bytes) {
  return AllocateAligned(bytes, kDeviceAlignment, "device");
}
void HostBackend::FreeDevice(void* memory, uint64_t /*bytes*/) { std::free(memory); }
absl::StatusOr<void*> HostBackend::AllocatePinned(uint64_t bytes) {
  return AllocateAligned(bytes, kPinnedAlignment, "pinned");
}
void HostBackend::FreePinned(void* memory, uint64_t /*bytes*/) { std::free(memory); }

absl::StatusOr<Stream> HostBackend::CreateStream() {
  JoinEnded();
  auto stream = std::make_shared<HostStream>();
  try {
    stream->thread = std::thread([stream] { stream->Run(); });
  } catch (const std::system_error&) {
    return ResourceExhausted("host: the system starts no thread for another stream");
  }
  std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  return stream.get();
}

void HostBackend::DestroyStream(Stream stream) {
  if (stream == nullptr) return;
  std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find(streams_, stream, [](const auto& known) { return static_cast<Stream>(known.get()); });
  if (found == streams_.end()) return;
  ending_.push_back(*found);
  streams_.erase(found);
  HostStream& ending = *HostStreamOf(stream);
  std::lock_guard stream_lock(ending.mutex);
  ending.closing = true;
  ending.changed.notify_all();
}

void HostBackend::JoinEnded() {
  std::lock_guard lock(mutex_);
  std::erase_if(ending_, [](const std::shared_ptr<HostStream>& stream) {
    {
      std::lock_guard stream_lock(stream->mutex);
      if (!stream->ended) return false;
    }
    stream->thread.join();
    return true;
  });
}

absl::Status HostBackend::Enqueue(Stream stream, std::function<absl::Status()> work) {
  if (stream == nullptr) return work();
  HostStreamOf(stream)->Add({std::move(work), nullptr});
  return absl::OkStatus();
}

absl::Status HostBackend::SynchronizeStream(Stream stream) {
  if (stream == nullptr) return absl::OkStatus();
  return HostStreamOf(stream)->WaitForAll();
}

absl::StatusOr<Event> HostBackend::CreateEvent(bool /*timing*/) { return static_cast<Event>(new HostEvent()); }
void HostBackend::DestroyEvent(Event event) { delete HostEventOf(event); }

absl::Status HostBackend::Record(Event event, Stream stream) {
  const auto recording = std::make_shared<Recording>();
  if (stream == nullptr) {
    recording->Reach(absl::OkStatus());
  } else {
    HostStreamOf(stream)->Add({nullptr, recording});
  }
  HostEventOf(event)->set_last(recording);
  return absl::OkStatus();
}

absl::Status HostBackend::Wait(Stream stream, Event event) {
  const auto recording = HostEventOf(event)->last();
  if (recording == nullptr) return absl::OkStatus();
  return Enqueue(stream, [recording] { return recording->WaitUntilReached(); });
}

absl::StatusOr<bool> HostBackend::Query(Event event) {
  const auto recording = HostEventOf(event)->last();
  if (recording == nullptr) return true;
  const std::optional<absl::Status> status = recording->status();
  if (!status) return false;
  if (!status->ok()) return *status;
  return true;
}

absl::Status HostBackend::Synchronize(Event event) {
  const auto recording = HostEventOf(event)->last();
  return recording == nullptr ? absl::OkStatus() : recording->WaitUntilReached();
}

absl::StatusOr<double> HostBackend::ElapsedSeconds(Event begin, Event end) {
  const auto first = HostEventOf(begin)->last(), last = HostEventOf(end)->last();
  const auto first_time = first != nullptr ? first->time() : std::nullopt;
  const auto last_time = last != nullptr ? last->time() : std::nullopt;
  if (!first_time || !last_time)
    return FailedPrecondition("host: the time between events of which one has not been reached");
  return std::chrono::duration<double>(*last_time - *first_time).count();
}

absl::Status HostBackend::Copy(void* to, const void* from, uint64_t bytes, CopyKind /*kind*/, Stream stream) {
  return Enqueue(stream, [=] {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  });
}

absl::Status HostBackend::Fill(void* to, uint8_t value, uint64_t bytes, Stream stream) {
  return Enqueue(stream, [=] {
    if (bytes != 0) std::memset(to, value, bytes);
    return absl::OkStatus();
  });
}

absl::Status HostBackend::Launch(const NormalizeImages& arguments, Stream stream) {
  return Enqueue(stream, [arguments] {
    NormalizeOnHost(arguments);
    return absl::OkStatus();
  });
}

absl::Status HostBackend::Launch(const ResampleImages& arguments, Stream stream) {
  return Enqueue(stream, [arguments] {
    ResampleOnHost(arguments);
    return absl::OkStatus();
  });
}

absl::Status HostBackend::Launch(const RasterizeMasks& arguments, Stream stream) {
  return Enqueue(stream, [arguments] {
    RasterizeOnHost(arguments);
    return absl::OkStatus();
  });
}

absl::Status HostBackend::Spin(uint64_t rounds, Stream stream) {
  return Enqueue(stream, [rounds] {
    double value = 0.5;
    for (uint64_t i = 0; i < rounds; ++i) value = std::fma(value, 0.25, 0.5);
    // Uses the result, so that the compiler does not remove the loop.
    if (value > 1) return Internal("host: arithmetic has failed");
    return absl::OkStatus();
  });
}

}  // namespace shardkit::gpu
