// shardctl validate
#include "shardkit/validate.h"

#include <optional>
#include <string>
#include <tuple>
#include <utility>
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

std::string SummaryText(const std::string& path, const shardkit::ValidateReport& report, bool deep) {
  std::string text =
      Printable(path) + ": " + Counted(report.samples, "sample") +
      (report.removed_samples > 0 ? " (and " + std::to_string(report.removed_samples) + " removed)" : "") + ", " +
      Counted(report.shards, "shard") +
      (report.column_files > 0 ? " and " + Counted(report.column_files, "column file") : "") + ", " +
      Counted(report.blocks, "block") + ", " + FormatBytes(report.bytes) + (deep ? ", every value decoded" : "");
  if (report.undecoded_images > 0) {
    text += " but " + Counted(report.undecoded_images, "image") + " in formats that are not decoded here";
  }
  if (report.warned_images > 0) {
    text += (report.undecoded_images > 0 ? " and " : ", ") + Counted(report.warned_images, "image") + " with a warning";
  }
  text += ": ";
  return text + (report.ok() ? "no problem" : Counted(report.problem_count, "problem")) + "\n";
}

Json ReportJson(const std::string& path, const shardkit::ValidateReport& report) {
  Json document;
  document["path"] = path;
  document["ok"] = report.ok();
  document["shards"] = report.shards;
  document["blocks"] = report.blocks;
  document["samples"] = report.samples;
  document["removed_samples"] = report.removed_samples;
  document["column_files"] = report.column_files;
  document["bytes"] = report.bytes;
  document["undecoded_images"] = report.undecoded_images;
  document["warned_images"] = report.warned_images;
  document["problem_count"] = report.problem_count;
  document["problems"] = Json::array();
  for (const shardkit::Problem& problem : report.problems) {
    document["problems"].push_back(
        {{"path", problem.path}, {"class", problem.error_class()}, {"message", problem.message}});
  }
  document["repeated_keys"] = report.repeated_keys;
  document["warnings"] = Json::array();
  for (const shardkit::Problem& warning : report.warnings) {
    document["warnings"].push_back({{"path", warning.path}, {"message", warning.message}});
  }
  return document;
}

void PrintProblems(const std::string& path, const shardkit::ValidateReport& report) {
  const auto text = [](const shardkit::Problem& problem) {
    const bool named =
        problem.message.starts_with(problem.path + ":") || problem.message.starts_with(problem.path + "/");
    return (named ? "" : problem.path + ": ") + problem.message;
  };
  for (const shardkit::Problem& problem : report.problems) PrintError("shardctl: " + text(problem));
  if (report.problem_count > report.problems.size()) {
    PrintError("shardctl: " + path + ": and " +
               Counted(report.problem_count - report.problems.size(), "further problem"));
  }
  for (const shardkit::Problem& warning : report.warnings) {
    PrintError("shardctl: warning: " + text(warning));
  }
}

// Validate does not report its read mode. A shard opened with the same mode does.
void NoteReadMode(const std::string& path, shardkit::ReadMode mode) {
  if (mode == shardkit::ReadMode::kAuto || mode == shardkit::ReadMode::kBuffered) return;
  shardkit::ReadOptions read;
  read.mode = mode;
  const auto dataset = OpenDataset(path, read);
  if (!dataset.ok() || (*dataset)->shard_count() == 0) return;
  if (!(*dataset)->OpenShard(0).ok()) return;
  NoteFallback(**dataset);
}

}  // namespace

int RunValidate(int argc, char** argv) {
  CommandLine line("validate", "check every checksum and every rule of datasets and shards", "[OPTION]... PATH...");
  std::vector<std::string> paths;
  shardkit::ValidateOptions options;
  std::optional<std::string> task;
  bool json = false;
  JobsOption jobs;
  IoOption io;
  DecompressionOption decompression;
  line.Arguments("PATH", 1, SIZE_MAX, &paths);
  line.Flag(
      "--deep", &options.deep,
      "decode every value too: pixels of images, JSON, UTF-8, masks and whether they fit their image, array shapes");
  line.Text("--task", "I/N", &task,
            "check part I, counted from 0, of N parts of the shards of each dataset; part 0 also its segments");
  jobs.AddTo(&line, "threads that read and check");
  io.AddTo(&line);
  decompression.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &json, "print the report, problems included, as one JSON document");
  line.Notes(
      "Of a dataset, manifest and segments are compared with the shards, and the shards with the SHA-256 that it "
      "lists.\n"
      "Problems are listed on standard error, or in the JSON document. Exit code 1 when there is one.\n"
      "Keys that stand more than once in a dataset are allowed: a warning tells of them.");
  line.Example("shardctl validate photos", "is every byte of the dataset what was written?");
  line.Example("shardctl validate --deep --json photos/*.shard | jq .ok", "the shards one by one, every value decoded");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;

  if (task.has_value()) {
    const absl::StatusOr<std::pair<uint64_t, uint64_t>> part = ParsePart(*task);
    if (!part.ok()) return line.UsageError("--task: " + std::string(part.status().message()));
    std::tie(options.task, options.tasks) = *part;
  }
  options.threads = jobs.jobs(paths);
  options.mode = io.mode();
  options.max_decompression = decompression.bytes();
  // The ratio of the two defaults.
  options.max_image_memory = decompression.bytes() / 4 * 3;
  options.cancellation = CancelOnSignal();
  Json reports = Json::array();
  bool all_good = true;
  int code = kExitSuccess;
  for (const std::string& path : paths) {
    NoteReadMode(path, options.mode);
    Progress progress("");
    options.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total, done); };
    const absl::StatusOr<shardkit::ValidateReport> report =
        shardkit::Validate(*shardkit::DefaultFileSystem(), path, options);
    progress.Clear();
    if (absl::IsCancelled(report.status())) {
      PrintError("shardctl: interrupted; the check is not complete");
      return kExitEnvironment;
    }
    if (!report.ok()) {
      all_good = false;
      code = std::max(code, Fail(report.status()));
      reports.push_back({{"path", path}, {"ok", false}, {"error", std::string(report.status().message())}});
      continue;
    }
    if (!report->ok()) {
      all_good = false;
      code = std::max(code, kExitBadData);
    }
    reports.push_back(ReportJson(path, *report));
    if (json) continue;
    Stdout().Flush();
    PrintProblems(path, *report);
    Stdout().Write(SummaryText(path, *report, options.deep));
  }
  if (json) PrintJson(Json{{"ok", all_good}, {"reports", reports}});
  return code;
}

}  // namespace shardctl
