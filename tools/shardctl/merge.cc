// shardctl merge
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

int RunMerge(int argc, char** argv) {
  CommandLine line("merge", "make one dataset of several", "DATASET... [OPTION]... -o OUT");
  std::vector<std::string> inputs;
  std::optional<std::string> output;
  size_t repeated_keys = 0;
  bool json = false;
  shardkit::MergeOptions options;
  CopyArguments copy;
  line.Arguments("DATASET", 1, SIZE_MAX, &inputs);
  line.Text("-o,--output", "OUT", &output,
            "directory of the new dataset; must be empty or missing, but when it holds DATASETs of MDS");
  line.Choice("--repeated-keys", "ACTION", {"refuse", "keep"}, &repeated_keys,
              "what to do about samples of several DATASETs that have one key: refuse all, or keep them [refuse]");
  line.Flag(
      "--copy", &options.copy,
      "store the samples again, for datasets of other containers, or with other codecs, or to be apart from them");
  AddByReference(&line, &options.by_reference);
  copy.AddTo(&line);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "Without --copy no value is read: the new dataset has links to the shards, or copies where links do not work.\n"
      "DATASETs of MDS stay where they are, below OUT, which gets an index.json of all of them. Other options than "
      "-o,\n"
      "--repeated-keys, --by-reference and --json go with --copy.");
  line.Example("shardctl merge monday tuesday -o week", "the samples of both, in this order, in the same shards");
  line.Example("shardctl merge s3://hub/images -o mine --by-reference",
               "a dataset of the same samples whose columns and samples one can change");
  line.Example("shardctl merge photos old-mds tars -o all --copy", "datasets of several containers made one");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!output.has_value()) return line.UsageError("-o OUT is missing");
  if (options.copy && options.by_reference) return line.UsageError("--by-reference: not with --copy");
  if (!options.copy) {
    if (const auto other = line.GivenBesides({"-o", "--repeated-keys", "--json", "--by-reference"})) {
      return line.UsageError(*other + ": only with --copy");
    }
  }
  options.keep_repeated_keys = repeated_keys == 1;
  if (const std::optional<int> code = copy.Take(line, inputs, &options)) return *code;
  if (const absl::Status apart = CheckApart(*output, inputs); !apart.ok()) return Fail(apart);
  if (options.copy) {
    for (const std::string& input : inputs) {
      if (const absl::Status readable = CheckReadable(input); !readable.ok()) return Fail(readable);
    }
  }
  options.pack.dataset.cancellation = CancelOnSignal();
  Progress progress("samples");
  if (progress.enabled()) {
    options.pack.progress = [&](const shardkit::PackProgress& now) {
      progress.Update(now.samples, now.total_samples, now.input_bytes);
    };
  }
  const auto manifest = shardkit::MergeDatasets(*shardkit::DefaultFileSystem(), inputs, *output, options);
  progress.Clear();
  if (absl::IsCancelled(manifest.status())) return ReportInterruption(/*dry_run=*/false, options.pack.dataset);
  if (!manifest.ok()) return FailWriting(manifest.status());
  NoteBases(*manifest);
  if (json) {
    PrintJson({{"inputs", inputs},
               {"output", *output},
               {"copied", options.copy},
               {"by_reference", options.by_reference},
               {"samples", manifest->seen_samples()},
               {"bytes", manifest->bytes},
               {"shards", manifest->shards.size()},
               {"blocks", manifest->block_count},
               {"seconds", progress.seconds()}});
  } else {
    Stdout().Write("merged " + Counted(inputs.size(), "dataset") + " into " + Printable(*output) + ": " +
                   Counted(manifest->seen_samples(), "sample") + " in " + Counted(manifest->shards.size(), "shard") +
                   ", " + Counted(manifest->block_count, "block") + ", " + FormatBytes(manifest->bytes) + "\n");
  }
  return kExitSuccess;
}

}  // namespace shardctl
