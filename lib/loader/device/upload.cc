// Uploads one batch to the device.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "loader/device/uploading_loader.h"

namespace shardkit::loader {
namespace {

template <typename T>
std::vector<T> CopyOf(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace

// Where the parts of a batch are put, in two blocks: one for the consumer, and one for work, which is reused when the
// kernels are done. The small arrays of each block are together at its beginning, so that they are one copy.
struct UploadingLoader::Plans {
  struct Place {
    ConversionPlan conversion;
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
      SHARDKIT_ASSIGN_OR_RETURN(ConversionPlan plan, conversion->Prepare(from));
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
