// shardctl compact
#include "shardkit/change.h"

#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "interrupt.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {
namespace {

constexpr double kMostGrace = 7 * 24 * 60;  // minutes

std::string ReportText(const std::string& path, const shardkit::CompactReport& report) {
  const shardkit::Manifest& manifest = report.manifest;
  std::string text = Printable(path) + ": ";
  if (report.shards_rewritten > 0) {
    text += "rewrote " + Counted(report.shards_rewritten, "shard");
    text += ", dropped " + Counted(report.samples_dropped, "removed sample") + "; ";
  }
  if (report.files_deleted > 0) text += "deleted " + Counted(report.files_deleted, "file") + " of before; ";
  if (manifest.removed) text += Counted(manifest.removed->samples, "removed sample") + " left in the shards; ";
  return text + Counted(manifest.seen_samples(), "sample") + " in " + Counted(manifest.shards.size(), "shard") + ", " +
         FormatBytes(manifest.bytes) + ", generation " + std::to_string(manifest.generation) + "\n";
}

Json ReportJson(const std::string& path, const shardkit::CompactReport& report) {
  const shardkit::Manifest& manifest = report.manifest;
  return {{"path", path},
          {"samples", manifest.seen_samples()},
          {"removed_left", manifest.removed ? manifest.removed->samples : 0},
          {"shards", manifest.shards.size()},
          {"bytes", manifest.bytes},
          {"bytes_before", report.bytes_before},
          {"segments", manifest.segments.size()},
          {"generation", manifest.generation},
          {"shards_rewritten", report.shards_rewritten},
          {"samples_dropped", report.samples_dropped},
          {"files_deleted", report.files_deleted}};
}

}  // namespace

int RunCompact(int argc, char** argv) {
  CommandLine line("compact", "rewrite what a dataset has lost, join its segments, purge what was removed",
                   "[OPTION]... DATASET...");
  std::vector<std::string> paths;
  std::optional<std::string> lost;
  std::optional<uint64_t> grace;
  bool json = false;
  shardkit::CompactOptions options;
  JobsOption jobs;
  line.Arguments("DATASET", 1, SIZE_MAX, &paths);
  line.Text("--lost", "SHARE", &lost,
            "rewrite shards that lost at least this share of their bytes, as 20% or 0.2 [20%]");
  line.Flag(
      "--fold", &options.fold,
      "write all columns into the shards under their names, where columns were added, renamed or dropped, and all "
      "samples into own shards, where some lie in other datasets");
  line.Flag("--purge", &options.purge,
            "rewrite all that hold a removed sample, then delete the files of earlier generations: nothing of the "
            "sample is left");
  line.Count("--grace", "MINUTES", &grace, 0, static_cast<uint64_t>(kMostGrace),
             "with --purge, wait so long before deleting, for readers that have the dataset open [0]");
  jobs.AddTo(&line, "shards rewritten at once; the output is the same for any number");
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "The dataset has the same samples and columns afterwards, in its next generation, if there is anything to do. "
      "The\n"
      "segments that appending has left become one, without reading the shards that stay. --purge deletes\n"
      "all files with names that Shardkit gives, as 00000000.shard and dataset-2.columns, which the dataset does not "
      "have.");
  line.Example("shardctl compact corpus", "one segment, and no shard that is hollow");
  line.Example("shardctl compact corpus --purge", "after shardctl rm: what a take-down request needs");
  line.Example("shardctl compact corpus --fold --purge", "captions and scores in the shards, and nothing else");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (lost.has_value()) {
    const absl::StatusOr<double> share = ParseShare(*lost);
    if (!share.ok()) return line.UsageError("--lost: " + std::string(share.status().message()));
    options.least_lost = *share;
  }
  if (grace.has_value() && !options.purge) return line.UsageError("--grace: only with --purge");
  options.grace = std::chrono::minutes(grace.value_or(0));
  options.threads = jobs.jobs(paths);
  options.cancellation = CancelOnSignal();
  Json datasets = Json::array();
  int code = kExitSuccess;
  for (const std::string& path : paths) {
    Progress progress("samples");
    if (progress.enabled()) {
      options.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); };
    }
    const auto report = shardkit::CompactDataset(*shardkit::DefaultFileSystem(), path, options);
    progress.Clear();
    if (absl::IsCancelled(report.status())) {
      PrintError("shardctl: interrupted; " + Printable(path) +
                 " is whole, and what an earlier generation needs was not deleted");
      code = kExitEnvironment;
      break;
    }
    if (!report.ok()) {
      code = std::max(code, FailWriting(report.status()));
      continue;
    }
    datasets.push_back(ReportJson(path, *report));
    if (!json) Stdout().Write(ReportText(path, *report));
  }
  if (json) PrintJson({{"datasets", std::move(datasets)}});
  return code;
}

}  // namespace shardctl
