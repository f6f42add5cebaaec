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
// The loader calls the user's functions and objects (DecodeFunction, BatchFunction, StageObserver,
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
#include "shardkit/device.h"
#include "shardkit/filesystem.h"
#include "shardkit/image.h"
#include "shardkit/plan.h"
#include "shardkit/schema.h"
#include "shardkit/select.h"
#include "shardkit/shard.h"

namespace shardkit {

// A batch: the samples of one step that belong to this rank, column by column. Its memory is reused.

// The memory layout of a column of a batch of n samples. All arrays are dense and in the order of the samples.
enum class BatchLayout {
  kTensor,    // shape [n, …]
  kRagged,    // sample i has elements [offsets[i], offsets[i + 1]); `shapes` as well for arrays and images of their own
              // size
  kMasks,     // sample i has masks [offsets[i], offsets[i + 1]); see BatchColumn
  kMaskRuns,  // the same, as run lengths
  kTokens,    // documents packed into rows: shape [rows, context]; sample i is a piece of a document
  kPadded,    // shape [n, most items, …]; sample i has offsets[i + 1] - offsets[i] items, and padding after them
  kViews,     // only `views`, which point to the values where they were read
};

// The batch owns everything that this points to.
struct BatchColumn {
  std::string_view name;
  BatchLayout layout = BatchLayout::kTensor;
  Type dtype = Type::kU8;      // of `values`: a scalar type
  Type stored = Type::kBytes;  // of the stored column, which tells texts from other bytes

  // kTensor: n first. kTokens: {rows, context}. kMasks of one size: {masks, height, width}, the last one in bytes when
  // bit-packed; padded: {n, most masks, height, width}. Empty for the others.
  std::vector<uint64_t> shape;

  // Elements of dtype, in the memory of Batch::device(). Aligned to 4096 bytes on the host, to 256 on other devices,
  // whose memory only work in streams that were passed to Batch::WaitOn may use.
  std::span<uint8_t> values;

  // n + 1 entries, first 0, except for kTensor and kTokens. Elements for kRagged, items for kPadded, masks for the
  // others.
  std::span<const uint64_t> offsets;

  // For kMaskRuns, and for kMasks when the masks have sizes of their own; an item is a mask. One entry per mask and one
  // at the end, in elements of `values`: runs (kMaskRuns), pixels, or packed bytes.
  std::span<const uint64_t> item_offsets;

  // kRagged: `shape_rank` numbers per sample: {height, width, channels} of images, the shape of arrays, with 1s in
  // front of shorter shapes. Masks: {height, width} per mask. kTokens: {row, begin, length, offset} per sample: its
  // place in the row, and where in its document it begins, in tokens.
  std::span<const uint64_t> shapes;
  uint32_t shape_rank = 0;

  // kViews: the value of each sample as stored, null where it is absent. The batch keeps the blocks of the values.
  std::span<const std::string_view> views;

  // kImage: what was done with each image, or with LoaderColumn::deferred is still to be done; one entry per sample,
  // Geometry{}, whose sizes are 0, for one without an image. Masks have them only where they are deferred, and one
  // entry per mask: without an image, the masks of one sample may differ in size.
  std::span<const Geometry> geometries;

  // One byte per sample, 0 where the sample lacks the value; its elements are then zeros (an image's: black) or empty.
  // Empty when no sample lacks the value.
  std::span<const uint8_t> present;

  // Copies of offsets, item_offsets, shapes and present, which are always on the host, in the memory of
  // Batch::device(). Null where empty, and on the host.
  struct Arrays {
    const uint64_t* offsets = nullptr;
    const uint64_t* item_offsets = nullptr;
    const uint64_t* shapes = nullptr;
    const uint8_t* present = nullptr;
  };
  Arrays on_device;

  // The elements as T, which must have the size of dtype.
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)};
  }
};

struct BatchSample {
  uint32_t dataset = 0;  // in the order given to the loader
  uint32_t shard = 0;
  uint64_t ordinal = 0;   // in the dataset
  uint64_t position = 0;  // in the epoch's order; of the row, where documents are packed
  uint32_t copy = 0;     // PlannedSample::copy: other random crops than those of the same sample elsewhere in the epoch
  bool padding = false;  // repeats a sample of the epoch (Remainder::kPad)
};

// A sample left out, and why.
struct BadSample {
  uint64_t epoch = 0;
  BatchSample sample;
  uint32_t block = 0;  // in the shard
  absl::Status status;
};

// Const once delivered. Destroying it returns its memory to the loader. May outlive the loader. Thread-safe to read.
//
// On a device other than the host, what a batch says about its samples is valid at once, its arrays only when the
// device has finished its copies and kernels. WaitOn orders a consumer's work with them. Later batches reuse the memory
// only after the work that is in the stream when the batch is destroyed. To use the arrays in other ways, call
// Synchronize first, and finish before the batch is destroyed.
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

  // Bytes of memory of device() that the batch holds.
  virtual uint64_t memory() const = 0;

  // Where the values lie.
  virtual const DeviceInfo& device() const;

  // Work queued in `stream` from now on waits for the arrays; the caller does not wait. `stream` must outlive the
  // batch. On the host there is nothing to wait for, as in the next two.
  virtual absl::Status WaitOn(DeviceStream /*stream*/) const { return absl::OkStatus(); }

  // Blocks the caller until the copies and kernels of this batch end, and returns their outcome. The loader's next
  // Next() also returns an error that the device found.
  virtual absl::Status Synchronize() const { return absl::OkStatus(); }

  // The outcome without waiting; empty while the work is in progress.
  virtual std::optional<absl::Status> outcome() const { return absl::OkStatus(); }
};

// Seconds summed over the stage's threads.
struct StageTimes {
  double busy = 0;
  double starved = 0;  // waiting for input
  double blocked = 0;  // waiting for room at its output: the stage after it is slower, or memory is full
  int threads = 0;

  double total() const { return busy + starved + blocked; }
};

inline constexpr size_t kMostSkippedListed = 100;

struct LoaderReport {
  StageTimes read;          // from the files, checksums and decompression included
  StageTimes decode;        // to batches
  StageTimes upload;        // queueing copies and kernels; no threads on the host. Blocked also for device memory
  double file_seconds = 0;  // part of read.busy: reads of files; the rest is checking and decompressing

  double seconds = 0;                // since the first Next()
  double consumer_wait_seconds = 0;  // in Next(), without the first call
  double first_batch_seconds = 0;    // in the first Next(), without Open
  double step_seconds = 0;           // from the end of the first Next() to the end of the last one

  uint64_t batches = 0;
  uint64_t samples = 0;     // in rows of tokens, pieces of documents
  uint64_t bytes = 0;       // of batches delivered
  uint64_t bytes_read = 0;  // of blocks, as stored

  // With ReadMode::kAuto: values, with their checksums, that their blocks left in the system's page cache, and that
  // were copied from there into batches. bytes_read counts their blocks as well.
  uint64_t bytes_from_cache = 0;

  uint64_t blocks_read = 0;

  // What was asked of the file system, opening included; of a store what was sent to it, without what the cache on
  // local disk answered. Reads through memory maps are not counted.
  uint64_t requests = 0;
  uint64_t bytes_requested = 0;
  uint64_t bytes_bridged = 0;  // of these, what lay between wanted ranges and was read to save a request
  uint64_t round_trips = 0;    // the longest chain of requests of which each began after the one before it had ended

  uint64_t blocks_read_again = 0;  // dropped for lack of memory and read again
  uint64_t skipped = 0;
  std::vector<BadSample> first_skipped;  // up to kMostSkippedListed
  uint64_t warned_images = 0;            // that libjpeg decodes with a warning (ImageDecoder::warning)

  uint64_t block_memory = 0;  // bytes, now
  uint64_t batch_memory = 0;
  uint64_t peak_block_memory = 0;
  uint64_t peak_batch_memory = 0;

  // Of a device other than the host. The consumer's figures above are then those of batches on the device.
  double memory_wait_seconds = 0;  // part of upload.blocked: waiting for device memory
  uint64_t uploaded_bytes = 0;
  uint64_t staged_bytes = 0;   // part of them: from ordinary memory, copied once more
  double copy_seconds = 0;     // device time of uploads
  double kernel_seconds = 0;   // device time of kernels
  uint64_t pinned_memory = 0;  // bytes, now; also with LoaderOptions::pin_memory
  uint64_t peak_pinned_memory = 0;
  uint64_t device_memory = 0;
  uint64_t peak_device_memory = 0;

  uint64_t token_positions = 0;  // tokens that fit in the packed rows
  uint64_t tokens = 0;           // tokens in them

  // Integer columns whose equal values stand together as the datasets are stored, so that the shuffle buffer, which is
  // smaller than they are, mixes few values at a time: see ClumpedColumns. Of the blocks read, in the shuffled order.
  std::vector<std::string> clumped_columns;

  // What LoaderDataset::balance did, of each dataset that has it: the values, and what becomes of their numbers.
  std::vector<std::string> balance_notes;

  bool remote = false;        // a dataset is behind a URL
  bool auto_threads = false;  // the loader chose the numbers of threads
  std::string threads_note;   // how it chose them

  // The consumer's wait as a share of step time: 0 to 1.
  double wait_share() const { return step_seconds > 0 ? consumer_wait_seconds / step_seconds : 0; }
};

// The report of two loaders one after the other, as where a run went on with another one: sums of what both did, the
// larger of peaks, and what is now of the second.
LoaderReport Total(const LoaderReport& first, const LoaderReport& second);

// The stage that bounds a loader, and what to do about it.
struct Diagnosis {
  // "consumer", "decode", "read", "memory", "overhead" when no stage is busy, "none" before the second batch; of a
  // device also "copy", "kernel" and "upload".
  std::string stage;
  std::string reason;  // with the figures
  std::string advice;  // names the option to change
};

Diagnosis Diagnose(const LoaderReport& report);

struct LoaderDataset {
  std::string path;  // a dataset's directory or a shard
  // As in PlanDataset.
  double proportion = 0;
  double repeat = 0;
  uint64_t choose = 0;
  std::vector<ProportionChange> changes;

  // As DatasetOptions::generation: 0 is the newest.
  uint64_t generation = 0;

  // The samples that epochs take: all by default. Open looks at them once, and reads the columns that this needs;
  // blocks without one of the samples are not read afterwards. `repeat` and `choose` are about these samples.
  SampleSelection selection;

  // How often epochs take each sample of the dataset, by ordinal, relative to the others (PlanDataset::weights).
  // Weights of samples that are not selected do not count.
  std::shared_ptr<const std::vector<double>> weights;

  // A column, in place of weights: all of its values come equally often, integers, bools or texts, whatever the number
  // of samples that have them. Samples without a value are not taken. Open reads the column.
  std::string balance;

  // As PlanDataset::replacement.
  bool replacement = true;
};

enum class ColumnDecode {
  kStored,       // scalars and arrays of a fixed shape: a tensor; rle: runs; all others ragged
  kViews,        // any: the bytes as stored, not copied; for consumers that read each value once
  kImage,        // jpeg, png, image, bytes of these, and arrays u8[height, width] or u8[height, width, 1 or 3]:
                 // height x width x channels, u8 or `output`; ragged when native, but for arrays of one shape
  kLabels,       // png, image, bytes of these: class numbers, height x width (DecodeLabelMap); ragged when native
  kMasks,        // rle: u8 masks, 0 or 1, through the geometry
  kPackedMasks,  // rle: one bit per pixel, rows of whole bytes (rle.h, DecodePacked)
  kTokens,       // one-dimensional arrays of integers, or bytes of these: documents, packed into rows
  kBoxes,        // arrays [boxes, 4]: f32, through the geometry of the sample's image; padded
  kPoints,       // arrays [items, …, 2 or more], x and y before others: f32, through the geometry; padded
  kItems,        // arrays [items, …]: as stored; padded
  kFunction,     // LoaderColumn::function
};

// Which items of a sample with more than LoaderColumn::most a batch has; they keep their order.
enum class ItemChoice {
  kFirst,
  kRandom,   // others in every epoch
  kLargest,  // boxes by what the output shows of them, masks by their pixels as stored
};

// Four numbers of a box, in pixels: left edge x, upper edge y, width, height; both corners; the middle and the size.
enum class BoxFormat { kXywh, kXyxy, kCxcywh };

// How documents become rows of tokens: within neighbouring blocks of 128 rows or more, fewer where these have 32 MiB.
enum class TokenPacking {
  kBestFit,  // a document is cut only where it is longer than a row; rows end with some padding
  kConcat,   // one document after another, cut where a row is full; the last of these rows may be not full
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

  // The stored column; empty: `name`. Several columns of the batch may be made of one.
  std::string source;

  // kImage: the geometry of this image and of what belongs to it, in place of LoaderOptions::geometry. Views of one
  // image differ in GeometryOptions::stream.
  std::optional<GeometryOptions> geometry;

  // kLabels, masks, boxes and points: the kImage column, by its name in the batch, that they belong to. Empty: the
  // first one without a geometry of its own, or the first one.
  std::string of;

  // kImage, kMasks, kPackedMasks, on the host: the consumer of the batch applies the geometry. Images are delivered
  // as stored: whole, ragged, at full scale and not turned. Masks are delivered as runs (kMaskRuns), without packing
  // and pad_masks. BatchColumn::geometries says what to do with each image and each mask. The same samples are bad ones
  // as without `deferred` (for their geometry, masks of another size than their image, or more pixels than memory).
  bool deferred = false;

  // kImage. A planar `output` has the shape channels x height x width. Absent images are black.
  int channels = 3;  // 1 gray or 3 RGB
  ImageDecodeOptions image;
  AugmentOptions augment;  // of u8 pixels, before `output`; not where the geometry is deferred, also to a device
  PixelOutput output;

  // kLabels: the number of padding, and of all pixels of an absent map. `dtype` and image.max_memory are as for
  // DecodeLabelMap.
  int64_t label_fill = 255;

  // kMasks, kPackedMasks with a geometry that is not native: the shape is [n, most masks, height, width], with zeros
  // where a sample has fewer masks. Otherwise the masks of all samples are concatenated.
  bool pad_masks = false;

  // kBoxes, kPoints: they are drawn on the upright image, as annotation tools show it; else on the image as stored.
  // Without GeometryOptions::apply_orientation, a sample whose image EXIF would turn is then a bad one. The sample's
  // image has to be among the columns.
  bool upright = true;

  // kBoxes. Boxes of which less than min_area square pixels of the output show are left out, and with 0 none. The
  // others are cut at the edges of the picture with `clip`.
  BoxFormat box_format = BoxFormat::kXywh;  // as stored
  BoxFormat output_boxes = BoxFormat::kXyxy;
  bool clip = true;
  double min_area = 1;

  // kBoxes, kMasks, kPackedMasks, without `along`: the most items of a sample, 0 for all, and which.
  uint32_t most = 0;
  ItemChoice choose = ItemChoice::kFirst;

  // kBoxes, kPoints, kItems, kMasks, kPackedMasks: the column of boxes or masks that they belong to, item by item, and
  // which has none itself. What is left out there is left out here, and nothing else (min_area does not count). A
  // sample with other numbers of items in the two is a bad one, but for an absent value here, which has none.
  std::string along;

  // kBoxes, kPoints, kItems: the number that pads samples with fewer items.
  int64_t padding = 0;

  // kTokens. The samples of the plan are then rows: PlanOptions::batch_size counts them, every step has that many, all
  // of one shape, and a cursor stands between them. The samples of a batch are the documents in its rows, row by row;
  // of a document that is cut there is one for each piece. In each epoch of a shuffled order other documents share a
  // row, as far as they fit. Documents without tokens are in no row. Of several such columns the first one says which
  // documents there are; the others have the same context and packing, and for each document as many tokens.
  //
  // Open reads the lengths of all documents. On a disk, of a column of bytes without a codec whose values are blobs
  // (1 KiB or more on average), that is little more; else each rank reads the column, with `follow` for each
  // generation.
  uint32_t context = 4096;  // tokens of a row
  TokenPacking packing = TokenPacking::kBestFit;
  int64_t padding_token = 0;

  // kFunction: type and shape of what the function makes of one value, without the batch dimension. kLabels: the type.
  // kTokens: that of tokens stored as bytes, little-endian; of arrays it is known.
  DecodeFunction function;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;
};

enum class BadSamples {
  kFail,  // the first bad sample ends the loader with its error
  kSkip,  // bad samples are left out, so their batch is smaller, or in rows of tokens padding is; counted and listed
};

// What becomes of a column that one of several datasets does not have.
enum class MissingColumns {
  kFail,    // the loader is not opened
  kAbsent,  // its samples have no value of it (BatchColumn::present); one dataset at least has it
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

  // Empty: all columns except the key, as stored; of several datasets those of the first, with `missing` of all.
  std::vector<LoaderColumn> columns;
  MissingColumns missing = MissingColumns::kFail;
  bool keys = true;  // batches hold the keys of their samples
  GeometryOptions geometry;
  BatchFunction batch_function;
  BadSamples bad_samples = BadSamples::kFail;

  ReadOptions read;

  // Where batches lie: "host"; "cuda:N", or "cuda" for the first one; or "emulated", which does the work of a CUDA
  // device with threads and memory of the host, for tests of programs without a GPU. Batches hold the same samples in
  // the same order on all.
  //
  // Values are decoded into page-locked memory and copied from there while the step before computes. The copies are
  // small: images travel as u8, and become LoaderColumn::output on the device; masks travel as run lengths. kViews is
  // refused, because the device needs a column's values in one place. batch_function gets batches on the host.
  std::string device = "host";

  // With a device: resize, crop, mirror and pad images there. Images are then decoded and uploaded at their full size.
  // The pixels are those of ImageDecodeOptions::scaled_decode = false. Saves processor time where JPEGs are hardly
  // larger than their output. Where they are much larger, it is less work to decode only the needed part.
  bool device_geometry = false;

  // On the host: values lie in memory that is page-locked for CUDA, for programs that copy them to a device themselves.
  bool pin_memory = false;

  // With a device or pin_memory: the most page-locked memory, including batches that wait for the device; 4 MiB or
  // more. Open refuses more than half of the memory that the process may have (all loaders together). The loader keeps
  // its batches within this. Values that find no room here are in ordinary memory, and for a device copied once more.
  uint64_t pinned_bytes = uint64_t{512} << 20;

  // Device memory of batches, including those that the consumer holds. 0: as much as needed, at most twice the recent
  // peak use. A consumer that holds more still gets the next batch that it asks for.
  uint64_t device_bytes = 0;

  // Batches queued to the device that the consumer has not taken yet, 2 or more.
  int device_batches = 2;

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
// first finishes its unit of work (reading one block, decoding some samples, the device's copies in progress).
class Loader {
 public:
  virtual ~Loader() = default;

  // Opens the datasets and starts the threads. `file_system` must outlive the loader, and with kViews also its batches.
  // InvalidArgument for options that contradict each other, the data or the cursor. ResourceExhausted when the system
  // cannot start enough threads, and for too much page-locked memory. Of the device: NotFound when it does not exist,
  // Unavailable when this build or this machine has no CUDA.
  static absl::StatusOr<std::unique_ptr<Loader>> Open(ReadableFileSystem& file_system,
                                                      std::vector<LoaderDataset> datasets,
                                                      const LoaderOptions& options);

  // The next batch, or null at the end. After an error the loader is finished and returns it again. Does not throw. On
  // a device, the uploads of its arrays may still be in progress (see Batch), and the error may be one that the device
  // found in an earlier batch.
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

  // Events so far in Chrome's trace format (JSON), which Perfetto opens; empty without LoaderOptions::trace. Has lanes
  // for the device: "cuda:0 copy" and "cuda:0 kernels".
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
