// shardctl reshard
#include "shardkit/copy.h"

#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "filter_options.h"
#include "interrupt.h"
#include "job_report.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {

int RunReshard(int argc, char** argv) {
  CommandLine line("reshard", "put the samples of a dataset into other shards, or into random order",
                   "DATASET [OPTION]... -o OUT");
  std::vector<std::string> inputs;
  std::optional<std::string> output, scratch;
  std::optional<uint64_t> seed;
  uint64_t shard_samples = 0;
  bool shuffle = false, json = false;
  shardkit::ReshardOptions options;
  CopyArguments copy;
  line.Arguments("DATASET", 1, 1, &inputs);
  line.Text("-o,--output", "OUT", &output, "directory of the new dataset; must be empty or missing");
  line.Count("--shard-samples", "N", &shard_samples, 1, UINT32_MAX, "put at most this many samples in each shard");
  line.Flag("--shuffle", &shuffle, "store the samples in random order; --shard-size then counts the bytes of values");
  line.Count("--seed", "N", &seed, 0, UINT64_MAX, "another order for each N [0]");
  line.Size("--memory", &options.shuffle_memory,
            "what shuffling holds in memory; the order does not depend on it [1GiB]");
  line.Text("--scratch", "DIR", &scratch,
            "where shuffling keeps temporary files, when the values do not fit in the memory [OUT]");
  copy.AddTo(&line);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "Samples keep their order without --shuffle. With it the order is that of the hashes of their ordinals: reading "
      "it\n"
      "from front to back is random, for programs that do not shuffle themselves.");
  line.Example("shardctl reshard old -o new --shard-size 64MiB", "smaller shards of the same blocks");
  line.Example("shardctl reshard old -o new --block-size 16MiB", "larger blocks");
  line.Example("shardctl reshard old -o new --shuffle --seed 7", "shuffled once for good");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!output.has_value()) return line.UsageError("-o OUT is missing");
  if (!shuffle) {
    if (seed.has_value()) return line.UsageError("--seed: only with --shuffle");
    if (scratch.has_value()) return line.UsageError("--scratch: only with --shuffle");
    if (options.shuffle_memory != shardkit::ReshardOptions().shuffle_memory) {
      return line.UsageError("--memory: only with --shuffle");
    }
  } else {
    options.shuffle = seed.value_or(0);
    options.scratch = scratch.value_or("");
  }
  if (const std::optional<int> code = copy.Take(line, inputs, &options)) return *code;
  options.pack.dataset.shard_samples = shard_samples;
  if (const absl::Status apart = CheckApart(*output, inputs); !apart.ok()) return Fail(apart);
  if (const absl::Status readable = CheckReadable(inputs[0]); !readable.ok()) return Fail(readable);
  options.pack.dataset.cancellation = CancelOnSignal();
  Progress progress("samples");
  if (progress.enabled()) {
    options.spreading = [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); };
    options.pack.progress = [&](const shardkit::PackProgress& now) {
      progress.Update(now.samples, now.total_samples, now.input_bytes);
    };
  }
  const auto report = shardkit::Reshard(*shardkit::DefaultFileSystem(), inputs[0], *output, options);
  progress.Clear();
  if (absl::IsCancelled(report.status())) return ReportInterruption(/*dry_run=*/false, options.pack.dataset);
  if (!report.ok()) return FailWriting(report.status());
  const shardkit::Manifest& manifest = report->manifest;
  if (json) {
    PrintJson({{"input", inputs[0]},
               {"output", *output},
               {"shuffled", shuffle},
               {"seed", shuffle ? Json(*options.shuffle) : Json(nullptr)},
               {"samples", manifest.sample_count},
               {"bytes", manifest.bytes},
               {"shards", manifest.shards.size()},
               {"blocks", manifest.block_count},
               {"seconds", progress.seconds()}});
  } else {
    Stdout().Write((shuffle ? "shuffled " : "stored ") + Counted(manifest.sample_count, "sample") + " into " +
                   Counted(manifest.shards.size(), "shard") + ", " + Counted(manifest.block_count, "block") + ", " +
                   FormatBytes(manifest.bytes) + ", " + FormatFixed(progress.seconds(), 1) + " s\n");
  }
  return kExitSuccess;
}

}  // namespace shardctl
