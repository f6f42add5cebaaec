// The loader: what a trainer embeds. Reads blocks ahead in the order of a plan, decodes, and delivers batches.
//
//   auto loader = Loader::Open(*PosixFileSystem(), {{.path = "dataset"}}, options);
//   if (!loader.ok()) return loader.status();
//   while (true) {
//     auto batch = (*loader)->Next();
//     if (!batch.ok()) return batch.status();   // an error, not the end of the epoch
//     if (*batch == nullptr) break;             // the end
//     Train(**batch);
//   }
//
// The batches depend only on the datasets, the options and the cursor, not on threads, timing or memory.
//
// The loader calls the user's functions and objects (DecodeFunction, BatchFunction, StageObserver, BatchMemory,
// FileSystem) on its own threads, possibly on all of them at once. Its destructor waits for these calls. They may take
// locks and block, but must not wait for a batch, call Next or destroy the loader. They may throw: the loader is then
// finished, and Next returns Internal with the exception's text, or ResourceExhausted for std::bad_alloc. The loader's
// threads end in the same way when they run out of memory.
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

  // As DatasetOptions::generation: 0 is the newest.
  uint64_t generation = 0;
};

// How the images of a sample, and the masks that belong to them, are transformed.
struct GeometryOptions {
  enum class Kind {
    kNative,             // as stored; sizes differ from sample to sample
    kResize,             // to width x height; does not keep the proportions
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
  kViews,        // any: the bytes as stored, not copied; for consumers that read each value once
  kImage,        // jpeg, png, image, bytes of these: u8, height x width x channels; ragged when native
  kMasks,        // rle: u8 masks, 0 or 1, through the geometry
  kPackedMasks,  // rle: one bit per pixel, rows of whole bytes (rle.h, DecodePacked)
  kTokens,       // one-dimensional arrays, packed into rows
  kFunction,     // LoaderColumn::function
};

// The argument of a user's function. Valid during the call.
struct FunctionInput {
  std::optional<std::string_view> value;  // as stored; empty when absent
  uint32_t dataset = 0;
  uint64_t ordinal = 0;
  uint64_t epoch = 0;
};

// Fills `out` with the tensor of one sample; its bytes are zero before the call. Called on many decoding threads at
// once. An error makes the sample a bad one (LoaderOptions::bad_samples). An exception is a bug of the function: it
// ends the loader under either policy, and the loader's error names the sample.
using DecodeFunction =
    std::function<absl::Status(const FunctionInput& input, AugmentationRandom& random, std::span<uint8_t> out)>;

// Called on a decoding thread with each batch before it is delivered; many calls at once, in any order. May change
// values in place. Next returns the function's error or exception instead of the batch.
using BatchFunction = std::function<absl::Status(Batch& batch)>;

struct LoaderColumn {
  std::string name;
  ColumnDecode decode = ColumnDecode::kStored;

  // kImage, kMasks, kPackedMasks: the consumer of the batch, such as a GPU, applies the geometry. Images are delivered
  // as stored: whole, ragged, at full scale and not turned. Masks are delivered as runs (kMaskRuns), without packing
  // and pad_masks. BatchColumn::geometries says what to do with each image and each mask. The same samples are bad ones
  // as without `deferred` (for their geometry, masks of another size than their image, or more pixels than memory).
  bool deferred = false;

  // kImage.
  int channels = 3;  // 1 gray or 3 RGB
  ImageDecodeOptions image;

  // kMasks, kPackedMasks with a geometry that is not native: the shape is [n, most masks, height, width], with zeros
  // where a sample has fewer masks. Otherwise the masks of all samples are concatenated.
  bool pad_masks = false;

  // kTokens.
  uint32_t context = 4096;  // tokens of a row
  int64_t padding_token = 0;

  // kFunction: type and shape of what the function makes of one value, without the batch dimension.
  DecodeFunction function;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;
};

enum class BadSamples {
  kFail,  // the first bad sample ends the loader with its error
  kSkip,  // bad samples are left out, so their batch is smaller; counted and listed
};

// For profilers: is told what the loader's threads do. Called on the thread that does the work; ranges nest. Must be
// thread-safe and quick. An exception that it throws belongs to no batch: Next returns it as soon as it is known.
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

  // Allows steps in which this rank has no sample (Plan::CheckRanks). For a caller that takes samples one by one: the
  // mean of an empty batch is NaN.
  bool empty_batches = false;

  std::optional<Cursor> cursor;  // empty: the beginning of first_epoch
  uint64_t first_epoch = 0;
  uint64_t epochs = 1;  // epochs 0 to epochs - 1; 0 never ends

  // Each epoch has the newest generations of the datasets: Next() looks at their manifests, one small read each, after
  // the last batch of an epoch, and opens the datasets again when one is newer. What was read ahead of the next epoch
  // is then dropped, and Report and Trace begin anew. A cursor inside an epoch opens the generations it is of, for the
  // rest of that epoch; one at the beginning of an epoch, or none, opens the newest, and is not compared with the plan.
  //
  // For one rank only: ranks look at different moments, and must not differ in what an epoch has. With several, one of
  // them asks NewestGenerations between epochs and tells the others, and all open a loader with that
  // LoaderDataset::generation and first_epoch.
  bool follow = false;

  std::vector<LoaderColumn> columns;  // empty: all columns except the key, as stored
  bool keys = true;                   // batches hold the keys of their samples
  GeometryOptions geometry;
  BatchFunction batch_function;
  BadSamples bad_samples = BadSamples::kFail;

  ReadOptions read;

  // Allocates the values of batches; null is ordinary memory. Batches share its ownership.
  std::shared_ptr<BatchMemory> batch_memory;

  // The most memory of blocks and batches, in bytes. The rank's share of the shuffle buffer has to fit in half of it.
  // One step may exceed this when it needs more by itself. A single block may not: a larger one is ResourceExhausted
  // before its memory is allocated, as with ReadOptions::max_block_memory. Besides the shuffle buffer, blocks take what
  // hides the time of a read: 8 MiB, or two blocks for each reading thread. Blocks of a dataset that is small (64 MiB)
  // or fits in the shuffle buffer stay in memory and are read once; when reads wait for a device, those of any dataset
  // that fits in the budget. Of others, with ReadMode::kAuto, values in the system's page cache take no memory before
  // their batch is made.
  uint64_t memory_bytes = uint64_t{768} << 20;

  // 0 is automatic: AvailableProcessors() decoding threads, and reading threads as long as one more makes reading
  // faster.
  int decode_threads = 0;
  int read_threads = 0;

  bool trace = false;  // record events for Loader::Trace
  std::shared_ptr<StageObserver> observer;
};

// One thread at a time, except Cancel, Report, Trace and AddTraceEvent. The destructor stops the loader's threads: each
// first finishes its unit of work (reading one block, decoding some samples).
class Loader {
 public:
  virtual ~Loader() = default;

  // Opens the datasets and starts the threads. `file_system` must outlive the loader, and with kViews also its batches.
  // InvalidArgument for options that contradict each other, the data or the cursor. ResourceExhausted when the system
  // cannot start enough threads.
  static absl::StatusOr<std::unique_ptr<Loader>> Open(ReadableFileSystem& file_system,
                                                      std::vector<LoaderDataset> datasets,
                                                      const LoaderOptions& options);

  // The next batch, or null at the end. After an error the loader is finished and returns it again. Does not throw.
  virtual absl::StatusOr<std::shared_ptr<const Batch>> Next() = 0;

  // Waits until Next() would not wait, and at most `timeout`: false when that time passes first. For callers that have
  // to do something else from time to time, such as look for signals. The wait counts as one of Next().
  virtual bool WaitFor(std::chrono::steady_clock::duration timeout) = 0;

  // Makes a waiting Next() or WaitFor() and all later ones return; Next() returns Cancelled. Thread-safe.
  virtual void Cancel() = 0;

  // Where a later run continues after all batches delivered so far.
  virtual Cursor cursor() const = 0;

  // Valid while the loader lives; with LoaderOptions::follow, until Next() is called.
  virtual const Plan& plan() const = 0;

  // Steps left in the epoch that the next batch belongs to.
  virtual uint64_t steps_left() const = 0;

  virtual LoaderReport Report() const = 0;

  // Events so far in Chrome's trace format (JSON), which Perfetto opens; empty without LoaderOptions::trace.
  virtual std::string Trace() const = 0;

  // Adds an event outside the loader, from `begin` to `end`, to the trace. `name` is a literal, `lane` the row that
  // shows it, and `number` distinguishes it from other events of its kind.
  virtual void AddTraceEvent(const char* name, std::string_view lane, std::chrono::steady_clock::time_point begin,
                             std::chrono::steady_clock::time_point end, uint64_t number) = 0;

  // The reason when the read mode differs from the requested one; else empty.
  virtual std::string fallback_reason() const = 0;
};

// The newest generation of each dataset, in one small read for each; 0 for single shards and other containers, which
// have no generations.
absl::StatusOr<std::vector<uint64_t>> NewestGenerations(ReadableFileSystem& file_system,
                                                        std::span<const LoaderDataset> datasets);

// The plan that a loader would follow. Opens the datasets and reads only their block directories. Of a dataset that is
// visited in sections, the plan reads them when they are asked for, so that `file_system` must outlive it.
absl::StatusOr<std::shared_ptr<const Plan>> PlanDatasets(ReadableFileSystem& file_system,
                                                         std::span<const LoaderDataset> datasets,
                                                         const PlanOptions& options);

}  // namespace shardkit
