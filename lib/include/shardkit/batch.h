// A batch: the samples of one step that belong to this rank, column by column, in memory that is used again.
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

// How a column of a batch of n samples lies in memory. All arrays are dense and in the order of the samples.
enum class BatchLayout {
  kTensor,    // shape [n, …]
  kRagged,    // sample i has elements [offsets[i], offsets[i + 1]); `shapes` as well for arrays and images of their own
              // size
  kMasks,     // sample i has masks [offsets[i], offsets[i + 1]); see BatchColumn
  kMaskRuns,  // the same, as run lengths
  kTokens,    // documents packed into rows: shape [rows, context]
  kViews,     // `views` alone, of values where they were read
};

// Everything is borrowed from the batch.
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

  // One entry per item and one at the end, in elements of `values`: runs of a mask (kMaskRuns), pixels or packed bytes
  // of a mask (kMasks when they have their own sizes). An item is a mask.
  std::span<const uint64_t> item_offsets;

  // `shape_rank` numbers per sample (kRagged: {height, width, channels} of images, the shape of arrays, 1s in front of
  // shorter ones), per mask ({height, width}), or per piece of a document (kTokens: {row, begin, length}).
  std::span<const uint64_t> shapes;
  uint32_t shape_rank = 0;

  // kViews: the value of each sample as stored, null where it is absent. The batch keeps the blocks they lie in.
  std::span<const std::string_view> views;

  // Of a column with LoaderColumn::deferred: what is still to be done with each image (kRagged, one per sample; that of
  // a sample without one is Geometry{}, whose sizes are 0) or with each mask (kMaskRuns, one per mask: without an
  // image, the masks of one sample may differ in size).
  std::span<const Geometry> geometries;

  // One byte per sample, 0 where the sample lacks the value (then it is zeros, or empty). Empty when all have it.
  std::span<const uint8_t> present;

  // The elements as T, whose size is that of dtype.
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)};
  }
};

// Where the values of batches lie when it is not in ordinary memory: page-locked memory for uploads, say. Thread-safe:
// called on the loader's decoding threads, and Free on every thread that lets go of a batch, the loader's locks held.
// So neither may call the loader, nor wait for another thread that does.
class BatchMemory {
 public:
  virtual ~BatchMemory() = default;

  // `bytes` of memory, a multiple of 4096 above 0, aligned to 4096, not cleared; or null when there is none to be had,
  // and then ordinary memory is used instead. Must not wait for a batch. What it throws is the error of the batch that
  // it was called for.
  virtual void* Allocate(size_t bytes) = 0;
  // What Allocate gave for as many bytes. What it throws is the error of a later batch; the memory is not given back
  // again.
  virtual void Free(void* memory, size_t bytes) = 0;
  // Bytes that it gives at most. The loader keeps its batches within this, but for the oldest one.
  virtual uint64_t limit() const = 0;
};

struct BatchSample {
  uint32_t dataset = 0;  // in the order given to the loader
  uint32_t shard = 0;
  uint64_t ordinal = 0;   // in the dataset
  uint64_t position = 0;  // in the epoch's order; past its end for padding
};

// A sample left out, and why.
struct BadSample {
  uint64_t epoch = 0;
  BatchSample sample;
  uint32_t block = 0;  // in the shard
  absl::Status status;
};

// Const once delivered. Destroying it gives its memory back to the loader, which it may outlive. Thread-safe to read.
class Batch {
 public:
  virtual ~Batch() = default;

  virtual uint64_t epoch() const = 0;
  virtual uint64_t step() const = 0;  // since the loader's start in this epoch, from 0
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

  // Bytes of memory it holds.
  virtual uint64_t memory() const = 0;
};

}  // namespace shardkit
