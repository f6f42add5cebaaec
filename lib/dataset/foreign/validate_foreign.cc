#include "dataset/foreign/validate_foreign.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/check/deep_check.h"
#include "dataset/check/validate_shard.h"
#include "dataset/read/forward_read_queue.h"

namespace shardkit::dataset {
namespace {

// Whether the error is about the data, and not about the check.
bool IsForeignDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsUnimplemented(status) || absl::IsNotFound(status) ||
         absl::IsOutOfRange(status) || absl::IsInvalidArgument(status);
}

struct ForeignFindings {
  std::vector<absl::Status> problems;
  uint64_t undecoded_images = 0;
  WarnedImages warned_images;
};

// Checks one block. Returns an error only when the check could not be done.
absl::StatusOr<ForeignFindings> CheckForeignBlock(const ShardReader& shard, size_t block,
                                                  const ValidateOptions& options, ForwardReadQueue::Turn turn) {
  ForeignFindings findings;
  BlockBuffer buffer;
  BlockView view;
  if (shard.forward_only()) turn.Await();
  const absl::Status status = shard.ReadBlock(block, {}, &buffer, &view);
  turn.End();
  if (!status.ok()) {
    if (!IsForeignDamage(status)) return status;
    findings.problems.push_back(status);
    return findings;
  }
  if (!options.deep) return findings;
  DeepChecker checker(options.max_image_memory);
  for (uint32_t i = 0; i < view.sample_count(); ++i) {
    for (size_t column = 0; column < shard.schema().size(); ++column) {
      const auto value = view.column(column).value(i);
      if (!value) continue;
      const absl::Status checked = checker.Check(shard.schema()[column], *value);
      const auto describe = [&](std::string_view what) {
        return StrCat("sample ", view.first_sample() + i, ", column \"", shard.schema()[column].name, "\": ", what);
      };
      if (!checked.ok()) findings.problems.push_back(DataLoss(shard.path(), ": ", describe(ToStd(checked.message()))));
      if (!checker.warning().empty()) findings.warned_images.Add({1, describe(checker.warning())});
    }
  }
  findings.undecoded_images = checker.undecoded_images();
  return findings;
}

}  // namespace

absl::Status ValidateForeign(const ForeignDataset& dataset, const std::string& path, const ValidateOptions& options,
                             ThreadPool& threads, ValidateReport* report, const ForeignProblemSink& sink) {
  const Manifest& manifest = dataset.manifest();
  const auto [begin, end] = ShardsOfTask(options, manifest.shards.size());
  uint64_t bytes_done = 0, bytes_total = 0;
  for (size_t i = begin; i < end; ++i) bytes_total += manifest.shards[i].bytes;
  // What is noted of tars, FindProblems reports.
  if (options.task == 0 && dataset.container() == "mds") {
    for (std::string& note : dataset.notes()) report->warnings.push_back({path, std::move(note)});
  }
  for (size_t i = begin; i < end; ++i) {
    ReadOptions read;
    read.mode = options.mode;
    read.max_decompression = options.max_decompression;
    read.verify_listed_hashes = false;  // FindProblems compares all of them
    const auto opened = dataset.OpenShard(i, read);
    if (!opened.ok()) {
      if (!IsForeignDamage(opened.status())) return opened.status();
      sink(path, opened.status());
      continue;
    }
    const ShardReader& shard = **opened;
    ForwardReadQueue turns;
    OrderedTasks<absl::StatusOr<ForeignFindings>> checking(threads, "checking blocks", options.cancellation,
                                                           2 * static_cast<size_t>(threads.thread_count()));
    size_t begun = 0;
    for (size_t block = 0; block < shard.blocks().size(); ++block) {
      for (; begun < shard.blocks().size() && !checking.full(); ++begun) {
        checking.Add([&shard, &options, begun, turn = ForwardReadQueue::Turn(turns, i, begun)]() mutable {
          return CheckForeignBlock(shard, begun, options, std::move(turn));
        });
      }
      auto findings = checking.Take().result;
      if (!findings.ok()) return findings.status();
      for (const absl::Status& problem : findings->problems) sink(shard.path(), problem);
      report->undecoded_images += findings->undecoded_images;
      NoteWarnedImages(shard.path(), findings->warned_images, report);
      ++report->blocks;
      report->samples += shard.blocks()[block].sample_count;
      bytes_done += shard.blocks()[block].length;
      if (options.progress) options.progress(std::min(bytes_done, bytes_total), bytes_total);
    }
    const absl::Status status =
        dataset.FindProblems(i, read, [&](const absl::Status& problem) { sink(shard.path(), problem); });
    if (!status.ok()) {
      if (!IsForeignDamage(status)) return status;
      sink(shard.path(), status);
    }
    ++report->shards;
    report->bytes += shard.file_length();
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
