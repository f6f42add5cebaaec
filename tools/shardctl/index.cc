// shardctl index
#include <algorithm>
#include <string>
#include <vector>

#include "command_line.h"
#include "interrupt.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/tar_index.h"
#include "verbs.h"

namespace shardctl {
namespace {

Json ManifestJson(const std::string& path, const shardkit::Manifest& manifest) {
  Json document;
  document["path"] = path;
  document["samples"] = manifest.samples();
  document["bytes"] = manifest.bytes();
  document["shards"] = manifest.shards.size();
  document["blocks"] = manifest.blocks();
  return document;
}

std::string ManifestText(const std::string& path, const shardkit::Manifest& manifest) {
  return Printable(path) + ": " + Counted(manifest.samples(), "sample") + " in " +
         Counted(manifest.shards.size(), "shard") + ", " + Counted(manifest.blocks(), "block") + ", " +
         FormatBytes(manifest.bytes()) + "\n";
}

// What `path` is, of which an index can be made.
struct Target {
  bool dataset = false;           // of shards
  std::vector<std::string> tars;  // else these
};

bool HasShards(const std::vector<shardkit::DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const shardkit::DirectoryEntry& entry) {
    return entry.name == shardkit::kManifestName || entry.name.ends_with(".shard");
  });
}

absl::StatusOr<Target> FindTarget(const std::string& path) {
  shardkit::FileSystem& file_system = *shardkit::PosixFileSystem();
  const absl::StatusOr<shardkit::FileInfo> info = file_system.Stat(path);
  if (!info.ok()) return info.status();
  Target target;
  if (info->type == shardkit::FileType::kDirectory) {
    const absl::StatusOr<std::vector<shardkit::DirectoryEntry>> entries = file_system.List(path);
    if (!entries.ok()) return entries.status();
    target.dataset = HasShards(*entries);
    if (target.dataset) return target;
    absl::StatusOr<std::vector<std::string>> tars = shardkit::ListTars(file_system, path);
    if (!tars.ok()) return tars.status();
    target.tars = *std::move(tars);
    target.dataset = target.tars.empty();
    return target;
  }
  if (shardkit::IsTarPath(path)) {
    target.tars.push_back(path);
    return target;
  }
  return absl::InvalidArgumentError(
      path +
      ": is a file, and the offset index belongs to datasets: give the directory that "
      "holds the shards");
}

Json TarJson(const std::string& path, const shardkit::TarIndexReport& report) {
  Json document;
  document["path"] = path;
  document["index"] = report.index_path;
  document["samples"] = report.samples;
  document["values"] = report.values;
  document["bytes"] = report.bytes;
  document["problem_count"] = report.problem_count;
  document["problems"] = Json::array();
  for (const shardkit::TarProblem& problem : report.problems) {
    document["problems"].push_back(
        {{"member", problem.member}, {"offset", problem.offset}, {"message", problem.message}});
  }
  return document;
}

// What is odd about the tar is told, but it can be read: that is no failure.
void NoteProblems(const std::string& path, const shardkit::TarIndexReport& report) {
  for (const shardkit::TarProblem& problem : report.problems) {
    const std::string member = problem.member.empty() ? "" : "member " + Quote(problem.member) + ", ";
    Note(Printable(path) + ": " + member + "byte " + std::to_string(problem.offset) + ": " + problem.message);
  }
  const uint64_t more = report.problem_count - report.problems.size();
  if (more > 0) Note(Printable(path) + ": " + Counted(more, "problem") + " more like these");
}

absl::Status IndexTar(const std::string& path, bool json, Json* tars) {
  const absl::StatusOr<shardkit::TarIndexReport> report =
      shardkit::BuildTarIndex(*shardkit::PosixFileSystem(), path, CancelOnSignal());
  if (!report.ok()) return report.status();
  NoteProblems(path, *report);
  tars->push_back(TarJson(path, *report));
  if (!json) {
    Stdout().Write("indexed " + Printable(path) + ": " + Counted(report->samples, "sample") + " of " +
                   Counted(report->values, "value") + ", " + FormatBytes(report->bytes) + "\n");
  }
  return absl::OkStatus();
}

int Merge(const std::vector<std::string>& parts, const std::string& output, bool json) {
  const absl::StatusOr<shardkit::Manifest> manifest =
      shardkit::MergeDatasets(*shardkit::PosixFileSystem(), parts, output, CancelOnSignal());
  if (absl::IsCancelled(manifest.status())) {
    PrintError("shardctl: interrupted; nothing was left behind");
    return kExitEnvironment;
  }
  if (!manifest.ok()) return Fail(manifest.status());
  if (json) {
    Json document = ManifestJson(output, *manifest);
    document["parts"] = parts;
    PrintJson(document);
  } else {
    Stdout().Write("merged " + Counted(parts.size(), "part") + " into " + ManifestText(output, *manifest));
  }
  return kExitSuccess;
}

absl::Status IndexDataset(const std::string& path, bool json, Json* datasets) {
  const absl::StatusOr<shardkit::Manifest> manifest =
      shardkit::RebuildIndex(*shardkit::PosixFileSystem(), path);
  if (!manifest.ok()) return manifest.status();
  datasets->push_back(ManifestJson(path, *manifest));
  if (!json) Stdout().Write("indexed " + ManifestText(path, *manifest));
  return absl::OkStatus();
}

int Rebuild(const std::vector<std::string>& paths, bool json) {
  Json document;
  document["datasets"] = Json::array();
  Json tars = Json::array();
  int code = kExitSuccess;
  // False when it was interrupted.
  const auto note = [&](const absl::Status& status) {
    if (status.ok()) return true;
    if (absl::IsCancelled(status)) {
      PrintError("shardctl: interrupted; nothing was left behind");
      code = kExitEnvironment;
      return false;
    }
    code = std::max(code, Fail(status));
    return true;
  };
  for (const std::string& path : paths) {
    const absl::StatusOr<Target> target = FindTarget(path);
    bool go_on = note(target.status());
    if (target.ok() && target->dataset) go_on = note(IndexDataset(path, json, &document["datasets"]));
    for (size_t i = 0; target.ok() && go_on && i < target->tars.size(); ++i) {
      go_on = note(IndexTar(target->tars[i], json, &tars));
    }
    if (!go_on) break;
  }
  if (!tars.empty()) document["tars"] = tars;
  if (json) PrintJson(document);
  return code;
}

}  // namespace

int RunIndex(int argc, char** argv) {
  CommandLine line("index", "rebuild the offset index of a dataset, or merge datasets",
                   "[OPTION]... DATASET...\n       shardctl index --merge OUT PART...");
  std::vector<std::string> paths;
  std::optional<std::string> output;
  bool json = false;
  line.Arguments("DATASET", 1, SIZE_MAX, &paths);
  line.Text("--merge", "OUT", &output,
            "make OUT a dataset of the samples of all PARTs, in the order given; shards are linked, or "
            "copied where "
            "links do not work");
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "Index and manifest are made from the shards alone, so that both can be rebuilt when they are lost.\n"
      "DATASET may also be a tar of WebDataset, or a directory of such tars: the index of X.tar is written to\n"
      "X.tar.shardidx. With it X.tar opens quickly, and each value read is compared with the checksum it had.");
  line.Example("shardctl index photos", "rebuild photos/dataset.idx and photos/dataset.json");
  line.Example("shardctl index train-0.tar", "write train-0.tar.shardidx");
  line.Example("shardctl index --merge corpus corpus.0 corpus.1",
               "one dataset of two that were packed apart");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  return output.has_value() ? Merge(paths, *output, json) : Rebuild(paths, json);
}

}  // namespace shardctl
