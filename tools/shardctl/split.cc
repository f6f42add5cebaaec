// shardctl split
#include <optional>
#include <string>
#include <utility>
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
#include "shardkit/copy.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {
namespace {

// "NAME=SHARE". A name may contain '=', a share may not.
absl::StatusOr<shardkit::SplitPart> ParsePartOfSplit(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) return absl::InvalidArgumentError(Quote(text) + " is not NAME=SHARE, as val=5%");
  const absl::StatusOr<double> share = ParseShare(text.substr(equals + 1));
  if (!share.ok()) return share.status();
  return shardkit::SplitPart{text.substr(0, equals), *share};
}

}  // namespace

int RunSplit(int argc, char** argv) {
  CommandLine line("split", "divide a dataset at random, by key, into parts such as train and val",
                   "DATASET --into NAME=SHARE,... [OPTION]... -o DIR");
  std::vector<std::string> inputs, into;
  std::optional<std::string> output;
  uint64_t seed = 0;
  bool json = false;
  CopyArguments copy;
  line.Arguments("DATASET", 1, 1, &inputs);
  line.Text("-o,--output", "DIR", &output, "directory that gets a dataset for each part, DIR/NAME");
  line.Texts("--into", "NAME=SHARE", &into,
             "a part and its share of the keys, as val=5%; several with commas; together at most 100%");
  line.Count("--seed", "N", &seed, 0, UINT64_MAX, "another division for each N [0]");
  shardkit::FilterOptions options;
  AddByReference(&line, &options.by_reference);
  copy.AddTo(&line);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "The hash of its key decides where a sample goes: samples of one key are in one part, and stay there when the\n"
      "dataset grows. Each part reads the blocks that it has samples in.");
  line.Example("shardctl split sa1b --into train=90%,val=5%,test=5% --seed 1 -o parts",
               "parts/train, parts/val and parts/test");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!output.has_value()) return line.UsageError("-o DIR is missing");
  std::vector<shardkit::SplitPart> parts;
  for (const std::string& text : SplitAtCommas(into)) {
    absl::StatusOr<shardkit::SplitPart> part = ParsePartOfSplit(text);
    if (!part.ok()) return line.UsageError("--into: " + std::string(part.status().message()));
    parts.push_back(*std::move(part));
  }
  if (parts.empty()) return line.UsageError("--into is missing: the parts, as train=90%,val=10%");
  if (options.by_reference) {
    const std::vector<std::string> names = {
        "-o", "--into", "--seed", "--json", "--by-reference", "-j", "--max-decompression"};
    if (const auto other = line.GivenBesides(names)) return line.UsageError(*other + ": not with --by-reference");
  }
  if (const std::optional<int> code = copy.Take(line, inputs, &options)) return *code;
  if (const absl::Status apart = CheckApart(*output, inputs); !apart.ok()) return Fail(apart);
  if (const absl::Status readable = CheckReadable(inputs[0]); !readable.ok()) return Fail(readable);

  options.pack.dataset.cancellation = CancelOnSignal();
  Progress progress("samples");
  if (progress.enabled()) {
    options.selecting = [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); };
    options.pack.progress = [&](const shardkit::PackProgress& now) {
      progress.Update(now.samples, now.total_samples, now.input_bytes);
    };
  }
  const auto report = shardkit::Split(*shardkit::DefaultFileSystem(), inputs[0], *output, parts, seed, options);
  progress.Clear();
  if (absl::IsCancelled(report.status())) {
    return ReportInterruption(/*dry_run=*/false, options.pack.dataset);
  }
  if (!report.ok()) return FailWriting(report.status());
  if (!report->parts.empty()) NoteBases(report->parts[0].manifest);
  if (json) {
    Json document{{"input", inputs[0]}, {"output", *output}, {"seed", seed}, {"by_reference", options.by_reference}};
    SetSelection(report->selection, &document);
    document["parts"] = Json::array();
    for (size_t i = 0; i < parts.size(); ++i) {
      const shardkit::Manifest& manifest = report->parts[i].manifest;
      document["parts"].push_back({{"name", parts[i].name},
                                   {"samples", manifest.seen_samples()},
                                   {"bytes", manifest.bytes},
                                   {"shards", manifest.shards.size()}});
    }
    document["seconds"] = progress.seconds();
    PrintJson(document);
    return kExitSuccess;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const shardkit::Manifest& manifest = report->parts[i].manifest;
    Stdout().Write(parts[i].name + ": " + Counted(manifest.seen_samples(), "sample") + ", " +
                   Counted(manifest.shards.size(), "shard") + ", " + FormatBytes(manifest.bytes) + "\n");
  }
  return kExitSuccess;
}

}  // namespace shardctl
