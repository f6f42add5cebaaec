// Measures how much copies and work overlap.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/bandwidth.h"
#include "gpu/measuring.h"

namespace shardkit::gpu {
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

}  // namespace shardkit::gpu
