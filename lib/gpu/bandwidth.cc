// Measures copies and uploads, how much copies and work overlap, and the cost of masks that are uploaded as run
// lengths.
#include "gpu/bandwidth.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/backend.h"
#include "gpu/host_memory.h"
#include "gpu/kernels/kernels.h"
#include "gpu/pinned_pool.h"
#include "gpu/staging_ring.h"
#include "gpu/uploader.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace gpu {
namespace {

// Memory, streams and timing for measurements.

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Whether a measurement may allocate so many bytes.
absl::Status CheckMemory(const Backend& backend, uint64_t host_bytes, uint64_t device_bytes) {
  if (host_bytes == 0 && device_bytes == 0) return InvalidArgument(backend.info().name, ": a measurement of 0 bytes");
  constexpr uint64_t kMost = uint64_t{1} << 60;  // the sum below does not overflow
  if (backend.info().cuda && backend.info().memory_bytes != 0 && device_bytes > backend.info().memory_bytes) {
    return ResourceExhausted(backend.info().name, ": it would take ", device_bytes >> 20,
                             " MiB of the device, which has ", backend.info().memory_bytes >> 20);
  }
  // Memory of the host device is memory of the host.
  const uint64_t bytes = std::min(host_bytes, kMost) + (backend.info().cuda ? 0 : std::min(device_bytes, kMost));
  const std::optional<MemoryLimit> limit = FindMemoryLimit();
  if (!limit || bytes <= limit->bytes / 2) return absl::OkStatus();
  return ResourceExhausted(backend.info().name, ": it would take ", bytes >> 20, " MiB, more than half of the ",
                           limit->bytes >> 20, " MiB that this process may have (", limit->source, ")");
}

// The same for `bytes` on the device and `host_times` as many on the host.
absl::Status CheckTransfer(const Backend& backend, uint64_t bytes, uint64_t host_times) {
  constexpr uint64_t kMost = uint64_t{1} << 50;  // the product does not overflow
  const uint64_t bounded = std::min(bytes, kMost);
  return CheckMemory(backend, host_times * bounded, bounded);
}

// What is compared transfers this many bytes in total, so small transfers are repeated many times.
constexpr uint64_t kComparedAtOnce = uint64_t{256} << 20;

uint64_t Repetitions(uint64_t bytes, uint64_t at_once) { return std::max<uint64_t>(1, at_once / bytes); }

// Device memory.
class DeviceBuffer {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceBuffer>> Create(Backend& backend, uint64_t bytes) {
    SHARDKIT_ASSIGN_OR_RETURN(void* const data, backend.AllocateDevice(bytes));
    return std::unique_ptr<DeviceBuffer>(new DeviceBuffer(backend, data, bytes));
  }
  ~DeviceBuffer() { backend_.FreeDevice(data_, bytes_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  DeviceBuffer(Backend& backend, void* data, uint64_t bytes) : backend_(backend), data_(data), bytes_(bytes) {}

  Backend& backend_;
  void* const data_;
  const uint64_t bytes_;
};

// Ordinary memory of the host, all of it written to. Otherwise all its pages would be the same page of zeros.
absl::StatusOr<std::shared_ptr<uint8_t>> TouchedMemory(uint64_t bytes) {
  auto* const memory = static_cast<uint8_t*>(std::malloc(bytes));
  if (memory == nullptr) return ResourceExhausted("host: there are no ", bytes, " bytes of memory");
  std::memset(memory, 0x5a, bytes);
  return std::shared_ptr<uint8_t>(memory, std::free);
}

// Page-locked memory with its own pool, all of it written to.
absl::StatusOr<std::shared_ptr<uint8_t>> PinnedMemory(const std::shared_ptr<Backend>& backend, uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  const uint64_t budget = std::max((bytes + kPage - 1) / kPage * kPage, uint64_t{1} << 20);
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<PinnedPool> pool, PinnedPool::Create(backend, {.bytes = budget}));
  SHARDKIT_ASSIGN_OR_RETURN(void* const memory, pool->Allocate(bytes));
  std::memset(memory, 0x5a, bytes);
  return std::shared_ptr<uint8_t>(static_cast<uint8_t*>(memory), [pool](uint8_t* given) { pool->Free(given); });
}

// A stream whose destructor waits for its work. Declare what the work uses before the stream.
class MeasuredStream {
 public:
  static absl::StatusOr<std::unique_ptr<MeasuredStream>> Create(Backend& backend) {
    SHARDKIT_ASSIGN_OR_RETURN(const Stream stream, backend.CreateStream());
    return std::unique_ptr<MeasuredStream>(new MeasuredStream(backend, stream));
  }
  ~MeasuredStream() {
    (void)backend_.SynchronizeStream(stream_);
    backend_.DestroyStream(stream_);
  }
  MeasuredStream(const MeasuredStream&) = delete;
  MeasuredStream& operator=(const MeasuredStream&) = delete;

  Stream get() const { return stream_; }

 private:
  MeasuredStream(Backend& backend, Stream stream) : backend_(backend), stream_(stream) {}

  Backend& backend_;
  const Stream stream_;
};

// An event with timing.
class MeasuredEvent {
 public:
  static absl::StatusOr<std::unique_ptr<MeasuredEvent>> Create(Backend& backend) {
    SHARDKIT_ASSIGN_OR_RETURN(const Event event, backend.CreateEvent(true));
    return std::unique_ptr<MeasuredEvent>(new MeasuredEvent(backend, event));
  }
  ~MeasuredEvent() { backend_.DestroyEvent(event_); }
  MeasuredEvent(const MeasuredEvent&) = delete;
  MeasuredEvent& operator=(const MeasuredEvent&) = delete;

  Event get() const { return event_; }

 private:
  MeasuredEvent(Backend& backend, Event event) : backend_(backend), event_(event) {}

  Backend& backend_;
  const Event event_;
};

// Seconds that the device takes for what `queue` queues in `stream`.
absl::StatusOr<double> DeviceSeconds(Backend& backend, Stream stream, const std::function<absl::Status()>& queue) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto begin, MeasuredEvent::Create(backend));
  SHARDKIT_ASSIGN_OR_RETURN(const auto end, MeasuredEvent::Create(backend));
  SHARDKIT_RETURN_IF_ERROR(backend.Record(begin->get(), stream));
  SHARDKIT_RETURN_IF_ERROR(queue());
  SHARDKIT_RETURN_IF_ERROR(backend.Record(end->get(), stream));
  SHARDKIT_RETURN_IF_ERROR(backend.Synchronize(end->get()));
  return backend.ElapsedSeconds(begin->get(), end->get());
}

// How often to measure: enough for a median, but not too long on a slow device.
class Rounds {
 public:
  // Whether to measure once more.
  bool Next() {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return done_++ < kLeast || (done_ <= kMost && seconds < kSeconds);
  }

 private:
  static constexpr int kLeast = 3;
  static constexpr int kMost = 9;
  static constexpr double kSeconds = 0.5;

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int done_ = 0;
};

constexpr uint64_t kCopiedAtOnce = uint64_t{64} << 20;
constexpr uint64_t kUnderWay = uint64_t{32} << 20;
constexpr uint64_t kLeastPool = uint64_t{1} << 20;  // PinnedPool's

// A ring with room for `slots` slots of `bytes`, all of which have been written to.
absl::StatusOr<std::shared_ptr<StagingRing>> TouchedRing(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                                         uint64_t slots) {
  // A ring may round slot sizes up to powers of two. With a smaller budget Acquire would wait for slots taken here.
  const uint64_t budget = slots * std::bit_ceil(std::max(bytes, kLeastPool));
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<PinnedPool> pool, PinnedPool::Create(backend, {.bytes = budget}));
  auto ring = StagingRing::Create(pool);
  std::vector<std::shared_ptr<StagingSlot>> all;
  for (uint64_t i = 0; i < slots; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<StagingSlot> slot, ring->Acquire(bytes));
    std::memset(slot->data(), 0x5a, bytes);
    all.push_back(std::move(slot));
  }
  return ring;
}

// Measures uploads from slots that are taken from the ring and given back.
absl::StatusOr<double> RingSeconds(Backend& backend, StagingRing& ring, Uploader& uploader, uint8_t* to, uint64_t bytes,
                                   uint64_t times, const Cancellation& cancellation) {
  return DeviceSeconds(backend, uploader.stream(), [&]() -> absl::Status {
    for (uint64_t i = 0; i < times; ++i) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<StagingSlot> slot, ring.Acquire(bytes, &cancellation));
      const UploadPiece piece{.to = to, .from = slot->data(), .bytes = bytes, .pinned = true};
      SHARDKIT_ASSIGN_OR_RETURN(const auto transfer, uploader.Upload({&piece, 1}, slot, &cancellation));
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<double> MeasureCopy(const std::shared_ptr<Backend>& backend, uint64_t bytes, CopyKind kind, bool pinned,
                                   const Cancellation& cancellation) {
  const bool within = kind == CopyKind::kDeviceToDevice;
  SHARDKIT_RETURN_IF_ERROR(CheckTransfer(*backend, bytes, 1));
  SHARDKIT_ASSIGN_OR_RETURN(const auto device, DeviceBuffer::Create(*backend, bytes));
  // The side that is not `device`.
  std::unique_ptr<DeviceBuffer> within_device;
  std::shared_ptr<uint8_t> of_host;
  uint8_t* other = nullptr;
  if (within) {
    SHARDKIT_ASSIGN_OR_RETURN(within_device, DeviceBuffer::Create(*backend, bytes));
    other = within_device->data();
  } else {
    SHARDKIT_ASSIGN_OR_RETURN(of_host, pinned ? PinnedMemory(backend, bytes) : TouchedMemory(bytes));
    other = of_host.get();
  }
  const bool to_host = kind == CopyKind::kDeviceToHost;
  uint8_t* const to = to_host ? other : device->data();
  const uint8_t* const from = to_host ? device->data() : other;
  SHARDKIT_ASSIGN_OR_RETURN(const auto stream, MeasuredStream::Create(*backend));
  // Writes the device's memory before it is measured. The host's memory was written already.
  SHARDKIT_RETURN_IF_ERROR(backend->Fill(device->data(), 0x5a, bytes, stream->get()));
  if (within) SHARDKIT_RETURN_IF_ERROR(backend->Fill(other, 0x5a, bytes, stream->get()));
  const uint64_t times = Repetitions(bytes, kCopiedAtOnce);
  const auto measure = [&] {
    return DeviceSeconds(*backend, stream->get(), [&]() -> absl::Status {
      for (uint64_t i = 0; i < times; ++i)
        SHARDKIT_RETURN_IF_ERROR(backend->Copy(to, from, bytes, kind, stream->get()));
      return absl::OkStatus();
    });
  };
  SHARDKIT_RETURN_IF_ERROR(measure().status());
  std::vector<double> seconds;
  for (Rounds rounds; rounds.Next();) {
    SHARDKIT_RETURN_IF_ERROR(cancellation.Check("measuring copies"));
    SHARDKIT_ASSIGN_OR_RETURN(const double measured, measure());
    seconds.push_back(measured);
  }
  return static_cast<double>(times) * static_cast<double>(bytes) / Median(std::move(seconds));
}

absl::StatusOr<UploadFigures> MeasureUploads(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                             const Cancellation& cancellation) {
  if (bytes == 0) return InvalidArgument(backend->info().name, ": a measurement of 0 bytes");
  // Enough uploads under way that the device has work until the host knows what is done. Of large ones two are enough.
  const uint64_t depth = std::clamp<uint64_t>(kUnderWay / bytes, 3, 32);
  const uint64_t slots = bytes <= kUnderWay ? depth + 1 : 2;
  SHARDKIT_RETURN_IF_ERROR(CheckTransfer(*backend, bytes, slots));
  SHARDKIT_ASSIGN_OR_RETURN(const auto device, DeviceBuffer::Create(*backend, bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<StagingRing> ring, TouchedRing(backend, bytes, slots));
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<Uploader> uploader,
                            Uploader::Create(backend, ring, {.depth = static_cast<int>(depth)}));
  SHARDKIT_ASSIGN_OR_RETURN(const auto stream, MeasuredStream::Create(*backend));
  const uint64_t times = std::max<uint64_t>(4, Repetitions(bytes, kComparedAtOnce));
  const auto through_ring = [&] {
    return RingSeconds(*backend, *ring, *uploader, device->data(), bytes, times, cancellation);
  };
  // Copies from the same memory, so that caches do not change the ratio.
  const auto plain = [&]() -> absl::StatusOr<double> {
    std::vector<std::shared_ptr<StagingSlot>> all(slots);
    for (std::shared_ptr<StagingSlot>& slot : all) {
      SHARDKIT_ASSIGN_OR_RETURN(slot, ring->Acquire(bytes, &cancellation));
    }
    return DeviceSeconds(*backend, stream->get(), [&]() -> absl::Status {
      for (uint64_t i = 0; i < times; ++i) {
        const uint8_t* const from = all[i % slots]->data();
        SHARDKIT_RETURN_IF_ERROR(backend->Copy(device->data(), from, bytes, CopyKind::kHostToDevice, stream->get()));
      }
      return absl::OkStatus();
    });
  };
  SHARDKIT_RETURN_IF_ERROR(through_ring().status());
  SHARDKIT_RETURN_IF_ERROR(plain().status());
  std::vector<double> ring_seconds, plain_seconds, ratios;
  for (Rounds rounds; rounds.Next();) {
    SHARDKIT_RETURN_IF_ERROR(cancellation.Check("measuring uploads"));
    SHARDKIT_ASSIGN_OR_RETURN(const double ring_time, through_ring());
    SHARDKIT_ASSIGN_OR_RETURN(const double plain_time, plain());
    ring_seconds.push_back(ring_time);
    plain_seconds.push_back(plain_time);
    ratios.push_back(plain_time / ring_time);
  }
  const double moved = static_cast<double>(times) * static_cast<double>(bytes);
  return UploadFigures{moved / Median(std::move(ring_seconds)), moved / Median(std::move(plain_seconds)),
                       Median(std::move(ratios))};
}

namespace {

// Transfers and arithmetic, alone and together.
class OverlapExperiment {
 public:
  OverlapExperiment(Backend& backend, void* to, const void* from, uint64_t bytes, Stream copies, Stream work)
      : backend_(backend),
        to_(to),
        from_(from),
        bytes_(bytes),
        times_(Repetitions(bytes, kComparedAtOnce)),
        copies_(copies),
        work_(work) {}

  // Finds how many rounds of arithmetic take about as long as a transfer.
  absl::Status Calibrate(const Cancellation& cancellation) {
    SHARDKIT_RETURN_IF_ERROR(Transfer().status());
    SHARDKIT_RETURN_IF_ERROR(Work().status());
    SHARDKIT_ASSIGN_OR_RETURN(const double wanted, Transfer());
    double seconds = 0;
    while (true) {
      SHARDKIT_RETURN_IF_ERROR(cancellation.Check("calibrating the work of an overlap"));
      SHARDKIT_ASSIGN_OR_RETURN(seconds, Work());
      if (seconds >= wanted / 4 || rounds_ > kMostRounds) break;
      rounds_ *= 2;
    }
    for (int i = 0; i < 2 && seconds > 0; ++i) {
      rounds_ = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(rounds_) * wanted / seconds));
      SHARDKIT_ASSIGN_OR_RETURN(seconds, Work());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> Transfer() {
    return DeviceSeconds(backend_, copies_, [&] { return QueueCopies(); });
  }
  absl::StatusOr<double> Work() {
    return DeviceSeconds(backend_, work_, [&] { return QueueWork(); });
  }

  absl::StatusOr<double> Both() {
    SHARDKIT_ASSIGN_OR_RETURN(const auto begin, MeasuredEvent::Create(backend_));
    SHARDKIT_ASSIGN_OR_RETURN(const auto copied, MeasuredEvent::Create(backend_));
    SHARDKIT_ASSIGN_OR_RETURN(const auto worked, MeasuredEvent::Create(backend_));
    // Delays both until everything is queued, so that neither begins while the host still queues the other.
    SHARDKIT_RETURN_IF_ERROR(backend_.Spin(rounds_, copies_));
    SHARDKIT_RETURN_IF_ERROR(backend_.Record(begin->get(), copies_));
    SHARDKIT_RETURN_IF_ERROR(backend_.Wait(work_, begin->get()));
    SHARDKIT_RETURN_IF_ERROR(QueueCopies());
    SHARDKIT_RETURN_IF_ERROR(backend_.Record(copied->get(), copies_));
    SHARDKIT_RETURN_IF_ERROR(QueueWork());
    SHARDKIT_RETURN_IF_ERROR(backend_.Record(worked->get(), work_));
    SHARDKIT_RETURN_IF_ERROR(backend_.Synchronize(copied->get()));
    SHARDKIT_RETURN_IF_ERROR(backend_.Synchronize(worked->get()));
    SHARDKIT_ASSIGN_OR_RETURN(const double copy_seconds, backend_.ElapsedSeconds(begin->get(), copied->get()));
    SHARDKIT_ASSIGN_OR_RETURN(const double work_seconds, backend_.ElapsedSeconds(begin->get(), worked->get()));
    return std::max(copy_seconds, work_seconds);
  }

 private:
  static constexpr uint64_t kMostRounds = uint64_t{1} << 40;

  absl::Status QueueCopies() {
    for (uint64_t i = 0; i < times_; ++i) {
      SHARDKIT_RETURN_IF_ERROR(backend_.Copy(to_, from_, bytes_, CopyKind::kHostToDevice, copies_));
    }
    return absl::OkStatus();
  }
  absl::Status QueueWork() {
    for (uint64_t i = 0; i < times_; ++i) SHARDKIT_RETURN_IF_ERROR(backend_.Spin(rounds_, work_));
    return absl::OkStatus();
  }

  Backend& backend_;
  void* const to_;
  const void* const from_;
  const uint64_t bytes_;
  const uint64_t times_;
  const Stream copies_;
  const Stream work_;
  uint64_t rounds_ = 1024;
};

}  // namespace

absl::StatusOr<OverlapFigures> MeasureOverlap(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                              const Cancellation& cancellation) {
  SHARDKIT_RETURN_IF_ERROR(CheckTransfer(*backend, bytes, 1));
  SHARDKIT_ASSIGN_OR_RETURN(const auto device, DeviceBuffer::Create(*backend, bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<uint8_t> host, PinnedMemory(backend, bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const auto copies, MeasuredStream::Create(*backend));
  SHARDKIT_ASSIGN_OR_RETURN(const auto work, MeasuredStream::Create(*backend));
  OverlapExperiment experiment(*backend, device->data(), host.get(), bytes, copies->get(), work->get());
  SHARDKIT_RETURN_IF_ERROR(experiment.Calibrate(cancellation));
  SHARDKIT_RETURN_IF_ERROR(experiment.Both().status());
  std::vector<double> transfers, works, boths;
  for (Rounds rounds; rounds.Next();) {
    SHARDKIT_RETURN_IF_ERROR(cancellation.Check("measuring an overlap"));
    SHARDKIT_ASSIGN_OR_RETURN(const double transfer, experiment.Transfer());
    SHARDKIT_ASSIGN_OR_RETURN(const double worked, experiment.Work());
    SHARDKIT_ASSIGN_OR_RETURN(const double both, experiment.Both());
    transfers.push_back(transfer);
    works.push_back(worked);
    boths.push_back(both);
  }
  OverlapFigures figures{Median(std::move(transfers)), Median(std::move(works)), Median(std::move(boths)), 0};
  const double shorter = std::min(figures.transfer_seconds, figures.work_seconds);
  const double hidden = figures.transfer_seconds + figures.work_seconds - figures.both_seconds;
  figures.score = shorter > 0 ? std::clamp(hidden / shorter, 0.0, 1.0) : 0;
  return figures;
}

namespace {

// One blob per mask, an ellipse whose edges wander by a pixel from column to column.
RleList MakeBlobs(const MaskSetup& setup) {
  std::mt19937_64 random(1);
  RleList masks;
  const double height = setup.height;
  for (uint32_t i = 0; i < setup.count; ++i) {
    Rle mask{setup.height, setup.width, {}};
    const uint64_t left = random() % (setup.width - setup.columns + 1);
    const double center = height * (0.3 + 0.4 * static_cast<double>(random() % 1024) / 1024);
    double wander = 0;
    uint64_t last = 0;
    for (uint32_t x = 0; x < setup.columns; ++x) {
      const double across = (x + 0.5) / setup.columns * 2 - 1;
      const double radius = 1 + height / 6 * std::sqrt(1 - across * across);
      wander = std::clamp(wander + static_cast<double>(random() % 3) - 1, -height / 16, height / 16);
      const uint64_t column = (left + x) * setup.height;
      const uint64_t top = column + static_cast<uint64_t>(std::clamp(center + wander - radius, 0.0, height - 1));
      const uint64_t bottom = column + static_cast<uint64_t>(std::clamp(center + wander + radius, 0.0, height - 1));
      mask.runs.push_back(static_cast<uint32_t>(top - last));
      mask.runs.push_back(static_cast<uint32_t>(bottom - top));
      last = bottom;
    }
    mask.runs.push_back(static_cast<uint32_t>(uint64_t{setup.height} * setup.width - last));
    masks.Append(mask);
  }
  return masks;
}

double SecondsOf(const std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The memory on both sides. The stream is the last member, so that it is destroyed first.
struct MaskExperiment {
  Backend& backend;
  const RleList& masks;
  uint64_t mask_bytes = 0;     // dense, of one
  uint64_t records_bytes = 0;  // of the RasterizeMask records
  uint64_t run_bytes = 0;
  RasterizeMasks arguments;
  std::shared_ptr<uint8_t> small;  // records, then runs
  std::shared_ptr<uint8_t> dense;
  std::unique_ptr<DeviceBuffer> device_small;
  std::unique_ptr<DeviceBuffer> ends;
  std::unique_ptr<DeviceBuffer> out;
  std::unique_ptr<MeasuredStream> stream;

  uint64_t dense_bytes() const { return mask_bytes * masks.size(); }
  uint64_t small_bytes() const { return records_bytes + run_bytes; }

  absl::Status Prepare(const std::shared_ptr<Backend>& shared) {
    SHARDKIT_ASSIGN_OR_RETURN(small, PinnedMemory(shared, small_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(dense, PinnedMemory(shared, dense_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(device_small, DeviceBuffer::Create(backend, small_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(ends, DeviceBuffer::Create(backend, run_bytes));
    SHARDKIT_ASSIGN_OR_RETURN(out, DeviceBuffer::Create(backend, dense_bytes()));
    SHARDKIT_ASSIGN_OR_RETURN(stream, MeasuredStream::Create(backend));
    std::vector<RasterizeMask> records(masks.size());
    for (size_t i = 0; i < records.size(); ++i) {
      RasterizeMask& record = records[i];
      record.runs = masks.run_begin[i];
      record.run_count = masks.run_begin[i + 1] - masks.run_begin[i];
      record.out = i * mask_bytes;
      record.first_tile = arguments.tiles;
      record.stored_height = record.height = record.content_height = masks.heights[i];
      record.stored_width = record.width = record.content_width = masks.widths[i];
      arguments.tiles += (mask_bytes + kMaskTileBytes - 1) / kMaskTileBytes;
    }
    std::memcpy(small.get(), records.data(), records_bytes);
    std::memcpy(small.get() + records_bytes, masks.runs.data(), run_bytes);
    arguments.masks = reinterpret_cast<const RasterizeMask*>(device_small->data());
    arguments.runs = reinterpret_cast<const uint32_t*>(device_small->data() + records_bytes);
    arguments.ends = reinterpret_cast<uint32_t*>(ends->data());
    arguments.out = out->data();
    arguments.count = masks.size();
    return absl::OkStatus();
  }

  absl::StatusOr<double> Rasterize() {
    return DeviceSeconds(backend, stream->get(), [&] { return backend.Launch(arguments, stream->get()); });
  }
  absl::StatusOr<double> Fill() {
    return DeviceSeconds(backend, stream->get(),
                         [&] { return backend.Fill(out->data(), 1, dense_bytes(), stream->get()); });
  }

  absl::StatusOr<double> Runs() {
    const auto begin = std::chrono::steady_clock::now();
    SHARDKIT_RETURN_IF_ERROR(
        backend.Copy(device_small->data(), small.get(), small_bytes(), CopyKind::kHostToDevice, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.Launch(arguments, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.SynchronizeStream(stream->get()));
    return SecondsOf(begin);
  }

  absl::StatusOr<double> Dense(const Cancellation& cancellation) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < masks.size(); ++i) {
      SHARDKIT_RETURN_IF_ERROR(cancellation.Check("decoding masks"));
      SHARDKIT_RETURN_IF_ERROR(DecodeDense(masks[i], {dense.get() + i * mask_bytes, mask_bytes}));
    }
    SHARDKIT_RETURN_IF_ERROR(
        backend.Copy(out->data(), dense.get(), dense_bytes(), CopyKind::kHostToDevice, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.SynchronizeStream(stream->get()));
    return SecondsOf(begin);
  }

  // Checks that the device's masks are those that DecodeDense makes.
  absl::Status Verify() {
    SHARDKIT_RETURN_IF_ERROR(
        backend.Copy(dense.get(), out->data(), dense_bytes(), CopyKind::kDeviceToHost, stream->get()));
    SHARDKIT_RETURN_IF_ERROR(backend.SynchronizeStream(stream->get()));
    std::vector<uint8_t> expected(mask_bytes);
    for (size_t i = 0; i < masks.size(); ++i) {
      SHARDKIT_RETURN_IF_ERROR(DecodeDense(masks[i], expected));
      if (std::memcmp(expected.data(), dense.get() + i * mask_bytes, mask_bytes) != 0) {
        return Internal(backend.info().name, ": mask ", i, " of the measurement is not what it is on the processor");
      }
    }
    return absl::OkStatus();
  }
};

absl::Status Check(const Backend& backend, const MaskSetup& setup) {
  if (setup.count == 0 || setup.height < 16 || setup.columns == 0 || setup.columns > setup.width ||
      uint64_t{setup.height} * setup.width > kMaxMaskPixels) {
    return InvalidArgument("masks to measure: ", setup.count, " of ", setup.width, " x ", setup.height,
                           " with blobs of ", setup.columns, " columns; see MaskSetup");
  }
  const uint64_t bytes =
      uint64_t{setup.count} * (uint64_t{setup.height} * setup.width + uint64_t{setup.columns} * 16 + 128);
  return CheckMemory(backend, bytes, bytes);
}

}  // namespace

absl::StatusOr<MaskFigures> MeasureMasks(const std::shared_ptr<Backend>& backend, const MaskSetup& setup,
                                         const Cancellation& cancellation) {
  SHARDKIT_RETURN_IF_ERROR(Check(*backend, setup));
  const RleList masks = MakeBlobs(setup);
  MaskExperiment experiment{.backend = *backend, .masks = masks};
  experiment.mask_bytes = uint64_t{setup.height} * setup.width;
  experiment.records_bytes = masks.size() * sizeof(RasterizeMask);
  experiment.run_bytes = masks.runs.size() * sizeof(uint32_t);
  SHARDKIT_RETURN_IF_ERROR(experiment.Prepare(backend));
  // Checks the kernels' result, which replaces bytes that are all 1.
  SHARDKIT_RETURN_IF_ERROR(experiment.Fill().status());
  SHARDKIT_RETURN_IF_ERROR(experiment.Runs().status());
  SHARDKIT_RETURN_IF_ERROR(experiment.Verify());
  SHARDKIT_RETURN_IF_ERROR(experiment.Dense(cancellation).status());
  std::vector<double> rasterize, fill, runs, dense;
  for (Rounds rounds; rounds.Next();) {
    SHARDKIT_RETURN_IF_ERROR(cancellation.Check("measuring masks"));
    SHARDKIT_ASSIGN_OR_RETURN(const double fill_seconds, experiment.Fill());
    SHARDKIT_ASSIGN_OR_RETURN(const double rasterize_seconds, experiment.Rasterize());
    SHARDKIT_ASSIGN_OR_RETURN(const double runs_seconds, experiment.Runs());
    SHARDKIT_ASSIGN_OR_RETURN(const double dense_seconds, experiment.Dense(cancellation));
    fill.push_back(fill_seconds);
    rasterize.push_back(rasterize_seconds);
    runs.push_back(runs_seconds);
    dense.push_back(dense_seconds);
  }
  MaskFigures figures;
  figures.dense_bytes = experiment.dense_bytes();
  figures.run_bytes = experiment.run_bytes;
  figures.rasterize_seconds = Median(std::move(rasterize));
  figures.fill_seconds = Median(std::move(fill));
  figures.runs_seconds = Median(std::move(runs));
  figures.dense_seconds = Median(std::move(dense));
  return figures;
}

}  // namespace gpu

absl::StatusOr<DeviceMeasurements> MeasureDevice(std::string_view device, const DeviceSizes& sizes,
                                                 const Cancellation& cancellation,
                                                 const std::function<void(uint64_t, uint64_t)>& progress) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<gpu::Backend> backend, gpu::OpenDevice(device));
  DeviceMeasurements measurements{.device = backend->info()};
  const uint64_t total = 5 * sizes.copies.size() + sizes.overlaps.size();
  uint64_t done = 0;
  // Stores what was measured, or why it was skipped (ResourceExhausted). Returns other errors, which end all
  // experiments.
  const auto take = [&](auto measured, auto* figure, std::string* skipped) -> absl::Status {
    if (measured.ok()) {
      *figure = *measured;
    } else if (absl::IsResourceExhausted(measured.status())) {
      *skipped = std::string(ToStd(measured.status().message()));
    } else {
      return measured.status();
    }
    return absl::OkStatus();
  };
  const auto step = [&] {
    if (progress) progress(done, total);
    ++done;
    return cancellation.Check("measuring the device");
  };
  for (const uint64_t bytes : sizes.copies) {
    for (const bool to_device : {true, false}) {
      for (const bool pinned : {false, true}) {
        SHARDKIT_RETURN_IF_ERROR(step());
        CopyMeasurement copy{.bytes = bytes, .to_device = to_device, .pinned = pinned};
        const auto kind = to_device ? gpu::CopyKind::kHostToDevice : gpu::CopyKind::kDeviceToHost;
        SHARDKIT_RETURN_IF_ERROR(
            take(gpu::MeasureCopy(backend, bytes, kind, pinned, cancellation), &copy.bytes_per_second, &copy.skipped));
        measurements.copies.push_back(std::move(copy));
      }
    }
    SHARDKIT_RETURN_IF_ERROR(step());
    UploadMeasurement upload{.bytes = bytes};
    SHARDKIT_RETURN_IF_ERROR(take(gpu::MeasureUploads(backend, bytes, cancellation), &upload.figures, &upload.skipped));
    measurements.uploads.push_back(std::move(upload));
  }
  for (const uint64_t bytes : sizes.overlaps) {
    SHARDKIT_RETURN_IF_ERROR(step());
    OverlapMeasurement overlap{.bytes = bytes};
    SHARDKIT_RETURN_IF_ERROR(
        take(gpu::MeasureOverlap(backend, bytes, cancellation), &overlap.figures, &overlap.skipped));
    measurements.overlaps.push_back(std::move(overlap));
  }
  return measurements;
}

}  // namespace shardkit
