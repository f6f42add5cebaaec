// Turning the samples of a batch into its columns, in two passes: Layout, by one thread, finds sizes and places; Fill,
// by many threads, brings in the values.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loader/batch_storage.h"
#include "shardkit/block.h"
#include "shardkit/image.h"
#include "shardkit/loader.h"
#include "shardkit/rle.h"

namespace shardkit::loader {

// The values of a block of which a part is damaged, read one by one. By sample of the block.
struct SalvagedSample {
  absl::Status status;
  std::vector<std::optional<std::string>> values;  // by column
};
using SalvagedBlock = std::vector<SalvagedSample>;

// A sample of the batch and the block in memory that holds it.
struct AssemblySample {
  const BlockView* view = nullptr;
  const SalvagedBlock* salvage = nullptr;  // in place of the view
  uint32_t in_block = 0;
  uint32_t block = 0;  // of the shard
  BatchSample identity;

  std::optional<std::string_view> Value(size_t column) const {
    if (salvage == nullptr) [[likely]]
      return view->column(column).value(in_block);
    const auto& value = (*salvage)[in_block].values[column];
    return value ? std::optional<std::string_view>(*value) : std::nullopt;
  }
};

// Why a sample cannot be part of a batch. What was thrown fails the batch whatever the policy for bad samples: it says
// something of a user's function, or of memory, and nothing of the sample.
struct AssemblyFailure {
  size_t sample = 0;
  absl::Status status;
  bool thrown = false;
};

// What one batch is made from. Layout is for one thread, Fail for any.
class Assembly {
 public:
  std::vector<AssemblySample> samples;
  uint64_t epoch = 0;
  uint64_t seed = 0;

  AugmentationRandom Random(size_t i) const {
    const BatchSample& sample = samples[i].identity;
    return {seed, epoch, sample.ordinal + (uint64_t{sample.dataset} << 48)};
  }

  void Fail(size_t sample, absl::Status status, bool thrown = false) {
    std::lock_guard lock(mutex_);
    failures_.push_back({sample, std::move(status), thrown});
  }

  // Failures so far, in the order of samples and each sample once, and forgets them.
  std::vector<AssemblyFailure> TakeFailures();

 private:
  std::mutex mutex_;
  std::vector<AssemblyFailure> failures_;
};

// One thread's tools.
struct WorkerScratch {
  ImageDecoder image;
  MaskRasterizer rasterizer;
  RleList masks;
};

// Immutable, thread-safe.
class ColumnAssembler {
 public:
  // `position` among the columns read; `column` is what the dataset says of it.
  ColumnAssembler(size_t position, Column column, LoaderColumn options)
      : position_(position), stored_(std::move(column)), options_(std::move(options)) {}
  virtual ~ColumnAssembler() = default;

  // Sets everything of *memory but its values, for which it makes room. Reports bad samples; when there are any, the
  // batch is laid out again without them.
  virtual void Layout(Assembly& assembly, ColumnMemory* memory) const = 0;

  // Samples [begin, end).
  virtual void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& scratch,
                    ColumnMemory* memory) const = 0;

  // Whether filling takes long in comparison with the bytes it makes, so that it is shared out in small portions.
  virtual bool heavy() const { return false; }

  // Whether Fill may find bad samples.
  virtual bool fill_may_fail() const { return true; }

  // Whether the batch shows the blocks' own memory.
  virtual bool holds_blocks() const { return false; }

  // Names the column.
  absl::Status Describe(const absl::Status& status) const;

 protected:
  std::optional<std::string_view> Value(const Assembly& assembly, size_t sample) const {
    return assembly.samples[sample].Value(position_);
  }
  // Resets *memory for n samples, with `present` for a nullable column.
  void Begin(const Assembly& assembly, BatchLayout layout, Type dtype, ColumnMemory* memory) const;

  const size_t position_;
  const Column stored_;
  const LoaderColumn options_;
};

// InvalidArgument when the column cannot be decoded as asked. Masks lie on the image at `image_position`, if there is
// one.
absl::StatusOr<std::unique_ptr<ColumnAssembler>> NewColumnAssembler(size_t position, const Column& column,
                                                                    const LoaderColumn& options,
                                                                    const GeometryOptions& geometry,
                                                                    std::optional<size_t> image_position);

// The makers of each kind, for NewColumnAssembler.
std::unique_ptr<ColumnAssembler> NewStoredColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewViewsColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewMaskRunsColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewMasksColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const GeometryOptions& geometry, std::optional<size_t> image_position);
std::unique_ptr<ColumnAssembler> NewImageColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const GeometryOptions& geometry);
std::unique_ptr<ColumnAssembler> NewTokensColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewFunctionColumn(size_t position, const Column& column, const LoaderColumn& options);

}  // namespace shardkit::loader
