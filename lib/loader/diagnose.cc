// Which stage bounds a loader.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "base/strings.h"
#include "shardkit/loader.h"

namespace shardkit {
namespace {

// "12.5 %".
std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * share);
  return text;
}

StageTimes Sum(const StageTimes& first, const StageTimes& second) {
  return {first.busy + second.busy, first.starved + second.starved, first.blocked + second.blocked, second.threads};
}

double Share(double part, const StageTimes& stage) { return stage.total() > 0 ? part / stage.total() : 0; }

// What of the device bounds the loader, if something there does. `waits` begins the reason.
std::optional<Diagnosis> DiagnoseDevice(const LoaderReport& report, const std::string& waits) {
  constexpr double kBusy = 0.7;     // of the run
  constexpr double kStaged = 0.05;  // of the bytes
  constexpr double kMemory = 0.05;  // of the run
  // Some of these seconds are before the first call of Next, and so not in report.seconds.
  const auto share = [&](double seconds) { return report.seconds > 0 ? std::min(1.0, seconds / report.seconds) : 0; };
  if (share(report.copy_seconds) >= kBusy) {
    return Diagnosis{
        "copy", StrCat(waits, "copies to the device take ", PercentText(share(report.copy_seconds)), " of it"),
        "fewer bytes: a smaller geometry without device_geometry, u8 images, masks as runs, fewer columns"};
  }
  if (share(report.kernel_seconds) >= kBusy) {
    return Diagnosis{
        "kernel", StrCat(waits, "kernels take ", PercentText(share(report.kernel_seconds)), " of it"),
        "less work on the device: no device_geometry, packed masks; or it is busy with the consumer's own"};
  }
  if (static_cast<double>(report.staged_bytes) > kStaged * static_cast<double>(report.uploaded_bytes) &&
      share(report.upload.busy) >= kBusy) {
    return Diagnosis{
        "upload",
        StrCat(waits, "the upload stage is busy for ", PercentText(share(report.upload.busy)), ", with ",
               report.staged_bytes, " of ", report.uploaded_bytes, " bytes that found no page-locked memory"),
        "raise pinned_bytes, or lower batch_size"};
  }
  if (share(report.upload.busy) >= kBusy) {
    return Diagnosis{"upload", StrCat(waits, "the upload stage is busy for ", PercentText(share(report.upload.busy))),
                     "a larger batch_size: each batch takes some calls of the device"};
  }
  if (share(report.memory_wait_seconds) >= kMemory) {
    return Diagnosis{
        "memory",
        StrCat(waits, "the upload stage waits for device memory for ", PercentText(share(report.memory_wait_seconds))),
        "raise device_bytes, or release batches earlier"};
  }
  return std::nullopt;
}

}  // namespace

LoaderReport Total(const LoaderReport& first, const LoaderReport& second) {
  LoaderReport total = second;
  total.read = Sum(first.read, second.read);
  total.decode = Sum(first.decode, second.decode);
  total.upload = Sum(first.upload, second.upload);
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
  total.memory_wait_seconds += first.memory_wait_seconds;
  total.uploaded_bytes += first.uploaded_bytes;
  total.staged_bytes += first.staged_bytes;
  total.copy_seconds += first.copy_seconds;
  total.kernel_seconds += first.kernel_seconds;
  total.peak_pinned_memory = std::max(first.peak_pinned_memory, second.peak_pinned_memory);
  total.peak_device_memory = std::max(first.peak_device_memory, second.peak_device_memory);
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
    return {"consumer", StrCat("it waits for ", PercentText(wait), " of the time; batches lie ready"),
            "nothing to change here: the time is spent between the calls of Next"};
  }
  const std::string waits = StrCat("the consumer waits for ", PercentText(wait), " of the time; ");
  if (const auto found = DiagnoseDevice(report, waits)) return *found;
  if (report.blocks_read > 0 &&
      static_cast<double>(report.blocks_read_again) > kReadAgain * static_cast<double>(report.blocks_read)) {
    return {"memory",
            StrCat(waits, report.blocks_read_again, " of ", report.blocks_read, " blocks were dropped and read again"),
            "raise memory_bytes, or lower plan.shuffle_buffer_bytes"};
  }
  if (std::max(decode_busy, read_busy) < kIdle) {
    return {"overhead",
            StrCat(waits, "decoding threads are busy for ", PercentText(decode_busy), ", reading threads for ",
                   PercentText(read_busy)),
            "a larger batch_size, since passing small batches on takes longer than making them; or leave this "
            "machine's processors to the loader"};
  }
  if (decode_busy >= kBusy || decode_busy >= read_busy) {
    return {"decode",
            StrCat(waits, "its ", report.decode.threads, " decoding threads are busy for ", PercentText(decode_busy)),
            "more processors and decode_threads; images: scaled_decode, a smaller geometry; masks: runs or packed "
            "masks; fewer columns"};
  }
  const double file_share = report.read.busy > 0 ? std::min(1.0, report.file_seconds / report.read.busy) : 0;
  const std::string reading = StrCat(waits, "its ", report.read.threads, " reading threads are busy for ",
                                     PercentText(read_busy), ", ", PercentText(file_share), " of that in file reads");
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
