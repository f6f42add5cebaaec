// shardctl pack
#include "shardkit/pack.h"

#include <chrono>

#include "command_line.h"
#include "dataset_access.h"
#include "interrupt.h"
#include "job_report.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "pack_options.h"
#include "pack_tasks.h"
#include "progress.h"
#include "report.h"
#include "shardkit/remote.h"
#include "shardkit/source.h"
#include "verbs.h"

namespace shardctl {
namespace {

std::string Ratio(uint64_t input, uint64_t stored) {
  if (stored == 0) return "";
  return " (" + FormatFixed(static_cast<double>(input) / static_cast<double>(stored), 2) + "x)";
}

void PrintSummary(const PackArguments& arguments, std::string_view source, const shardkit::PackReport& report,
                  double seconds) {
  const shardkit::Manifest& manifest = report.manifest;
  std::string text;
  if (arguments.dry_run) {
    text = "would pack " + Counted(report.samples, "sample") + " from " + std::string(source) + ", " +
           FormatBytes(report.input_bytes) + "; nothing was written\n";
  } else {
    // This run did not count the samples that an earlier run packed.
    const bool all = report.samples == manifest.sample_count;
    text = arguments.dataset.append
               ? AppendedText(report, source)
               : "packed " + Counted(manifest.sample_count, "sample") + " (" +
                     Counted(manifest.schema.size(), "column") + ") from " + std::string(source) + " into " +
                     Counted(manifest.shards.size(), "shard") + ", " + Counted(manifest.block_count, "block") + "\n";
    if (!all && !arguments.dataset.append) text += "of these " + Counted(report.samples, "sample") + " in this run: ";
    text += FormatBytes(report.input_bytes) + " in -> " + FormatBytes(manifest.bytes) + " stored" +
            (all ? Ratio(report.input_bytes, manifest.bytes) : " in all") + ", " + FormatFixed(seconds, 1) + " s";
    if (seconds > 0 && !arguments.finish) {
      text += ", " + FormatFixed(static_cast<double>(report.input_bytes) / 1e6 / seconds, 1) + " MB/s";
    }
    text += "\n";
  }
  Stdout().Write(text);
}

void PrintJsonSummary(const PackArguments& arguments, std::string_view source, const shardkit::PackReport& report,
                      double seconds) {
  const shardkit::Manifest& manifest = report.manifest;
  Json document;
  document["source"] = source;
  document["output"] = arguments.output.has_value() ? Json(*arguments.output) : Json(nullptr);
  document["dry_run"] = arguments.dry_run;
  document["samples"] = arguments.dry_run ? report.samples : manifest.sample_count;
  document["samples_this_run"] = report.samples;
  if (arguments.dataset.append) {
    document["samples_existing"] = report.existing;
    document["generation"] = manifest.generation;
  }
  document["input_bytes"] = report.input_bytes;
  document["bytes"] = manifest.bytes;
  document["shards"] = manifest.shards.size();
  document["blocks"] = manifest.block_count;
  document["columns"] = Json::array();
  for (const shardkit::Column& column : manifest.schema.columns()) document["columns"].push_back(ColumnJson(column));
  document["skipped"] = SkippedJson(report.skipped);
  document["warnings"] = report.warnings;
  document["seconds"] = seconds;
  PrintJson(document);
}

int ReportPacked(const PackArguments& arguments, std::string_view source, const shardkit::PackReport& report,
                 double seconds) {
  if (arguments.json) {
    PrintJsonSummary(arguments, source, report, seconds);
  } else {
    PrintSummary(arguments, source, report, seconds);
  }
  Stdout().Flush();
  for (const std::string& warning : report.warnings) PrintError("shardctl: warning: " + warning);
  return ReportSkipped(report.skipped);
}

}  // namespace

int RunPackFinish(const PackArguments& arguments) {
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  const absl::StatusOr<shardkit::PackReport> report =
      shardkit::FinishPack(*shardkit::DefaultFileSystem(), *arguments.output, arguments.jobs, CancelOnSignal());
  if (!report.ok()) {
    if (!absl::IsCancelled(report.status())) return FailWriting(report.status());
    PrintError("shardctl: interrupted; the same command goes on");
    return kExitEnvironment;
  }
  const auto source = report->manifest.metadata.find("shardkit.source");
  return ReportPacked(arguments, source == report->manifest.metadata.end() ? "" : source->second, *report,
                      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

// A dataset says what all of its shards say, so with other metadata in new shards it would lose its own.
absl::Status CheckAppendedMetadata(const PackArguments& arguments) {
  const shardkit::Metadata& given = arguments.dataset.shard.metadata;
  if (!arguments.dataset.append || given.empty()) return absl::OkStatus();
  const auto dataset = OpenDataset(*arguments.output);
  if (!dataset.ok()) return dataset.status();
  const shardkit::Metadata& there = (*dataset)->summary().metadata;
  for (const auto& [name, text] : given) {
    const auto found = there.find(name);
    if (found != there.end() && found->second == text) continue;
    return absl::InvalidArgumentError(
        *arguments.output + ": --metadata " + name + ": " +
        (found == there.end() ? "the dataset has none of this name" : "the dataset says \"" + found->second + "\"") +
        ", and appending keeps its metadata; leave it out, or pack a dataset of its own");
  }
  return absl::OkStatus();
}

int RunPack(int argc, char** argv) {
  PackArguments arguments;
  if (const std::optional<int> code = ParsePackArguments(argc, argv, /*plan=*/false, &arguments)) return *code;
  if (const absl::Status status = CheckAppendedMetadata(arguments); !status.ok()) return Fail(status);
  if (arguments.task.has_value()) return RunPackTask(arguments);
  if (arguments.finish) return RunPackFinish(arguments);
  if (!arguments.dry_run) {
    const absl::Status apart = CheckApart(*arguments.output, arguments.inputs);
    if (!apart.ok()) return Fail(apart);
  }

  const shardkit::Cancellation* cancellation = CancelOnSignal();
  shardkit::FileSystem& file_system = *shardkit::DefaultFileSystem();
  const absl::StatusOr<std::unique_ptr<shardkit::Source>> source =
      shardkit::OpenSource(arguments.source, arguments.inputs, SourceOptionsOf(arguments));
  if (!source.ok()) return Fail(source.status());
  const std::string source_name((*source)->name());

  shardkit::PackOptions options = PackOptionsOf(arguments);
  options.dataset.cancellation = cancellation;

  Progress progress("samples");
  // Without a terminal nobody sees the progress, so nothing is counted for it.
  if (progress.enabled()) {
    options.progress = [&](const shardkit::PackProgress& now) {
      progress.Update(now.samples, now.total_samples, now.input_bytes);
    };
  }
  const absl::StatusOr<shardkit::PackReport> report =
      arguments.dry_run ? shardkit::DryRunPack(**source, options)
                        : shardkit::Pack(file_system, **source, *arguments.output, options);
  progress.Clear();
  if (!report.ok()) {
    return absl::IsCancelled(report.status()) ? ReportInterruption(arguments.dry_run, options.dataset)
                                              : FailWriting(report.status());
  }

  return ReportPacked(arguments, source_name, *report, progress.seconds());
}

}  // namespace shardctl
