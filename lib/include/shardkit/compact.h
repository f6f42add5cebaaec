// Rewriting what a dataset has lost, and deleting what nobody may read any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit {

struct CompactOptions {
  // Shards are rewritten that lost at least this share of the bytes of their blocks to removed samples, above 0 and at
  // most 1. With `purge`, all that hold a removed sample.
  double least_lost = 0.2;

  // Writes the columns that readers see into the shards, all of which are rewritten, so that there are no layers.
  bool fold = false;

  // Afterwards deletes the files of earlier generations. Then no byte of a removed sample is in the directory, nor of a
  // layer that is no longer read; of a stored column that was dropped, only together with `fold`. Hard links to
  // deleted files, as a merged dataset may have, keep them.
  bool purge = false;

  // With `purge`: waits so long before it deletes, for readers that have the dataset open as it was. Cancelling ends
  // the wait: the files stay until the next purge.
  std::chrono::seconds grace{0};

  int threads = 1;  // the result is the same for any number

  const Cancellation* cancellation = nullptr;  // may be null

  // Called now and then, by one thread at a time: samples that were gone through, of all in the shards to be rewritten.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct CompactReport {
  Manifest manifest;  // afterwards
  uint64_t shards_rewritten = 0;
  uint64_t layers_rewritten = 0;  // all columns of a layer whose samples have other numbers now
  uint64_t samples_dropped = 0;   // removed ones that are no longer stored
  uint64_t bytes_before = 0;      // of all shards
  uint64_t files_deleted = 0;     // with `purge`; a layer counts as one
};

// Makes the next generation of the dataset in `directory`, of the same samples: rewrites shards as the options say,
// block by block, with the same columns, codecs, storages and alignment, and makes the segments of the offset index
// one. Blocks of which no sample was removed are copied as they are stored, except with `fold` and from shards with
// dictionaries: these are trained anew, of at most 64 KiB. In blocks that are encoded, columns of codec zstd take the
// default levels. Where nothing is to be done, nothing is published. Layers are rewritten where samples before or in
// them are dropped. Holds a block for each thread and the list of shards, and no more.
//
// NotFound when there is no dataset; Unavailable when another writer uses it; FailedPrecondition when a job has not
// finished it; InvalidArgument for a share out of its bounds; DataLoss when what has to be rewritten cannot be read;
// Aborted as in DatasetWriter::Finish; Cancelled when the cancellation asks for it. After any error, but of the
// deletion, the dataset is as it was.
absl::StatusOr<CompactReport> CompactDataset(FileSystem& file_system, const std::string& directory,
                                             const CompactOptions& options = {});

}  // namespace shardkit
