// Recovers the undamaged parts of damaged shards and datasets.
//
// A block is whole if the checksums of its header and of all its chunks are right (format-spec/recovery.md). Every
// whole block is recovered. Blocks are searched at the places in the block directory and at every multiple of the
// shard's alignment (of 64 bytes if the header is damaged), in any order. A block that was moved by inserted or removed
// bytes is found if the directory is whole; otherwise it may be missed. A block inside a value of another block is not
// taken: if the directory is whole, only its blocks are taken. Without the directory, a block inside a damaged block is
// taken only if the chain of header checksums links it to a block outside.
//
// I/O errors (of a dying disk) are errors, not damage: copy the file first, with a tool that skips bad sectors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/shard.h"

namespace shardkit {

struct RepairOptions {
  // The source of the columns if a shard's header and the copy in its footer are damaged: another shard of the dataset,
  // the dataset's directory, or its dataset.json. Empty: the dataset.json beside the shard, if it lists the shard and
  // if the rest of the shard proves that the header had these columns.
  std::string schema_from;

  // In a damaged block with whole head chunks, keeps the samples whose values all have the right checksums. They are
  // encoded again as a separate block. False: the whole block is lost.
  bool keep_samples = false;

  // The most keys of lost samples in a report, over all its losses. A key counts once more for every 256 bytes.
  uint64_t max_keys = 100000;

  // As ReadOptions. A block over the limit is an error, not a loss: blocks are decompressed to count their values.
  uint64_t max_decompression = kDefaultMaxDecompression;

  // As WriterOptions::sync.
  bool sync = true;

  const Cancellation* cancellation = nullptr;

  // Called between blocks, on the calling thread. Every shard is read twice, so bytes_total is about twice its size. An
  // exception ends the repair, which returns Internal with its text.
  std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

// Consecutive samples that are not in the output. Ordinals are those of the damaged shard.
struct RepairLoss {
  uint64_t first_sample = 0;
  uint64_t sample_count = 0;
  std::optional<uint64_t> first_block;  // when known
  uint64_t block_count = 0;             // 0 when unknown, or when other samples of the block were kept
  std::string reason;                   // "its header is damaged or gone", …
  std::vector<std::string> columns;     // columns with damaged chunks or values, as far as known
  std::vector<std::string> keys;        // of the samples, in their order, if the block's keys are readable
};

struct RepairReport {
  std::string path;
  std::string output;
  bool written = false;  // false when there was nothing to recover: then there is no output

  uint64_t blocks_recovered = 0;
  uint64_t blocks_lost = 0;  // as far as known
  uint64_t samples_recovered = 0;
  uint64_t samples_lost = 0;

  // False if the number of samples of the shard is unknown: there may have been more after the last known one.
  bool end_known = true;

  std::vector<RepairLoss> losses;     // ascending by first_sample, without overlap
  std::vector<std::string> problems;  // problems of the shard, beyond its lost blocks
  std::vector<std::string> notes;     // decisions that were made, and remarks on the output

  ContentHash content_hash{};  // of the output
  uint64_t bytes = 0;          // of the output

  // True if certainly no sample was lost.
  bool lossless() const { return samples_lost == 0 && end_known; }
};

// Writes the whole blocks of the shard at `path` to a new shard at `output`, in the order of their samples. Chunks are
// copied unchanged, and headers are made again. The metadata is kept if it is undamaged or if the dataset.json beside
// the shard has it. An undamaged shard gives a shard of the same content. `output` appears complete or not at all
// (through OUTPUT.tmp). Takes some MiB of memory, the inline columns of one block, and memory proportional to the
// number of blocks and the keys of the key index. The report describes damage.
//
// - NotFound: there is no such file.
// - AlreadyExists: `output` exists.
// - InvalidArgument: `output` is the input, `path` is a shard of another container, or `schema_from` is unusable.
// - DataLoss: this is no shard, or its header is damaged and there is no other source of the columns.
// - Unimplemented: the shard is of a later version.
absl::StatusOr<RepairReport> RepairShard(FileSystem& file_system, const std::string& path, const std::string& output,
                                         const RepairOptions& options = {});

struct DatasetRepairReport {
  std::vector<RepairReport> shards;  // in the dataset's order; undamaged shards have no problems and no losses
  std::vector<std::string> notes;
  bool written = false;  // false when there was nothing to recover: then there is no output
  Manifest manifest;     // of the output

  uint64_t samples_recovered() const;
  uint64_t samples_lost() const;
  bool lossless() const;  // as RepairReport
};

// Makes `output` a dataset of the undamaged parts of `directory`. Undamaged shards are linked, or copied where links do
// not work. Damaged shards are repaired. Manifest and index are made again. The input is the shards of the manifest; if
// the manifest is damaged or missing (a pack that did not finish), *.shard and then *.shard.tmp, by name. Shards get
// new names, as from pack, and the manifest lists no SHA-256. A shard without a whole block is left out; a missing
// shard counts as lost. Removed samples stay removed. Remaining samples have the readable values of column files;
// unreadable values are absent, and the notes list them. Errors as RepairShard, and those of DatasetWriter::Create for
// `output`.
absl::StatusOr<DatasetRepairReport> RepairDataset(FileSystem& file_system, const std::string& directory,
                                                  const std::string& output, const RepairOptions& options = {});

}  // namespace shardkit
