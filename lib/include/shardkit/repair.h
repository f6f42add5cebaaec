// Recovering what is whole of damaged shards and datasets.
//
// A block is whole when the checksums of its header and of all its chunks hold (format-spec/spec.md, section
// 8). Every whole block is recovered: at the place the block directory gives, and at every multiple of the
// shard's alignment (of 64 bytes when the header is gone), in whatever order they lie. Blocks that bytes
// inserted or removed in front of them have moved elsewhere are found when the directory is whole, and
// otherwise need not be. A block within a value of another block is not taken. Where the directory is whole,
// only its blocks are; without it, a block within a damaged block is taken only when the chain of header
// checksums ties it to one outside.
//
// What cannot be read (I/O errors of a dying disk) is an error, not damage: copy the file with a tool that
// skips bad sectors first.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

struct RepairOptions {
  // For shards whose own header is damaged: another shard of the dataset, the dataset's directory, or its
  // dataset.json. Empty: the dataset.json beside the shard, when it lists the shard and something left of the
  // shard proves that the header was made of its columns.
  std::string schema_from;

  // Of a damaged block whose head chunks are whole, keep the samples whose values all have the right
  // checksums. They are encoded anew as a block of their own. Off: the block is lost as a whole.
  bool keep_samples = false;

  // Keys of lost samples that a report names, over all its losses; further ones are left out. A key counts
  // once more for every 256 bytes.
  uint64_t max_keys = 100000;

  // As ReadOptions. A block beyond it is an error, not a loss: blocks are decompressed to count their values.
  uint64_t max_decompression = kDefaultMaxDecompression;

  // Flushes what is written to stable storage.
  bool sync = true;

  const Cancellation* cancellation = nullptr;

  // Called between blocks, from the calling thread. Every shard is read twice, so that the total is about
  // twice its size. An exception ends the repair, and is returned as Internal with its text.
  std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress;
};

// Consecutive samples that are not in the output. Ordinals are those of the damaged shard.
struct RepairLoss {
  uint64_t first_sample = 0;
  uint64_t sample_count = 0;
  std::optional<uint64_t> first_block;  // when known
  uint64_t block_count = 0;             // 0 when not known, or when other samples of the block were kept
  std::string reason;                   // "its header is damaged or gone", …
  std::vector<std::string> columns;     // with damaged chunks or values, as far as that is known
  std::vector<std::string> keys;        // of the samples, in their order, when the block's keys can still be read
};

struct RepairReport {
  std::string path;
  std::string output;
  bool written = false;  // false when there was nothing to recover: then there is no output

  uint64_t blocks_recovered = 0;
  uint64_t blocks_lost = 0;  // as far as it is known
  uint64_t samples_recovered = 0;
  uint64_t samples_lost = 0;

  // False when nothing is left that tells how many samples the shard had: there may have been more after the
  // last one known.
  bool end_known = true;

  std::vector<RepairLoss> losses;     // ascending by first_sample, without overlap
  std::vector<std::string> problems;  // what is wrong with the shard, beyond its lost blocks
  std::vector<std::string> notes;     // what was decided, and what to know about the output

  ContentHash content_hash{};  // of the output
  uint64_t bytes = 0;          // of the output

  // True when it is known that no sample was lost.
  bool lossless() const { return samples_lost == 0 && end_known; }
};

// Writes the whole blocks of the shard at `path` to a new shard at `output`, in the order of their samples.
// Chunks are copied as they are, headers are made anew, and the metadata is kept when it is whole or the
// dataset.json beside the shard still tells it. An undamaged shard gives a shard of the same content.
// `output` appears whole or not at all (through OUTPUT.tmp). The memory used is some MiB, the inline columns
// of one block, and what grows with the number of blocks and the keys of the key index. Errors: NotFound;
// AlreadyExists when there is an `output`; InvalidArgument when it is the input, when `path` is a shard of another
// container, or when `schema_from` is of no use; DataLoss when this is no shard, or its header is gone and nothing
// tells the columns; Unimplemented for a later version's shard; Cancelled; errors of I/O. Damage is reported, not
// returned.
absl::StatusOr<RepairReport> RepairShard(FileSystem& file_system, const std::string& path, const std::string& output,
                                         const RepairOptions& options = {});

struct DatasetRepairReport {
  std::vector<RepairReport> shards;  // in the dataset's order; those that were whole have no problems and no losses
  std::vector<std::string> notes;
  bool written = false;  // false when there was nothing to recover: then there is no output
  Manifest manifest;     // of the output

  uint64_t samples_recovered() const;
  uint64_t samples_lost() const;
  bool lossless() const;  // as RepairReport
};

// Makes `output` a dataset of what is whole in `directory`: whole shards are linked, or copied where links do
// not work, damaged ones repaired, manifest and index made anew. Shards are those of the manifest, or, when
// that is damaged or missing (a pack that did not finish), *.shard and then *.shard.tmp by name. They are
// named anew, as pack names them. Shards of which nothing is left are left out, missing ones count as lost.
// Errors as RepairShard, and those of DatasetWriter::Create for `output`.
absl::StatusOr<DatasetRepairReport> RepairDataset(FileSystem& file_system, const std::string& directory,
                                                  const std::string& output, const RepairOptions& options = {});

}  // namespace shardkit
