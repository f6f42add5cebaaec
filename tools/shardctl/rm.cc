// shardctl rm
#include "shardkit/change.h"

#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "filter_options.h"
#include "interrupt.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {

int RunRm(int argc, char** argv) {
  CommandLine line("rm", "remove samples from a dataset, at once and without rewriting it",
                   "DATASET (--keys-from FILE | --where EXPRESSION | --range A:B) [OPTION]...");
  std::vector<std::string> inputs, ranges;
  std::optional<std::string> where, keys_from;
  bool json = false;
  JobsOption jobs;
  DecompressionOption decompression;
  shardkit::SampleSelection selection;
  line.Arguments("DATASET", 1, 1, &inputs);
  line.Text("--keys-from", "FILE", &keys_from, "the samples with a key of this file, which has one a line");
  line.Text("--where", "EXPRESSION", &where, "the samples whose values satisfy this, as for filter");
  line.Texts("--range", "A:B", &ranges, "samples A up to but not including B, counted from 0, as for filter");
  jobs.AddTo(&line, "threads that look for the samples");
  decompression.AddTo(&line);
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "Samples are removed that satisfy everything given; shardctl filter --count says how many these are. No reader\n"
      "sees them from then on, and samples behind them have smaller numbers. Their bytes stay, and so do earlier\n"
      "generations, which show them, until shardctl compact --purge.");
  line.Example("shardctl rm corpus --keys-from takedown.txt", "samples that may no longer be used, by their keys");
  line.Example("shardctl rm laion --where 'width < 256'", "images that are too small");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  for (const std::string& text : SplitAtCommas(ranges)) {
    const absl::StatusOr<std::pair<uint64_t, uint64_t>> range = ParseRange(text);
    if (!range.ok()) return line.UsageError("--range: " + std::string(range.status().message()));
    selection.ranges.push_back(*range);
  }
  if (!ranges.empty() && selection.ranges.empty()) return line.UsageError("--range: is empty");
  if (!where.has_value() && !keys_from.has_value() && ranges.empty()) {
    return line.UsageError("nothing says which samples: --keys-from, --where or --range");
  }
  selection.where = where.value_or("");
  if (keys_from.has_value()) {
    auto keys = shardkit::ReadKeys(*shardkit::DefaultFileSystem(), *keys_from);
    if (!keys.ok()) return Fail(keys.status());
    if (keys->empty()) return line.UsageError("--keys-from: " + *keys_from + ": has no keys");
    selection.keys = *std::move(keys);
  }
  Progress progress("samples");
  shardkit::SelectionOptions options = {{.threads = jobs.jobs(inputs), .cancellation = CancelOnSignal()},
                                        {.max_decompression = decompression.bytes()}};
  if (progress.enabled()) options.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); };
  const auto report = shardkit::RemoveSamples(*shardkit::DefaultFileSystem(), inputs[0], selection, options);
  progress.Clear();
  if (absl::IsCancelled(report.status())) {
    PrintError("shardctl: interrupted; nothing was removed");
    return kExitEnvironment;
  }
  if (!report.ok()) return FailWriting(report.status());
  const uint64_t missing = report->selection.keys_missing;
  if (json) {
    PrintJson({{"path", inputs[0]},
               {"removed", report->selection.selected},
               {"keys_missing", missing},
               {"samples", report->samples},
               {"removed_in_all", report->removed},
               {"generation", report->generation}});
    return kExitSuccess;
  }
  Stdout().Write("removed " + Counted(report->selection.selected, "sample") + " of " + Printable(inputs[0]) + ": " +
                 Counted(report->samples, "sample") + " left, generation " + std::to_string(report->generation) + "\n");
  if (missing > 0) {
    Note(Counted(missing, "key") + " of " + *keys_from + (missing == 1 ? " is" : " are") + " of no sample");
  }
  return kExitSuccess;
}

}  // namespace shardctl
