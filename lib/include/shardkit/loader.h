// The loader for training. Reads blocks ahead in the order of a plan, decodes, and delivers batches.
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
// The loader calls the user's functions and objects (DecodeFunction, BatchFunction, StageObserver, FileSystem) on its
// own threads, possibly on all of them at once. Its destructor waits for these calls. They may take locks and block,
// but must not wait for a batch, call Next or destroy the loader. They may throw: the loader is then finished, and Next
// returns Internal with the exception's text, or ResourceExhausted for std::bad_alloc. The same happens if the loader's
// threads run out of memory.
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

// The memory layout of a column of a batch with n samples. All arrays are dense and in the order of the samples.
enum class BatchLayout {
  kTensor,    // shape [n, …]
  kRagged,    // sample i has elements [offsets[i], offsets[i + 1]); also `shapes` for arrays and images of various
              // sizes
  kMasks,     // sample i has masks [offsets[i], offsets[i + 1]); see BatchColumn
  kMaskRuns,  // the same, as run lengths
  kTokens,    // documents packed into rows: shape [rows, context]; sample i is a piece of a document
  kPadded,    // shape [n, most items, …]; sample i has offsets[i + 1] - offsets[i] items, then padding
  kViews,     // only `views`, which point to the values in their blocks
};

// The batch owns all memory that this points to.
struct BatchColumn {
  std::string_view name;
  BatchLayout layout = BatchLayout::kTensor;
  Type dtype = Type::kU8;      // of `values`: a scalar type
  Type stored = Type::kBytes;  // of the stored column: distinguishes text from other bytes

  // kTensor: n first. kTokens: {rows, context}. kMasks of one size: {masks, height, width}, the last in bytes if
  // bit-packed; padded: {n, most masks, height, width}. Empty for the others.
  std::vector<uint64_t> shape;

  // Elements of dtype, in the memory of Batch::device(). Aligned to 4096 bytes on the host, to 256 on other devices.
  // Memory of other devices may be used only by work in streams that were passed to Batch::WaitOn.
  std::span<uint8_t> values;

  // n + 1 entries, first 0, except for kTensor and kTokens. Elements for kRagged, items for kPadded, masks for the
  // others.
  std::span<const uint64_t> offsets;

  // For kMaskRuns, and for kMasks with masks of various sizes; an item is a mask. One entry per mask and one at the
  // end, in elements of `values`: runs (kMaskRuns), pixels, or packed bytes.
  std::span<const uint64_t> item_offsets;

  // kRagged: `shape_rank` numbers per sample: {height, width, channels} of images, the shape of arrays, with 1s in
  // front of shorter shapes. Masks: {height, width} per mask. kTokens: {row, begin, length, offset} per sample: its
  // place in the row, and its start in the document, in tokens.
  std::span<const uint64_t> shapes;
  uint32_t shape_rank = 0;

  // kViews: the stored value of each sample, null if absent. The batch keeps the blocks of the values.
  std::span<const std::string_view> views;

  // kImage: the geometry that was applied to each image, or with LoaderColumn::deferred must still be applied. One
  // entry per sample; Geometry{}, with sizes of 0, without an image. Masks: only if deferred, with one entry per mask:
  // without an image, the masks of one sample may differ in size.
  std::span<const Geometry> geometries;

  // One byte per sample, 0 if the sample lacks the value; its elements are then zeros (an image is black) or empty.
  // Empty if all samples have the value.
  std::span<const uint8_t> present;

  // Copies of offsets, item_offsets, shapes and present in the memory of Batch::device(); the originals are always on
  // the host. Null for empty arrays, and on the host.
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
  uint64_t position = 0;  // in the epoch's order; for packed documents, of the row
  uint32_t copy = 0;      // PlannedSample::copy: each copy of a sample in an epoch has other random crops
  bool padding = false;   // repeats a sample of the epoch (Remainder::kPad)
};

// A skipped sample, and the reason.
struct BadSample {
  uint64_t epoch = 0;
  BatchSample sample;
  uint32_t block = 0;  // in the shard
  absl::Status status;
};

// Const once delivered. Destroying it returns its memory to the loader. May outlive the loader. Thread-safe to read.
//
// On a device other than the host, information about the samples is valid at once, but the arrays only after the device
// has finished its copies and kernels. WaitOn orders a consumer's work after them. Later batches reuse the memory only
// after the work that is in the stream when the batch is destroyed. To use the arrays in other ways, call Synchronize
// first, and finish before the batch is destroyed.
class Batch {
 public:
  virtual ~Batch() = default;

  virtual uint64_t epoch() const = 0;
  virtual uint64_t step() const = 0;  // from 0, since the loader started in this epoch
  virtual size_t size() const = 0;    // samples
  virtual std::span<const BatchSample> samples() const = 0;
  virtual std::string_view key(size_t i) const = 0;  // empty without LoaderOptions::keys
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

  // Bytes that the batch holds in the memory of device().
  virtual uint64_t memory() const = 0;

  // The device that holds the values.
  virtual const DeviceInfo& device() const;

  // Work queued in `stream` from now on waits for the arrays; the caller does not wait. `stream` must outlive the
  // batch. On the host there is nothing to wait for, here and below.
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
  double blocked = 0;  // waiting for room at its output: the next stage is slower, or memory is full
  int threads = 0;

  double total() const { return busy + starved + blocked; }
};

inline constexpr size_t kMostSkippedListed = 100;

struct LoaderReport {
  StageTimes read;          // from files, including checksums and decompression
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
  uint64_t bytes_read = 0;  // stored bytes of blocks

  // With ReadMode::kAuto: bytes of values, with their checksums, that were copied into batches directly from the
  // system's page cache. bytes_read counts their blocks as well.
  uint64_t bytes_from_cache = 0;

  uint64_t blocks_read = 0;

  // Requests to the file system, including opening; for a store, requests sent to it, without reads from the cache on
  // local disk. Reads through memory maps are not counted.
  uint64_t requests = 0;
  uint64_t bytes_requested = 0;
  uint64_t bytes_bridged = 0;  // of these, between wanted ranges, read to save a request
  uint64_t round_trips = 0;    // the longest chain of requests that each began after the end of the previous one

  uint64_t blocks_read_again = 0;  // dropped for lack of memory and read again
  uint64_t skipped = 0;
  std::vector<BadSample> first_skipped;  // up to kMostSkippedListed
  uint64_t warned_images = 0;            // that libjpeg decodes with a warning (ImageDecoder::warning)

  uint64_t block_memory = 0;  // bytes, now
  uint64_t batch_memory = 0;
  uint64_t peak_block_memory = 0;
  uint64_t peak_batch_memory = 0;

  // For a device other than the host. The consumer's figures above are then for batches on the device.
  double memory_wait_seconds = 0;  // part of upload.blocked: waiting for device memory
  uint64_t uploaded_bytes = 0;
  uint64_t staged_bytes = 0;   // part of these: from ordinary memory, copied once more
  double copy_seconds = 0;     // device time of uploads
  double kernel_seconds = 0;   // device time of kernels
  uint64_t pinned_memory = 0;  // bytes, now; also with LoaderOptions::pin_memory
  uint64_t peak_pinned_memory = 0;
  uint64_t device_memory = 0;
  uint64_t peak_device_memory = 0;

  uint64_t token_positions = 0;  // tokens that fit in the packed rows
  uint64_t tokens = 0;           // tokens in them

  // Integer columns whose equal values are stored together, so that the smaller shuffle buffer mixes few values at a
  // time (see ClumpedColumns). Judged from the blocks read, in the shuffled order.
  std::vector<std::string> clumped_columns;

  // The effect of LoaderDataset::balance, for each dataset with it: the values, and their numbers before and after.
  std::vector<std::string> balance_notes;

  bool remote = false;        // a dataset is behind a URL
  bool auto_threads = false;  // the loader chose the numbers of threads
  std::string threads_note;   // how it chose them

  // The consumer's wait as a share of step time: 0 to 1.
  double wait_share() const { return step_seconds > 0 ? consumer_wait_seconds / step_seconds : 0; }
};

// The joint report of two loaders, one after the other, as in a run that a second loader continues: the sums of both,
// the larger peaks, and the current figures of the second.
LoaderReport Total(const LoaderReport& first, const LoaderReport& second);

// The stage that limits a loader, and a remedy.
struct Diagnosis {
  // "consumer", "decode", "read", "memory", "overhead" if no stage is busy, "none" before the second batch; for a
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

  // The samples that epochs take: all by default. Open selects them once, and reads the columns that this needs; blocks
  // without a selected sample are not read afterwards. `repeat` and `choose` count selected samples.
  SampleSelection selection;

  // How often epochs take each sample of the dataset, by ordinal, relative to the others (PlanDataset::weights).
  // Weights of unselected samples do not count.
  std::shared_ptr<const std::vector<double>> weights;

  // A column, in place of weights: all of its values (integers, bools or texts) come equally often, regardless of the
  // number of samples with each value. Samples without a value are not taken. Open reads the column.
  std::string balance;

  // As PlanDataset::replacement.
  bool replacement = true;
};

enum class ColumnDecode {
  kStored,       // scalars and arrays of a fixed shape: a tensor; rle: runs; other types: ragged
  kViews,        // any type: the bytes as stored, not copied; for consumers that read each value once
  kImage,        // jpeg, png, image, bytes of these, and arrays u8[height, width] or u8[height, width, 1, 3 or 4]:
                 // height x width x channels, u8 or `output`; ragged if native, except arrays of one shape
  kLabels,       // png, image, bytes of these: class numbers, height x width (DecodeLabelMap); ragged if native
  kMasks,        // rle: u8 masks, 0 or 1, through the geometry
  kPackedMasks,  // rle: one bit per pixel, rows of whole bytes (rle.h, DecodePacked)
  kTokens,       // one-dimensional arrays of integers, or bytes of these: documents, packed into rows
  kBoxes,        // arrays [boxes, 4]: f32, through the geometry of the sample's image; padded
  kPoints,       // arrays [items, …, 2 or more], x and y before others: f32, through the geometry; padded
  kItems,        // arrays [items, …]: as stored; padded
  kFunction,     // LoaderColumn::function
};

// The choice of items for a sample with more than LoaderColumn::most; they keep their order.
enum class ItemChoice {
  kFirst,
  kRandom,   // different in every epoch
  kLargest,  // boxes by their area in the output, masks by their stored pixels
};

// Four numbers of a box, in pixels: left edge x, upper edge y, width, height; both corners; the middle and the size.
enum class BoxFormat { kXywh, kXyxy, kCxcywh };

// Packing of documents into rows of tokens: within neighbouring blocks of 128 rows or more, fewer if they have 32 MiB.
enum class TokenPacking {
  kBestFit,  // a document is cut only if it is longer than a row; rows end with some padding
  kConcat,   // one document after another, cut at the end of a row; the last row may not be full
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

  // The stored column; empty: `name`. Several columns of the batch may have the same source.
  std::string source;

  // kImage: the geometry of this image and of the columns that belong to it, instead of LoaderOptions::geometry. Views
  // of one image differ in GeometryOptions::stream.
  std::optional<GeometryOptions> geometry;

  // kLabels, masks, boxes and points: the kImage column that they belong to, by its name in the batch. Empty: the first
  // one without a separate geometry, or the first one.
  std::string of;

  // kImage, kMasks, kPackedMasks, on the host: the consumer of the batch applies the geometry (BatchColumn::geometries,
  // for each image and mask). Images are delivered as stored: whole, ragged, at full scale and not turned. Masks are
  // delivered as runs (kMaskRuns), without packing and pad_masks. The same samples are bad ones as without `deferred`
  // (for their geometry, masks of another size than their image, or more pixels than memory).
  bool deferred = false;

  // kImage. A planar `output` has the shape channels x height x width. Absent images are black.
  int channels = 3;  // 1 gray, 3 RGB, or 4 RGBA, which `augment` and devices do not change
  ImageDecodeOptions image;
  AugmentOptions augment;  // of u8 pixels, before `output`; not if the geometry is deferred, also to a device
  PixelOutput output;

  // kLabels: the number for padding, and for all pixels of an absent map. `dtype` and image.max_memory are as for
  // DecodeLabelMap.
  int64_t label_fill = 255;

  // kMasks, kPackedMasks with a geometry that is not native: the shape is [n, most masks, height, width], with zeros
  // for missing masks. Otherwise the masks of all samples are concatenated.
  bool pad_masks = false;

  // kBoxes, kPoints: coordinates refer to the upright image, as in annotation tools. False: to the stored image.
  // Without GeometryOptions::apply_orientation, a sample is then a bad one if EXIF would turn its image. The sample's
  // image must be among the columns.
  bool upright = true;

  // kBoxes. Boxes with less than min_area square pixels in the output are left out; 0 keeps all. With `clip`, the
  // others are cut at the edges of the picture.
  BoxFormat box_format = BoxFormat::kXywh;  // as stored
  BoxFormat output_boxes = BoxFormat::kXyxy;
  bool clip = true;
  double min_area = 1;

  // kBoxes, kMasks, kPackedMasks, without `along`: the most items of a sample, 0 for all, and their choice.
  uint32_t most = 0;
  ItemChoice choose = ItemChoice::kFirst;

  // kBoxes, kPoints, kItems, kMasks, kPackedMasks: the column of boxes or masks that these items belong to, item by
  // item; it must not have `along` itself. Items left out there are left out here, and no others (min_area does not
  // count). A sample with different numbers of items in the two is a bad one, except that a value may be absent here:
  // it has no items.
  std::string along;

  // kBoxes, kPoints, kItems: the number that pads samples with fewer items.
  int64_t padding = 0;

  // kTokens. The samples of the plan are then rows: PlanOptions::batch_size counts rows, every step has that many, all
  // of one shape, and cursors are between rows. The samples of a batch are the documents in its rows, row by row, with
  // one sample for each piece of a cut document. In each epoch of a shuffled order other documents share a row, as far
  // as they fit. Documents without tokens are in no row. Of several such columns the first one determines the
  // documents; the others need the same context and packing, and as many tokens for each document.
  //
  // Open reads the lengths of all documents. That is cheap on a disk for a column of bytes without a codec whose values
  // are blobs (1 KiB or more on average); otherwise each rank reads the column, with `follow` for each generation.
  uint32_t context = 4096;  // tokens of a row
  TokenPacking packing = TokenPacking::kBestFit;
  int64_t padding_token = 0;

  // kFunction: type and shape of the function's result for one value, without the batch dimension. kLabels: the type.
  // kTokens: the type of tokens stored as bytes, little-endian; of arrays it is known.
  DecodeFunction function;
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;
};

enum class BadSamples {
  kFail,  // the first bad sample ends the loader with its error
  kSkip,  // bad samples are left out (a smaller batch, or padding in rows of tokens), counted and listed
};

// What to do if one of several datasets lacks a column.
enum class MissingColumns {
  kFail,    // Open fails
  kAbsent,  // its samples lack the value (BatchColumn::present); at least one dataset must have the column
};

// For profilers: observes the work of the loader's threads. Called on the working thread; ranges nest. Must be
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

  // Allows steps without samples for this rank (Plan::CheckRanks). For callers that take samples one by one: the mean
  // of an empty batch is NaN.
  bool empty_batches = false;

  std::optional<Cursor> cursor;  // empty: the beginning of first_epoch
  uint64_t first_epoch = 0;
  uint64_t epochs = 1;  // epochs 0 to epochs - 1; 0 never ends

  // Each epoch uses the newest generations of the datasets. After the last batch of an epoch, Next() looks at their
  // manifests, one small read each, and opens the datasets again if one is newer. Data read ahead for the next epoch is
  // then dropped, and Report and Trace start over. A cursor inside an epoch opens its own generations for the rest of
  // that epoch. A cursor at the beginning of an epoch, or none, opens the newest, and is not compared with the plan.
  //
  // For one rank only: ranks look at different moments, but must agree on the data of an epoch. With several ranks, one
  // of them calls NewestGenerations between epochs and tells the others, and all open a loader with that
  // LoaderDataset::generation and first_epoch.
  bool follow = false;

  // Empty: all columns except the key, as stored; with several datasets those of the first, with `missing` of all.
  std::vector<LoaderColumn> columns;
  MissingColumns missing = MissingColumns::kFail;
  bool keys = true;  // batches hold the keys of their samples; if no dataset has any, ordinals in twelve digits
  GeometryOptions geometry;
  BatchFunction batch_function;
  BadSamples bad_samples = BadSamples::kFail;

  ReadOptions read;

  // The device of batches: "host"; "cuda:N", or "cuda" for the first one; or "emulated", which does a CUDA device's
  // work with threads and memory of the host, for tests without a GPU. Batches hold the same samples in the same order
  // on all devices.
  //
  // Values are decoded into page-locked memory and copied from there while the previous step computes. The copies are
  // small: images travel as u8, and become LoaderColumn::output on the device; masks travel as run lengths. kViews is
  // refused, because the device needs a column's values in one place. batch_function gets batches on the host.
  std::string device = "host";

  // With a device: resizes, crops, mirrors and pads images there. Images are then decoded and uploaded at full size,
  // with pixels as for ImageDecodeOptions::scaled_decode = false. Saves processor time if JPEGs are hardly larger than
  // their output. If they are much larger, decoding only the needed part is less work.
  bool device_geometry = false;

  // On the host: values are in memory that is page-locked for CUDA, for programs that copy them to a device themselves.
  bool pin_memory = false;

  // With a device or pin_memory: the most page-locked memory, including batches that wait for the device; 4 MiB or
  // more. Open refuses more than half of the process's memory limit (all loaders together). The loader keeps its
  // batches within this. Values that do not fit are in ordinary memory, and for a device copied once more.
  uint64_t pinned_bytes = uint64_t{512} << 20;

  // Device memory of batches, including batches that the consumer holds. 0: as much as needed, at most twice the recent
  // peak use. A consumer that holds more still gets the next batch that it asks for.
  uint64_t device_bytes = 0;

  // Batches queued to the device that the consumer has not taken yet, 2 or more.
  int device_batches = 2;

  // The most memory of blocks and batches, in bytes. The rank's share of the shuffle buffer must fit in half of it. A
  // step may exceed this if it alone needs more. A block may not: a larger block is ResourceExhausted before its memory
  // is allocated, as with ReadOptions::max_block_memory. Besides the shuffle buffer, blocks take enough to hide the
  // time of a read: 8 MiB, or two blocks for each reading thread. Blocks of a small dataset (64 MiB), or one that fits
  // in the shuffle buffer, stay in memory and are read once. If reads wait for the disk, this holds for any dataset
  // that fits in the budget. For other datasets, and blocks of the first batch, with ReadMode::kAuto, values in the
  // system's page cache take no memory before their batch is made.
  uint64_t memory_bytes = uint64_t{768} << 20;

  // 0 is automatic: AvailableProcessors() decoding threads, and as many reading threads as make reading faster.
  int decode_threads = 0;
  int read_threads = 0;

  bool trace = false;  // records events for Loader::Trace
  std::shared_ptr<StageObserver> observer;
};

// One thread at a time, except Cancel, Report, Trace and AddTraceEvent. The destructor stops the loader's threads: each
// first finishes its unit of work (reading one block, decoding some samples, the device's copies in progress).
class Loader {
 public:
  virtual ~Loader() = default;

  // Opens the datasets and starts the threads. `file_system` must outlive the loader, and with kViews also its batches.
  // - InvalidArgument: the options contradict each other, the data or the cursor.
  // - ResourceExhausted: the system cannot start enough threads, or too much page-locked memory.
  // - NotFound: the device does not exist. Unavailable: this build or this machine has no CUDA.
  static absl::StatusOr<std::unique_ptr<Loader>> Open(ReadableFileSystem& file_system,
                                                      std::vector<LoaderDataset> datasets,
                                                      const LoaderOptions& options);

  // The next batch, or null at the end. After an error the loader is finished and returns the error again. Does not
  // throw. On a device, the uploads of its arrays may still be in progress (see Batch), and the error may be one that
  // the device found in an earlier batch.
  virtual absl::StatusOr<std::shared_ptr<const Batch>> Next() = 0;

  // Waits until Next() would not wait, and at most `timeout`: false on timeout. For callers with other periodic work,
  // such as checking signals. The wait counts as a wait of Next().
  virtual bool WaitFor(std::chrono::steady_clock::duration timeout) = 0;

  // Makes a waiting Next() or WaitFor() and all later ones return; Next() returns Cancelled. Thread-safe.
  virtual void Cancel() = 0;

  // The place to continue in a later run, after all batches delivered so far.
  virtual Cursor cursor() const = 0;

  // Valid while the loader lives; with LoaderOptions::follow, until the next call of Next().
  virtual const Plan& plan() const = 0;

  // Steps left in the epoch that the next batch belongs to.
  virtual uint64_t steps_left() const = 0;

  virtual LoaderReport Report() const = 0;

  // Events so far in Chrome's trace format (JSON), which Perfetto opens; empty without LoaderOptions::trace. Lanes of a
  // device: "cuda:0 copy" and "cuda:0 kernels".
  virtual std::string Trace() const = 0;

  // Adds an event outside the loader, from `begin` to `end`, to the trace. `name` is a literal, `lane` the row that
  // shows it, and `number` distinguishes it from other events of its kind.
  virtual void AddTraceEvent(const char* name, std::string_view lane, std::chrono::steady_clock::time_point begin,
                             std::chrono::steady_clock::time_point end, uint64_t number) = 0;

  // The reason if the read mode differs from the requested one; else empty.
  virtual std::string fallback_reason() const = 0;
};

// The newest generation of each dataset, in one small read for each; 0 for single shards and other containers, which
// have no generations.
absl::StatusOr<std::vector<uint64_t>> NewestGenerations(ReadableFileSystem& file_system,
                                                        std::span<const LoaderDataset> datasets);

// The plan of a loader. Opens the datasets and reads only their block directories. A plan in sections reads them when
// they are needed, so `file_system` must outlive it.
absl::StatusOr<std::shared_ptr<const Plan>> PlanDatasets(ReadableFileSystem& file_system,
                                                         std::span<const LoaderDataset> datasets,
                                                         const PlanOptions& options);

}  // namespace shardkit
