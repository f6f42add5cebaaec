// A batch: the samples of one step that belong to this rank, column by column. Its memory is reused.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/image.h"
#include "shardkit/schema.h"

namespace shardkit {

// The memory layout of a column of a batch of n samples. All arrays are dense and in the order of the samples.
enum class BatchLayout {
  kTensor,    // shape [n, …]
  kRagged,    // sample i has elements [offsets[i], offsets[i + 1]); `shapes` as well for arrays and images of their own
              // size
  kMasks,     // sample i has masks [offsets[i], offsets[i + 1]); see BatchColumn
  kMaskRuns,  // the same, as run lengths
  kTokens,    // documents packed into rows: shape [rows, context]
  kViews,     // only `views`, which point to the values where they were read
};

// The batch owns everything that this points to.
struct BatchColumn {
  std::string_view name;
  BatchLayout layout = BatchLayout::kTensor;
  Type dtype = Type::kU8;  // of `values`: a scalar type

  // kTensor: n first. kTokens: {rows, context}. kMasks of one size: {masks, height, width}, the last one in bytes when
  // bit-packed; padded: {n, most masks, height, width}. Empty for the others.
  std::vector<uint64_t> shape;

  // Elements of dtype. Aligned to 4096 bytes.
  std::span<uint8_t> values;

  // n + 1 entries, first 0, except for kTensor. Elements for kRagged, masks or pieces of documents for the others.
  std::span<const uint64_t> offsets;

  // For kMaskRuns, and for kMasks when the masks have sizes of their own; an item is a mask. One entry per mask and one
  // at the end, in elements of `values`: runs (kMaskRuns), pixels, or packed bytes.
  std::span<const uint64_t> item_offsets;

  // kRagged: `shape_rank` numbers per sample: {height, width, channels} of images, the shape of arrays, with 1s in
  // front of shorter shapes. Masks: {height, width} per mask. kTokens: {row, begin, length} per piece of a document.
  std::span<const uint64_t> shapes;
  uint32_t shape_rank = 0;

  // kViews: the value of each sample as stored, null where it is absent. The batch keeps the blocks of the values.
  std::span<const std::string_view> views;

  // With LoaderColumn::deferred: what is still to be done with each image (kRagged, one entry per sample; Geometry{},
  // whose sizes are 0, for a sample without an image) or with each mask (kMaskRuns, one entry per mask: without an
  // image, the masks of one sample may differ in size).
  std::span<const Geometry> geometries;

  // One byte per sample, 0 where the sample lacks the value; its elements are then zeros or empty. Empty when no sample
  // lacks the value.
  std::span<const uint8_t> present;

  // The elements as T, which must have the size of dtype.
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)};
  }
};

// Allocates the values of batches in other than ordinary memory, for example page-locked memory for uploads.
// Thread-safe. The loader's decoding threads call it. Free is called on every thread that releases a batch, while the
// loader's locks are held. So neither function may call the loader, or wait for another thread that does.
class BatchMemory {
 public:
  virtual ~BatchMemory() = default;

  // Returns `bytes` of memory, aligned to 4096, not cleared; `bytes` is a multiple of 4096 above 0. Null when there is
  // no memory: the loader then uses ordinary memory. Must not wait for a batch. An exception is the error of the batch
  // that needs the memory.
  virtual void* Allocate(size_t bytes) = 0;
  // Frees memory that Allocate returned for the same `bytes`. An exception is the error of a later batch; Free is not
  // called again for this memory.
  virtual void Free(void* memory, size_t bytes) = 0;
  // The most bytes that Allocate gives out. The loader keeps its batches within this, except the oldest one.
  virtual uint64_t limit() const = 0;
};

struct BatchSample {
  uint32_t dataset = 0;  // in the order given to the loader
  uint32_t shard = 0;
  uint64_t ordinal = 0;   // in the dataset
  uint64_t position = 0;  // in the epoch's order
  bool padding = false;   // repeats a sample of the epoch (Remainder::kPad)
};

// A sample left out, and why.
struct BadSample {
  uint64_t epoch = 0;
  BatchSample sample;
  uint32_t block = 0;  // in the shard
  absl::Status status;
};

// Const once delivered. Destroying it returns its memory to the loader. May outlive the loader. Thread-safe to read.
class Batch {
 public:
  virtual ~Batch() = default;

  virtual uint64_t epoch() const = 0;
  virtual uint64_t step() const = 0;  // counted from 0, from where the loader started in this epoch
  virtual size_t size() const = 0;    // samples
  virtual std::span<const BatchSample> samples() const = 0;
  virtual std::string_view key(size_t i) const = 0;  // empty without LoaderOptions::keys or a key column
  virtual std::span<const BadSample> skipped() const = 0;
  virtual size_t column_count() const = 0;
  virtual const BatchColumn& column(size_t i) const = 0;

  // The column of this name, or null.
  const BatchColumn* Find(std::string_view name) const {
    for (size_t i = 0; i < column_count(); ++i) {
      if (column(i).name == name) return &column(i);
    }
    return nullptr;
  }

  // Bytes of memory that the batch holds.
  virtual uint64_t memory() const = 0;
};

}  // namespace shardkit
