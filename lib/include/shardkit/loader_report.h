// What a loader has done, and what limits its speed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardkit/batch.h"

namespace shardkit {

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
  double file_seconds = 0;  // part of read.busy: reads of files; the rest is checking and decompressing

  double seconds = 0;                // since the first Next()
  double consumer_wait_seconds = 0;  // in Next(), without the first call
  double first_batch_seconds = 0;    // in the first Next(), without Open
  double step_seconds = 0;           // from the end of the first Next() to the end of the last one

  uint64_t batches = 0;
  uint64_t samples = 0;
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

  uint64_t token_positions = 0;  // tokens that fit in the packed rows
  uint64_t tokens = 0;           // tokens in them

  // Integer columns whose equal values stand together as the datasets are stored, so that the shuffle buffer, which is
  // smaller than they are, mixes few values at a time: see ClumpedColumns. Of the blocks read, in the shuffled order.
  std::vector<std::string> clumped_columns;

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
  // "consumer", "decode", "read", "memory", "overhead" when no stage is busy, "none" before the second batch.
  std::string stage;
  std::string reason;  // with the figures
  std::string advice;  // names the option to change
};

Diagnosis Diagnose(const LoaderReport& report);

}  // namespace shardkit
