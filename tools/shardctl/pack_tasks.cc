// shardctl plan-pack, pack --task and pack --finish
#include "pack_tasks.h"

#include <algorithm>

#include "command_line.h"
#include "dataset_access.h"
#include "interrupt.h"
#include "job_report.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/pack.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {

int RunPlanPack(int argc, char** argv) {
  PackArguments arguments;
  if (const std::optional<int> code = ParsePackArguments(argc, argv, /*plan=*/true, &arguments)) return *code;
  const absl::Status apart = CheckApart(*arguments.output, arguments.inputs);
  if (!apart.ok()) return Fail(apart);
  shardkit::PackOptions options = PackOptionsOf(arguments);
  options.dataset.cancellation = CancelOnSignal();
  Progress progress("samples");
  options.progress = [&](const shardkit::PackProgress& now) { progress.Update(now.samples, 0, now.input_bytes); };
  const absl::StatusOr<shardkit::PackPlan> plan =
      shardkit::PlanPack(*shardkit::DefaultFileSystem(), arguments.source, arguments.inputs, SourceOptionsOf(arguments),
                         *arguments.output, options);
  progress.Clear();
  if (!plan.ok()) {
    return absl::IsCancelled(plan.status()) ? ReportInterruption(/*dry_run=*/false, options.dataset)
                                            : FailWriting(plan.status());
  }
  if (arguments.json) {
    Json document;
    document["output"] = *arguments.output;
    document["units"] = plan->units;
    document["samples"] = plan->samples.has_value() ? Json(*plan->samples) : Json(nullptr);
    document["input_bytes"] = plan->input_bytes;
    document["tasks"] = arguments.tasks;
    document["warnings"] = plan->warnings;
    document["seconds"] = progress.seconds();
    PrintJson(document);
  } else {
    std::string text = "planned " + (plan->samples.has_value() ? Counted(*plan->samples, "sample") + ", " : "") +
                       FormatBytes(plan->input_bytes) + ", in " + Counted(plan->units, "unit") + "; next, anywhere:\n";
    const std::string last = std::to_string(arguments.tasks - 1), of = "/" + std::to_string(arguments.tasks);
    text += "  shardctl pack --task 0" + of + " -o " + *arguments.output + "\n";
    if (arguments.tasks > 1) text += "  … " + last + of + "\n";
    text += "and when they have ended:\n  shardctl pack --finish -o " + *arguments.output + "\n";
    Stdout().Write(text);
  }
  Stdout().Flush();
  for (const std::string& warning : plan->warnings) PrintError("shardctl: warning: " + warning);
  if (arguments.tasks > std::max<uint64_t>(plan->units, 1)) {
    const std::string way = plan->samples.has_value() ? "a smaller --shard-size makes more units"
                                                      : "a table or tar is one unit, so divide a long one";
    Note("there are fewer units than tasks, so some tasks have nothing to do: " + way);
  }
  return kExitSuccess;
}

int RunPackTask(const PackArguments& arguments) {
  shardkit::PackTaskOptions options;
  std::tie(options.task, options.tasks) = *arguments.task;
  options.threads = arguments.jobs;
  options.cancellation = CancelOnSignal();
  Progress progress("samples");
  if (progress.enabled()) {
    options.progress = [&](const shardkit::PackProgress& now) { progress.Update(now.samples, 0, now.input_bytes); };
  }
  const absl::StatusOr<shardkit::PackTaskReport> report =
      shardkit::PackTask(*shardkit::DefaultFileSystem(), *arguments.output, options);
  return ReportTask(*arguments.output, options.task, options.tasks, "packed", report, arguments.json, &progress);
}

int ReportTask(const std::string& output, uint64_t task, uint64_t tasks, const std::string& done,
               const absl::StatusOr<shardkit::PackTaskReport>& report, bool json, Progress* progress) {
  progress->Clear();
  if (!report.ok()) {
    if (!absl::IsCancelled(report.status())) return FailWriting(report.status());
    PrintError("shardctl: interrupted; the units that were " + done + " stay, and the same command does the others");
    return kExitEnvironment;
  }
  if (json) {
    Json document;
    document["output"] = output;
    document["task"] = task;
    document["tasks"] = tasks;
    document["units"] = report->units;
    document["units_before"] = report->units_before;
    document["samples"] = report->samples;
    document["input_bytes"] = report->input_bytes;
    document["skipped"] = SkippedJson(report->skipped);
    document["warnings"] = report->warnings;
    document["seconds"] = progress->seconds();
    PrintJson(document);
  } else {
    const std::string before =
        report->units_before == 0 ? "" : " (" + std::to_string(report->units_before) + " were there before)";
    Stdout().Write(done + " " + Counted(report->units, "unit") + before + ": " + Counted(report->samples, "sample") +
                   ", " + FormatBytes(report->input_bytes) + " in, " + FormatFixed(progress->seconds(), 1) + " s\n");
  }
  Stdout().Flush();
  for (const std::string& warning : report->warnings) PrintError("shardctl: warning: " + warning);
  // Whether samples were skipped is for --finish to say: a scheduler would take another exit code for a failure.
  (void)ReportSkipped(report->skipped);
  return kExitSuccess;
}

}  // namespace shardctl
