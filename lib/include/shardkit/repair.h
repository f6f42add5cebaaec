// Recovers the undamaged parts of damaged shards and datasets.
//
// A block is whole when the checksums of its header and of all its chunks are right (format-spec/recovery.md).
// Every whole block is recovered. Blocks are searched at the places that the block directory gives and at every
// multiple of the shard's alignment (of 64 bytes when the header is damaged), in any order. When inserted or removed
// bytes have moved a block, it is found if the directory is whole; otherwise it may not be. A block inside a value of
// another block is not taken: where the directory is whole, only its blocks are taken. Without the directory, a block
// inside a damaged block is taken only when the chain of header checksums links it to a block outside.
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
  // The source of the columns when a shard's own header and the copy in its footer are damaged: another shard of the
  // dataset, the dataset's directory, or its dataset.json. When empty: the dataset.json beside the shard, if it lists
  // the shard and if what is left of the shard proves that the header had these columns.
  std::string schema_from;

  // In a damaged block with whole head chunks, keep the samples whose values all have the right checksums. They are
  // encoded again as a block of their own. False: the whole block is lost.
  bool keep_samples = false;

  // The most keys of lost samples that a report names, over all its losses; the rest are left out. A key counts once
  // more for every 256 bytes.
  uint64_t max_keys = 100000;

  // As ReadOptions. A block over the limit is an error, not a loss: blocks are decompressed to count their values.
  uint64_t max_decompression = kDefaultMaxDecompression;

  // Flushes what is written to stable storage.
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
  std::vector<std::string> keys;        // of the samples, in their order, when the block's keys are readable
};

struct RepairReport {
  std::string path;
  std::string output;
  bool written = false;  // false when there was nothing to recover: then there is no output

  uint64_t blocks_recovered = 0;
  uint64_t blocks_lost = 0;  // as far as known
  uint64_t samples_recovered = 0;
  uint64_t samples_lost = 0;

  // False when it is unknown how many samples the shard had: there may have been more after the last known one.
  bool end_known = true;

  std::vector<RepairLoss> losses;     // ascending by first_sample, without overlap
  std::vector<std::string> problems;  // what is wrong with the shard, beyond its lost blocks
  std::vector<std::string> notes;     // what was decided, and what to know about the output

  ContentHash content_hash{};  // of the output
  uint64_t bytes = 0;          // of the output

  // True when certainly no sample was lost.
  bool lossless() const { return samples_lost == 0 && end_known; }
};

// Writes the whole blocks of the shard at `path` to a new shard at `output`, in the order of their samples. Chunks are
// copied unchanged and headers are made again. The metadata is kept when it is undamaged or when the dataset.json
// beside the shard has it. An undamaged shard gives a shard of the same content. `output` appears complete or not at
// all (through OUTPUT.tmp). Takes some MiB of memory, the inline columns of one block, and memory that grows with the
// number of blocks and the keys of the key index. Damage is in the report.
//
// - NotFound: there is no such file.
// - AlreadyExists: `output` exists.
// - InvalidArgument: `output` is the input, `path` is a shard of another container, or `schema_from` is unusable.
// - DataLoss: this is no shard, or its header is damaged and nothing else gives the columns.
// - Unimplemented: a later version's shard.
absl::StatusOr<RepairReport> RepairShard(FileSystem& file_system, const std::string& path, const std::string& output,
                                         const RepairOptions& options = {});

struct DatasetRepairReport {
  std::vector<RepairReport> shards;  // in the dataset's order; whole shards have no problems and no losses
  std::vector<std::string> notes;
  bool written = false;  // false when there was nothing to recover: then there is no output
  Manifest manifest;     // of the output

  uint64_t samples_recovered() const;
  uint64_t samples_lost() const;
  bool lossless() const;  // as RepairReport
};

// Makes `output` a dataset of the undamaged parts of `directory`. Whole shards are linked, or copied where links do not
// work. Damaged shards are repaired. Manifest and index are made again. The shards are those of the manifest. When the
// manifest is damaged or missing (a pack that did not finish), they are *.shard and then *.shard.tmp, by name. They get
// new names, as from pack, and the manifest lists no SHA-256. A shard with no whole block is left out; a missing one
// counts as lost. Removed samples stay removed. Samples that are left have what can be read of column files; values
// that cannot are absent, which the notes say. Errors as RepairShard, and those of DatasetWriter::Create for `output`.
absl::StatusOr<DatasetRepairReport> RepairDataset(FileSystem& file_system, const std::string& directory,
                                                  const std::string& output, const RepairOptions& options = {});

}  // namespace shardkit
