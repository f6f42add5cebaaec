// shardctl convert
#include "shardkit/copy.h"

#include "convert_options.h"
#include "dataset_access.h"
#include "interrupt.h"
#include "job_report.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "pack_tasks.h"
#include "progress.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {
namespace {

std::string_view ShardNoun(shardkit::Container container) {
  if (container == shardkit::Container::kMds) return "MDS shard";
  return container == shardkit::Container::kWebDataset ? "tar" : "shard";
}

void PrintSummary(const ConvertArguments& arguments, const shardkit::PackReport& report, double seconds) {
  const shardkit::Manifest& manifest = report.manifest;
  std::string text;
  if (arguments.dry_run) {
    text = "would convert " + Counted(report.samples, "sample") + ", " + FormatBytes(report.input_bytes) +
           "; nothing was written\n";
  } else {
    const bool append = arguments.options.pack.dataset.append;
    text = append ? AppendedText(report, arguments.input)
                  : "converted " + Counted(manifest.sample_count, "sample") + " (" +
                        Counted(manifest.schema.size(), "column") + ") into " +
                        Counted(manifest.shards.size(), ShardNoun(arguments.options.to)) + ", " +
                        FormatBytes(manifest.bytes) + "\n";
    // This run did not count the samples that an earlier, interrupted run converted.
    if (report.samples != manifest.sample_count && !append)
      text += "of these " + Counted(report.samples, "sample") + " in this run: ";
    text += FormatBytes(report.input_bytes) + " of values, " + FormatFixed(seconds, 1) + " s";
    if (seconds > 0 && !arguments.finish)
      text += ", " + FormatFixed(static_cast<double>(report.input_bytes) / 1e6 / seconds, 1) + " MB/s";
    text += "\n";
  }
  Stdout().Write(text);
}

void PrintJsonSummary(const ConvertArguments& arguments, const shardkit::PackReport& report, double seconds) {
  const shardkit::Manifest& manifest = report.manifest;
  Json document;
  document["input"] = arguments.input;
  document["output"] = arguments.output.has_value() ? Json(*arguments.output) : Json(nullptr);
  document["container"] = shardkit::ContainerName(arguments.options.to);
  document["dry_run"] = arguments.dry_run;
  document["samples"] = arguments.dry_run ? report.samples : manifest.sample_count;
  document["samples_this_run"] = report.samples;
  if (arguments.options.pack.dataset.append) {
    document["samples_existing"] = report.existing;
    document["generation"] = manifest.generation;
  }
  document["value_bytes"] = report.input_bytes;
  document["bytes"] = manifest.bytes;
  document["shards"] = manifest.shards.size();
  document["columns"] = Json::array();
  for (const shardkit::Column& column : manifest.schema.columns()) document["columns"].push_back(ColumnJson(column));
  document["skipped"] = SkippedJson(report.skipped);
  document["warnings"] = report.warnings;
  document["seconds"] = seconds;
  PrintJson(document);
}

}  // namespace

int RunConvert(int argc, char** argv) {
  ConvertArguments arguments;
  if (const std::optional<int> code = ParseConvertArguments(argc, argv, &arguments)) return *code;
  if (!arguments.dry_run) {
    const absl::Status apart = CheckApart(*arguments.output, {arguments.input});
    if (!apart.ok()) return Fail(apart);
  }
  shardkit::ConvertOptions& options = arguments.options;
  options.pack.dataset.cancellation = CancelOnSignal();
  Progress progress("samples");
  if (progress.enabled()) {
    options.pack.progress = [&](const shardkit::PackProgress& now) {
      progress.Update(now.samples, now.total_samples, now.input_bytes);
    };
  }
  shardkit::FileSystem& file_system = *shardkit::DefaultFileSystem();
  if (const absl::Status readable = CheckReadable(arguments.input); !readable.ok()) return Fail(readable);
  if (arguments.task.has_value()) {
    const auto [task, tasks] = *arguments.task;
    const auto report = shardkit::ConvertTask(file_system, arguments.input, *arguments.output, options, task, tasks);
    return ReportTask(*arguments.output, task, tasks, "converted", report, arguments.json, &progress);
  }
  const absl::StatusOr<shardkit::PackReport> report =
      arguments.dry_run  ? shardkit::DryRunConvert(file_system, arguments.input, options)
      : arguments.finish ? shardkit::FinishConvert(file_system, arguments.input, *arguments.output, options)
                         : shardkit::Convert(file_system, arguments.input, *arguments.output, options);
  progress.Clear();
  if (absl::IsCancelled(report.status())) {
    if (!arguments.finish) return ReportInterruption(arguments.dry_run, options.pack.dataset);
    PrintError("shardctl: interrupted; the same command goes on");
    return kExitEnvironment;
  }
  if (!report.ok()) return FailWriting(report.status());
  if (arguments.json) {
    PrintJsonSummary(arguments, *report, progress.seconds());
  } else {
    PrintSummary(arguments, *report, progress.seconds());
  }
  Stdout().Flush();
  for (const std::string& warning : report->warnings) PrintError("shardctl: warning: " + warning);
  return ReportSkipped(report->skipped);
}

}  // namespace shardctl
