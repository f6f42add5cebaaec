// The loader: what a trainer embeds. Reads blocks ahead in the order of a plan, decodes, and delivers batches.
//
//   auto loader = Loader::Open(*PosixFileSystem(), {{.path = "dataset"}}, options);
//   if (!loader.ok()) return loader.status();
//   while (true) {
//     auto batch = (*loader)->Next();
//     if (!batch.ok()) return batch.status();   // not the end: what is left of the epoch has not been seen
//     if (*batch == nullptr) break;             // the end
//     Train(**batch);
//   }
//
// The batches depend on the datasets, the options and the cursor alone: not on threads, timing or memory.
//
// Functions and objects of the user (DecodeFunction, BatchFunction, StageObserver, BatchMemory, FileSystem) are called
// on threads of the loader, on as many at once as it has, and the loader waits for them when it is destroyed. They may
// take locks and block, but not wait for a batch, and must not call Next or destroy the loader. They may throw: the
// loader is finished then, and Next returns Internal with the exception's text, or ResourceExhausted for
// std::bad_alloc. The same becomes of any want of memory on the loader's threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/batch.h"
#include "shardkit/filesystem.h"
#include "shardkit/image.h"
#include "shardkit/loader_report.h"
#include "shardkit/plan.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

struct LoaderDataset {
  std::string path;  // a dataset's directory or a shard
  // As in PlanDataset.
  double proportion = 0;
  double repeat = 0;
  uint64_t choose = 0;
};

// What becomes of the images of a sample, and of the masks that lie on them.
struct GeometryOptions {
  enum class Kind {
    kNative,             // as stored; sizes differ from sample to sample
    kResize,             // to width x height, whatever the proportions
    kCenterCrop,         // shorter side to `resize`, then width x width from the middle
    kRandomResizedCrop,  // a random box, to width x height
    kLongestSide,        // longer side to `width`, padded to width x width
  };
  Kind kind = Kind::kNative;
  uint32_t width = 0;   // pixels
  uint32_t height = 0;  // pixels; 0 is `width`
  uint32_t resize = 0;  // pixels; 0 is `width`
  RandomCropOptions crop;
  double flip_probability = 0;     // 0 to 1
  bool apply_orientation = false;  // turn the image (and masks) upright as its EXIF orientation says
};

enum class ColumnDecode {
  kStored,       // scalars and arrays of a fixed shape: a tensor; rle: runs; all others ragged
  kViews,        // any: the bytes as stored, not copied; for consumers that go over each value once
  kImage,        // jpeg, png, image, and such bytes: u8, height x width x channels; ragged when the geometry is native
  kMasks,        // rle: u8 masks, 0 or 1, through the geometry
  kPackedMasks,  // rle: one bit per pixel, rows of whole bytes (rle.h, DecodePacked)
  kTokens,       // one-dimensional arrays, packed into rows
  kFunction,     // LoaderColumn::function
};

// A value on its way through a user's function. Borrowed for the call.
struct FunctionInput {
  std::optional<std::string_view> value;  // as stored; empty when absent
  uint32_t dataset = 0;
  uint64_t ordinal = 0;
  uint64_t epoch = 0;
};

// Fills `out`, whose bytes are zero, with the tensor of one sample. Called on the decoding threads, on many at once. An
// error makes the sample a bad one (LoaderOptions::bad_samples). An exception does not: it is a fault of the function,
// ends the loader under either policy, and its error names the sample.
using DecodeFunction =
    std::function<absl::Status(const FunctionInput& input, AugmentationRandom& random, std::span<uint8_t> out)>;

// Called on a decoding thread with each batch before it is delivered, on many at once and in any order. May change
// values in place. An error, or what it throws, is delivered in the batch's stead.
using BatchFunction = std::function<absl::Status(Batch& batch)>;

struct LoaderColumn {
  std::string name;
  ColumnDecode decode = ColumnDecode::kStored;

  // kImage, kMasks, kPackedMasks: the geometry is left to whoever takes the batch, such as a GPU. Images come as
  // stored: whole, ragged, at full scale and not turned. Masks come as runs (kMaskRuns); packing and pad_masks are left
  // as well. BatchColumn::geometries says what to do with each image and each mask. What makes a sample a bad one (its
  // geometry, masks of another size than their image, more pixels than memory) does so here too.
  bool deferred = false;

  // kImage.
  int channels = 3;  // 1 gray or 3 RGB
  ImageDecodeOptions image;

  // kMasks, kPackedMasks with a geometry that is not native: [n, most masks, height, width] with zeros where a sample
  // has fewer, instead of one after the other.
  bool pad_masks = false;

  // kTokens.
  uint32_t context = 4096;  // tokens of a row
  int64_t padding_token = 0;

  // kFunction: what it makes of each value, without the dimension of the batch.
  DecodeFunction function;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;
};

enum class BadSamples {
  kFail,  // the first one ends the loader, with its error
  kSkip,  // left out of its batch, which is then smaller; counted and listed
};

// Is told what the loader's threads do, for profilers. Called on the thread that does it, ranges one within the other;
// thread-safe and quick. What it throws is not laid at any batch's door: Next returns it as soon as it is known.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  virtual void Begin(const char* stage) = 0;  // "read block", "lay out", "fill"; a literal
  virtual void End() = 0;
};

struct LoaderOptions {
  PlanOptions plan;  // batch_size is over all ranks
  uint64_t rank = 0;
  uint64_t world_size = 1;
  std::optional<Cursor> cursor;  // empty: the beginning of epoch 0
  uint64_t epochs = 1;           // ends after epochs 0 to epochs - 1; 0 goes on for ever

  std::vector<LoaderColumn> columns;  // empty: all columns but the key, as stored
  bool keys = true;                   // batches know the keys of their samples
  GeometryOptions geometry;
  BatchFunction batch_function;
  BadSamples bad_samples = BadSamples::kFail;

  ReadOptions read;

  // Where the values of batches lie; null is ordinary memory. Batches keep it.
  std::shared_ptr<BatchMemory> batch_memory;

  // Memory of blocks and batches, in bytes. The rank's share of the shuffle buffer has to fit in half of it. A step
  // that needs more by itself is given it, but a single block is not: one that claims more is ResourceExhausted, as
  // with ReadOptions::max_block_memory, and no memory is asked for.
  uint64_t memory_bytes = uint64_t{768} << 20;

  // 0 is auto: as many decoding threads as processors, and of reading threads as many as are found to help.
  int decode_threads = 0;
  int read_threads = 0;

  bool trace = false;  // record events for Loader::Trace
  std::shared_ptr<StageObserver> observer;
};

// One thread at a time, except Cancel, Report, Trace and AddTraceEvent. Destroying it stops its threads within one unit
// of work each (reading a block, decoding some samples).
class Loader {
 public:
  virtual ~Loader() = default;

  // Opens the datasets and starts the threads. `file_system` must outlive the loader, and with kViews its batches.
  // InvalidArgument for options that contradict each other, the data or the cursor; ResourceExhausted when the system
  // does not start as many threads.
  static absl::StatusOr<std::unique_ptr<Loader>> Open(FileSystem& file_system, std::vector<LoaderDataset> datasets,
                                                      const LoaderOptions& options);

  // The next batch, or null at the end. After an error the loader is finished and returns it again. Does not throw.
  virtual absl::StatusOr<std::shared_ptr<const Batch>> Next() = 0;

  // Makes a waiting and all later Next() return Cancelled. Thread-safe.
  virtual void Cancel() = 0;

  // Where a run goes on that has had all batches delivered so far.
  virtual Cursor cursor() const = 0;

  virtual const Plan& plan() const = 0;

  // Steps left in the epoch that the next batch belongs to.
  virtual uint64_t steps_left() const = 0;

  virtual LoaderReport Report() const = 0;

  // Events so far in Chrome's trace format (JSON), which Perfetto opens; empty without LoaderOptions::trace.
  virtual std::string Trace() const = 0;

  // Adds something that happens around the loader, between two times, to the trace. `name` is a literal, `lane` the row
  // it is shown in, `number` what tells it from others of its kind.
  virtual void AddTraceEvent(const char* name, std::string_view lane, std::chrono::steady_clock::time_point begin,
                             std::chrono::steady_clock::time_point end, uint64_t number) = 0;

  // Why another read mode than the one asked for is in use, or empty.
  virtual std::string fallback_reason() const = 0;
};

// The plan a loader would follow, without one: opens the datasets, reads block directories only. The plan does not
// need `file_system` any more.
absl::StatusOr<std::shared_ptr<const Plan>> PlanDatasets(FileSystem& file_system,
                                                         std::span<const LoaderDataset> datasets,
                                                         const PlanOptions& options);

}  // namespace shardkit
