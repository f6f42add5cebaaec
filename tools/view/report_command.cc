// shardctl report
#include <chrono>
#include <thread>

#include "shardctl/command_line.h"
#include "shardctl/dataset_access.h"
#include "shardctl/file_target.h"
#include "shardctl/interrupt.h"
#include "shardctl/numbers.h"
#include "shardctl/output.h"
#include "shardctl/progress.h"
#include "shardctl/report.h"
#include "shardctl/verbs.h"
#include "shardkit/remote.h"
#include "view/report_page.h"

namespace shardctl {
namespace {

// A report is of all samples.
std::shared_ptr<const Snapshot> AwaitAll(const ViewedDataset& dataset, const shardkit::Cancellation& cancellation) {
  while (!cancellation.cancelled()) {
    auto snapshot = dataset.current();
    if (snapshot->complete) return snapshot;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return nullptr;
}

int Interrupted() {
  PrintError("shardctl: interrupted; no report was written");
  return kExitEnvironment;
}

}  // namespace

int RunReport(int argc, char** argv) {
  CommandLine line("report", "write what a dataset is like into one HTML file", "[OPTION]... DATASET -o FILE");
  std::vector<std::string> paths;
  std::optional<std::string> output;
  ReportOptions options;
  bool no_validate = false;
  bool json = false;
  JobsOption jobs;
  line.Arguments("DATASET", 1, 1, &paths);
  line.Text("-o,--output", "FILE", &output, "the file to write; an existing one is replaced");
  line.Count("--samples", "N", &options.samples, 0, 10000, "show N samples, drawn at random [48]");
  line.Count("--seed", "N", &options.seed, 0, UINT64_MAX, "draw those of this seed [0]");
  line.Size("--limit", &options.limit, "leave out samples that would make the file larger [5MiB]");
  line.Flag("--no-validate", &no_validate, "do not read the whole dataset to compare its checksums");
  jobs.AddTo(&line, "threads that check");
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "The file has no scripts and needs nothing from elsewhere, so that it can be mailed, or kept beside a training\n"
      "run. Problems that shardctl validate finds are listed in it, and make the exit code 1.");
  line.Example("shardctl report photos -o photos.html", "overview, samples, statistics and problems of photos");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!output) return line.UsageError("-o FILE is missing");
  const shardkit::Cancellation* cancellation = CancelOnSignal();
  options.cancellation = cancellation;
  const auto dataset = ViewedDataset::Open(*shardkit::DefaultFileSystem(), paths[0]);
  if (!dataset.ok()) return Fail(dataset.status());
  const auto snapshot = AwaitAll(**dataset, *cancellation);
  if (snapshot == nullptr) return Interrupted();
  if (snapshot->reader == nullptr) return Fail(snapshot->problem);
  // Before the work, so that a wrong name is told at once.
  auto file = FileTarget::Open(*output);
  if (!file.ok()) return Fail(file.status());
  shardkit::ValidateReport validation;
  if (!no_validate) {
    Progress progress("");
    shardkit::ValidateOptions check;
    check.threads = jobs.jobs(paths);
    check.cancellation = cancellation;
    check.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total, done); };
    auto report = shardkit::Validate(*shardkit::DefaultFileSystem(), paths[0], check);
    progress.Clear();
    if (absl::IsCancelled(report.status())) return Interrupted();
    if (!report.ok()) return Fail(report.status());
    validation = *std::move(report);
    options.validation = &validation;
  }
  const auto page = MakeReport(**dataset, *snapshot, options);
  if (absl::IsCancelled(page.status())) return Interrupted();
  if (!page.ok()) return Fail(page.status());
  if (const absl::Status status = (*file)->Append(*page); !status.ok()) return Fail(status);
  if (const absl::Status status = (*file)->Commit(); !status.ok()) return Fail(status);
  if (json) {
    PrintJson(Json{{"path", paths[0]},
                   {"output", *output},
                   {"bytes", page->size()},
                   {"validated", !no_validate},
                   {"problem_count", validation.problem_count}});
  } else {
    Stdout().Write(
        Printable(*output) + ": " + FormatBytes(page->size()) +
        (no_validate ? "" : ", " + (validation.ok() ? "no problem" : Counted(validation.problem_count, "problem"))) +
        "\n");
  }
  return validation.ok() ? kExitSuccess : kExitBadData;
}

}  // namespace shardctl
