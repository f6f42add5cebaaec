// Which stage bounds a loader.
#include <algorithm>

#include "base/strings.h"
#include "loader/percent.h"
#include "shardkit/loader.h"

namespace shardkit {
namespace {

StageTimes Sum(const StageTimes& first, const StageTimes& second) {
  return {first.busy + second.busy, first.starved + second.starved, first.blocked + second.blocked, second.threads};
}

double Share(double part, const StageTimes& stage) { return stage.total() > 0 ? part / stage.total() : 0; }

}  // namespace

LoaderReport Total(const LoaderReport& first, const LoaderReport& second) {
  LoaderReport total = second;
  total.read = Sum(first.read, second.read);
  total.decode = Sum(first.decode, second.decode);
  if (first.batches > 0) total.first_batch_seconds = first.first_batch_seconds;
  total.file_seconds += first.file_seconds;
  total.seconds += first.seconds;
  total.consumer_wait_seconds += first.consumer_wait_seconds;
  total.step_seconds += first.step_seconds;
  total.batches += first.batches;
  total.samples += first.samples;
  total.bytes += first.bytes;
  total.bytes_read += first.bytes_read;
  total.bytes_from_cache += first.bytes_from_cache;
  total.blocks_read += first.blocks_read;
  total.requests += first.requests;
  total.bytes_requested += first.bytes_requested;
  total.bytes_bridged += first.bytes_bridged;
  total.round_trips += first.round_trips;
  total.blocks_read_again += first.blocks_read_again;
  total.skipped += first.skipped;
  total.warned_images += first.warned_images;
  total.first_skipped = first.first_skipped;
  total.first_skipped.insert(total.first_skipped.end(), second.first_skipped.begin(), second.first_skipped.end());
  if (total.first_skipped.size() > kMostSkippedListed) total.first_skipped.resize(kMostSkippedListed);
  total.peak_block_memory = std::max(first.peak_block_memory, second.peak_block_memory);
  total.peak_batch_memory = std::max(first.peak_batch_memory, second.peak_batch_memory);
  total.token_positions += first.token_positions;
  total.tokens += first.tokens;
  for (const std::string& column : first.clumped_columns) {
    if (std::ranges::find(total.clumped_columns, column) == total.clumped_columns.end()) {
      total.clumped_columns.push_back(column);
    }
  }
  return total;
}

Diagnosis Diagnose(const LoaderReport& report) {
  constexpr double kNoWait = 0.01;     // of step time; below it the consumer is the bottleneck
  constexpr double kBusy = 0.7;        // of a stage's time
  constexpr double kIdle = 0.3;        // when both stages are below it, neither is busy
  constexpr double kReadAgain = 0.05;  // of the blocks
  const double wait = report.wait_share();
  const double decode_busy = Share(report.decode.busy, report.decode);
  const double read_busy = Share(report.read.busy, report.read);
  if (report.batches < 2) {
    return {"none", "fewer than two batches have been delivered", "go on, and ask again"};
  }
  if (wait < kNoWait) {
    return {"consumer", StrCat("it waits for ", loader::PercentText(wait), " of the time; batches lie ready"),
            "nothing to change here: the time is spent between the calls of Next"};
  }
  const std::string waits = StrCat("the consumer waits for ", loader::PercentText(wait), " of the time; ");
  if (report.blocks_read > 0 &&
      static_cast<double>(report.blocks_read_again) > kReadAgain * static_cast<double>(report.blocks_read)) {
    return {"memory",
            StrCat(waits, report.blocks_read_again, " of ", report.blocks_read, " blocks were dropped and read again"),
            "raise memory_bytes, or lower plan.shuffle_buffer_bytes"};
  }
  if (std::max(decode_busy, read_busy) < kIdle) {
    return {"overhead",
            StrCat(waits, "decoding threads are busy for ", loader::PercentText(decode_busy), ", reading threads for ",
                   loader::PercentText(read_busy)),
            "a larger batch_size, since passing small batches on takes longer than making them; or leave this "
            "machine's processors to the loader"};
  }
  if (decode_busy >= kBusy || decode_busy >= read_busy) {
    return {"decode",
            StrCat(waits, "its ", report.decode.threads, " decoding threads are busy for ",
                   loader::PercentText(decode_busy)),
            "more processors and decode_threads; images: scaled_decode, a smaller geometry; masks: runs or packed "
            "masks; fewer columns"};
  }
  const double file_share = report.read.busy > 0 ? std::min(1.0, report.file_seconds / report.read.busy) : 0;
  const std::string reading =
      StrCat(waits, "its ", report.read.threads, " reading threads are busy for ", loader::PercentText(read_busy), ", ",
             loader::PercentText(file_share), " of that in file reads");
  if (file_share > 0.5) {
    return {"read", reading,
            report.remote
                ? "a cache on local disk (UseCache), a store that is nearer or faster, more read_threads, fewer "
                  "columns"
                : "a faster device, read.mode direct for cold data or mapped for warm, more read_threads, "
                  "fewer columns"};
  }
  return {"read", reading,
          "checking and decompressing bound: more processors and read_threads, codec none for what does not shrink"};
}

}  // namespace shardkit
