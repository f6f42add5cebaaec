// shardctl index
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

// OK when `path` is something whose index can be rebuilt.
absl::Status CheckIsDirectory(const std::string& path) {
  const absl::StatusOr<shardkit::FileInfo> info = shardkit::PosixFileSystem()->Stat(path);
  if (!info.ok()) return info.status();
  if (info->type == shardkit::FileType::kDirectory) return absl::OkStatus();
  if (path.ends_with(".tar") || path.ends_with(".tar.gz") || path.ends_with(".tgz")) {
    return absl::InvalidArgumentError(
        path + ": indexing tar files is not in this version: shardctl pack reads them");
  }
  return absl::InvalidArgumentError(
      path +
      ": is a file, and the offset index belongs to datasets: give the directory that "
      "holds the shards");
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

int Rebuild(const std::vector<std::string>& paths, bool json) {
  Json datasets = Json::array();
  int code = kExitSuccess;
  for (const std::string& path : paths) {
    absl::Status status = CheckIsDirectory(path);
    if (status.ok()) {
      const absl::StatusOr<shardkit::Manifest> manifest =
          shardkit::RebuildIndex(*shardkit::PosixFileSystem(), path);
      status = manifest.status();
      if (manifest.ok()) {
        datasets.push_back(ManifestJson(path, *manifest));
        if (!json) Stdout().Write("indexed " + ManifestText(path, *manifest));
      }
    }
    if (!status.ok()) code = std::max(code, Fail(status));
  }
  if (json) PrintJson(Json{{"datasets", datasets}});
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
      "Index and manifest are made from the shards alone, so that both can be rebuilt when they are lost.");
  line.Example("shardctl index photos", "rebuild photos/dataset.idx and photos/dataset.json");
  line.Example("shardctl index --merge corpus corpus.0 corpus.1",
               "one dataset of two that were packed apart");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  return output.has_value() ? Merge(paths, *output, json) : Rebuild(paths, json);
}

}  // namespace shardctl
