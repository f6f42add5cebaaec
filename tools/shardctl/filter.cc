// shardctl filter
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
namespace {

struct FilterArguments {
  std::string input;
  std::optional<std::string> output;  // set unless count
  std::optional<std::string> keys_from;
  shardkit::SampleSelection selection;
  shardkit::FilterOptions options;
  bool count = false;
  bool json = false;
};

std::optional<int> ParseFilterArguments(int argc, char** argv, FilterArguments* arguments) {
  CommandLine line("filter", "make a dataset of some samples, or count them",
                   "DATASET [--where EXPRESSION] [OPTION]... -o OUT");
  std::vector<std::string> inputs, ranges;
  std::optional<std::string> where, sample;
  std::optional<uint64_t> seed;
  CopyArguments copy;
  line.Arguments("DATASET", 1, 1, &inputs);
  line.Text("-o,--output", "OUT", &arguments->output, "directory of the new dataset; must be empty or missing");
  line.Text("--where", "EXPRESSION", &where, "only samples whose values satisfy this");
  line.Text("--keys-from", "FILE", &arguments->keys_from, "only samples with a key of this file, which has one a line");
  line.Texts("--range", "A:B", &ranges,
             "only samples A up to but not including B, counted from 0; several with commas, and either end may be "
             "left out");
  line.Text("--sample", "SHARE", &sample, "only this share of the keys, as 10% or 0.1, chosen by their hashes");
  line.Count("--seed", "N", &seed, 0, UINT64_MAX, "another choice of --sample for each N [0]");
  line.Flag("--count", &arguments->count, "print how many samples there would be, write nothing");
  AddByReference(&line, &arguments->options.by_reference);
  copy.AddTo(&line);
  line.Flag("--json", &arguments->json, "print the summary as one JSON document");
  line.Notes(
      "Samples are taken that satisfy everything given. An EXPRESSION compares columns: =, !=, <, <=, >, >=, in (…),\n"
      "text ~ \"a*\", starts_with(text, \"a\"), is null, is not null; with + - * / %, and, or, not, (…); of arrays\n"
      "len, count, min, max, mean, sum, any(scores > 0.5), all(…). A column that is no word stands in back quotes: "
      "`a-b`. A "
      "condition on an absent value is neither true nor false.");
  line.Example("shardctl filter sa1b -o large --where 'width >= 1024 and mean(predicted_iou) > 0.9'",
               "the images that are large and well annotated");
  line.Example("shardctl filter sa1b --count --where 'len(masks) > 100'", "how many have more than a hundred masks");
  line.Example("shardctl filter s3://data/sa1b -o some --sample 1% --seed 7",
               "one in a hundred, the same ones when the dataset grows");
  if (const std::optional<int> code = line.Parse(argc, argv)) return code;

  arguments->input = inputs[0];
  shardkit::SampleSelection& selection = arguments->selection;
  if (where.has_value()) selection.where = *where;
  for (const std::string& text : SplitAtCommas(ranges)) {
    const absl::StatusOr<std::pair<uint64_t, uint64_t>> range = ParseRange(text);
    if (!range.ok()) return line.UsageError("--range: " + std::string(range.status().message()));
    selection.ranges.push_back(*range);
  }
  if (!ranges.empty() && selection.ranges.empty()) return line.UsageError("--range: is empty");
  if (sample.has_value()) {
    const absl::StatusOr<double> share = ParseShare(*sample);
    if (!share.ok()) return line.UsageError("--sample: " + std::string(share.status().message()));
    selection.share = *share;
  } else if (seed.has_value()) {
    return line.UsageError("--seed: only with --sample");
  }
  selection.seed = seed.value_or(0);
  if (!where.has_value() && !arguments->keys_from.has_value() && ranges.empty() && !sample.has_value()) {
    return line.UsageError("nothing says which samples: --where, --keys-from, --range or --sample");
  }
  if (arguments->count && arguments->output.has_value()) return line.UsageError("-o: not with --count");
  if (!arguments->count && !arguments->output.has_value()) return line.UsageError("-o OUT is missing, or --count");
  if (arguments->options.by_reference) {
    const std::vector<std::string> names = {"-o",     "--where", "--keys-from",    "--range", "--sample",
                                            "--seed", "--json",  "--by-reference", "-j",      "--max-decompression"};
    if (const auto other = line.GivenBesides(names)) return line.UsageError(*other + ": not with --by-reference");
  }
  return copy.Take(line, inputs, &arguments->options);
}

int Count(const FilterArguments& arguments, Progress* progress) {
  const shardkit::DatasetWriterOptions& dataset = arguments.options.pack.dataset;
  const shardkit::SelectionOptions options = {{dataset.threads, dataset.cancellation, arguments.options.selecting},
                                              arguments.options};
  const auto report =
      shardkit::CountSamples(*shardkit::DefaultFileSystem(), arguments.input, arguments.selection, options);
  progress->Clear();
  if (absl::IsCancelled(report.status())) return ReportInterruption(/*dry_run=*/true, dataset);
  if (!report.ok()) return Fail(report.status());
  if (!arguments.json) {
    Stdout().Write(std::to_string(report->selected) + "\n");
    return kExitSuccess;
  }
  Json document{{"input", arguments.input}};
  SetSelection(*report, &document);
  document["keys_missing"] = report->keys_missing;
  PrintJson(document);
  return kExitSuccess;
}

int Write(const FilterArguments& arguments, Progress* progress) {
  const absl::Status apart = CheckApart(*arguments.output, {arguments.input});
  if (!apart.ok()) return Fail(apart);
  if (const absl::Status readable = CheckReadable(arguments.input); !readable.ok()) return Fail(readable);
  const auto report = shardkit::Filter(*shardkit::DefaultFileSystem(), arguments.input, *arguments.output,
                                       arguments.selection, arguments.options);
  progress->Clear();
  if (absl::IsCancelled(report.status())) {
    return ReportInterruption(/*dry_run=*/false, arguments.options.pack.dataset);
  }
  if (!report.ok()) return FailWriting(report.status());
  const shardkit::Manifest& manifest = report->pack.manifest;
  NoteBases(manifest);
  if (arguments.json) {
    Json document{{"input", arguments.input}, {"output", *arguments.output}};
    SetSelection(report->selection, &document);
    document["keys_missing"] = report->selection.keys_missing;
    document["samples"] = manifest.seen_samples();
    document["by_reference"] = arguments.options.by_reference;
    document["bytes"] = manifest.bytes;
    document["shards"] = manifest.shards.size();
    document["seconds"] = progress->seconds();
    PrintJson(document);
  } else {
    Stdout().Write(SelectionText(report->selection) + (arguments.options.by_reference ? "\nreferred to " : "\nwrote ") +
                   Counted(manifest.shards.size(), "shard") + ", " + FormatBytes(manifest.bytes) + ", " +
                   FormatFixed(progress->seconds(), 1) + " s\n");
    if (const uint64_t missing = report->selection.keys_missing; missing > 0) {
      Note(Counted(missing, "key") + " of " + *arguments.keys_from + (missing == 1 ? " is" : " are") + " of no sample");
    }
  }
  return kExitSuccess;
}

}  // namespace

int RunFilter(int argc, char** argv) {
  FilterArguments arguments;
  if (const std::optional<int> code = ParseFilterArguments(argc, argv, &arguments)) return *code;
  arguments.options.pack.dataset.cancellation = CancelOnSignal();
  if (arguments.keys_from.has_value()) {
    auto keys = shardkit::ReadKeys(*shardkit::DefaultFileSystem(), *arguments.keys_from);
    if (!keys.ok()) return Fail(keys.status());
    arguments.selection.keys = *std::move(keys);
  }
  Progress progress("samples");
  if (progress.enabled()) {
    arguments.options.selecting = [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); };
    arguments.options.pack.progress = [&](const shardkit::PackProgress& now) {
      progress.Update(now.samples, now.total_samples, now.input_bytes);
    };
  }
  return arguments.count ? Count(arguments, &progress) : Write(arguments, &progress);
}

}  // namespace shardctl
