// Turns the samples of a batch into its columns, in two passes: Layout, by one thread, finds sizes and places. Fill, by
// many threads, writes the values.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
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
#include "base/buffer.h"
#include "loader/engine/batch_storage.h"
#include "loader/plan/permutation.h"
#include "shardkit/image.h"
#include "shardkit/loader.h"
#include "shardkit/rle.h"
#include "shardkit/sample.h"

namespace shardkit::loader {

// A sample of a block that is damaged in part. Its values were read one by one.
struct SalvagedSample {
  absl::Status status;
  std::vector<std::optional<std::string>> values;  // by column
};
using SalvagedBlock = std::vector<SalvagedSample>;

// The place of a sample in the rows of a batch, where documents are packed. Numbers are of tokens.
struct TokenPlace {
  uint32_t row = 0;
  uint32_t begin = 0;  // in the row
  uint32_t length = 0;
  uint32_t offset = 0;  // in the document
  uint32_t document_length = 0;
};

// A sample of the batch and the block in memory that holds it.
struct AssemblySample {
  const BlockView* view = nullptr;
  const RandomAccessFile* file = nullptr;  // where the values are that the block left in its file
  const SalvagedBlock* salvage = nullptr;  // used in place of the view when not null
  uint32_t in_block = 0;
  uint32_t block = 0;  // number of the block in its shard
  BatchSample identity;
  TokenPlace tokens;

  // Of a column in_file(), only the length of the value means anything.
  std::optional<std::string_view> Value(size_t column) const {
    if (salvage == nullptr) [[likely]]
      return view->column(column).value(in_block);
    const auto& value = (*salvage)[in_block].values[column];
    return value ? std::optional<std::string_view>(*value) : std::nullopt;
  }

  bool in_file(size_t column) const { return salvage == nullptr && view->column(column).in_file(); }
};

// Why a sample cannot be part of a batch.
struct AssemblyFailure {
  enum Kind : uint8_t {
    kBad,     // its values cannot be decoded
    kUnread,  // a value that was left in the file
    kThrown,  // an exception fails the batch whatever the policy: it is about a user's function or about memory
  };
  size_t sample = 0;
  absl::Status status;
  Kind kind = kBad;
};

class PageCacheValues;

// The samples that one batch is made from, and their failures. Any thread may call Fail.
class Assembly {
 public:
  std::vector<AssemblySample> samples;
  uint64_t epoch = 0;
  uint64_t seed = 0;
  uint64_t token_rows = 0;
  PageCacheValues* left = nullptr;

  // `stream`: GeometryOptions::stream.
  AugmentationRandom Random(size_t i, uint64_t stream = 0) const {
    const BatchSample& sample = samples[i].identity;
    const uint64_t number = sample.ordinal + (uint64_t{sample.dataset} << 48);
    const uint64_t copy = sample.copy == 0 ? number : Derive(number, sample.copy);
    return {seed, epoch, stream == 0 ? copy : Derive(~copy, stream)};
  }

  void Fail(size_t sample, absl::Status status, AssemblyFailure::Kind kind = AssemblyFailure::kBad) {
    std::lock_guard lock(mutex_);
    failures_.push_back({sample, std::move(status), kind});
  }

  // Images that libjpeg decodes with a warning, of the samples in their present places. Threads count.
  std::atomic<uint64_t> warned_images = 0;

  // Returns the failures so far and forgets them. Ordered by sample, each sample once.
  std::vector<AssemblyFailure> TakeFailures();

 private:
  std::mutex mutex_;
  std::vector<AssemblyFailure> failures_;
};

// What one thread works with.
struct WorkerScratch {
  ImageDecoder image;
  MaskRasterizer rasterizer;
  RleList masks;
  Buffer run;     // values read from the file together
  Buffer pixels;  // of an image that is still to be converted
};

// Immutable, thread-safe.
class ColumnAssembler {
 public:
  // `position` is among the columns read. `column` is the dataset's description of the column.
  ColumnAssembler(size_t position, Column column, LoaderColumn options)
      : position_(position), stored_(std::move(column)), options_(std::move(options)) {}
  virtual ~ColumnAssembler() = default;

  // Sets everything in *memory except the values, for which it makes room. Reports bad samples. When there are any, the
  // batch is laid out again without them.
  virtual void Layout(Assembly& assembly, ColumnMemory* memory) const = 0;

  // Writes the values of samples [begin, end).
  virtual void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& scratch,
                    ColumnMemory* memory) const = 0;

  // Whether filling takes long for the number of bytes it makes. Then threads take small portions.
  virtual bool heavy() const { return false; }

  // Whether Fill may find bad samples.
  virtual bool fill_may_fail() const { return true; }

  // Whether the batch points into the memory of blocks.
  virtual bool holds_blocks() const { return false; }

  // Whether values may be left in the file until Fill: then Layout needs only their lengths.
  virtual bool takes_from_page_cache() const { return false; }

  size_t position() const { return position_; }

  // Adds the column's name.
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

// The error of a bad sample, with the option that leaves such samples out.
absl::Status WithWayOn(const absl::Status& status);

// Which items of a sample, such as boxes or masks, a batch has. Immutable, thread-safe.
class ItemsOfSamples {
 public:
  virtual ~ItemsOfSamples() = default;

  struct Taken {
    uint64_t stored = 0;         // items of the sample
    std::vector<uint32_t> kept;  // ascending
  };
  virtual absl::StatusOr<Taken> Of(const Assembly& assembly, size_t i) const = 0;
};

// Those of the sample, which are to be `count` in `column`, its partner too.
absl::StatusOr<std::vector<uint32_t>> KeptAlong(const ItemsOfSamples& along, const std::string& column,
                                                const Assembly& assembly, size_t i, uint64_t count);

// The numbers of `most` items at most, of those with these sizes.
void ChooseItems(const LoaderColumn& options, const Assembly& assembly, size_t i, std::span<const double> sizes,
                 std::vector<uint32_t>* kept);

// A stored column of images.
struct StoredImage {
  size_t position = 0;
  Column column;

  // The image of sample i; empty where it has none.
  absl::StatusOr<std::optional<StoredSize>> SizeOf(const Assembly& assembly, size_t i) const;
};

// What columns of a sample have in common.
struct SampleContext {
  GeometryOptions geometry;
  std::optional<StoredImage> image;                                    // that the column is or belongs to
  std::map<std::string, std::shared_ptr<const ItemsOfSamples>> items;  // by column of boxes or masks
};

// InvalidArgument when the column cannot be decoded as asked.
absl::StatusOr<std::unique_ptr<ColumnAssembler>> NewColumnAssembler(size_t position, const Column& column,
                                                                    const LoaderColumn& options,
                                                                    const SampleContext& context);

// Of a column of boxes or masks that goes along with none; null for others, and where NewColumnAssembler refuses it.
std::shared_ptr<const ItemsOfSamples> NewItemsOfBoxes(size_t position, const Column& column,
                                                      const LoaderColumn& options, const SampleContext& context);
std::shared_ptr<const ItemsOfSamples> NewItemsOfMasks(size_t position, const Column& column,
                                                      const LoaderColumn& options);

// Of a kTokens column: whether the stored column holds tokens, and their type.
absl::Status CheckTokens(const Column& column, const LoaderColumn& options);
inline Type TokenType(const Column& column, const LoaderColumn& options) {
  return column.type == Type::kBytes ? options.dtype : column.dtype;
}

// One function for each kind, called by NewColumnAssembler.
std::unique_ptr<ColumnAssembler> NewStoredColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewViewsColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewMaskRunsColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewMasksColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const SampleContext& context);
std::unique_ptr<ColumnAssembler> NewImageColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const SampleContext& context);
std::unique_ptr<ColumnAssembler> NewTokensColumn(size_t position, const Column& column, const LoaderColumn& options);
std::unique_ptr<ColumnAssembler> NewItemsColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const SampleContext& context);
std::unique_ptr<ColumnAssembler> NewFunctionColumn(size_t position, const Column& column, const LoaderColumn& options);

}  // namespace shardkit::loader
