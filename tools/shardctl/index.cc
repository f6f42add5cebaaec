// shardctl index
#include <algorithm>
#include <string>
#include <vector>

#include "command_line.h"
#include "index_tars.h"
#include "interrupt.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/remote.h"
#include "shardkit/tar_index.h"
#include "verbs.h"

namespace shardctl {
namespace {

Json ManifestJson(const std::string& path, const shardkit::Manifest& manifest) {
  Json document;
  document["path"] = path;
  document["samples"] = manifest.sample_count;
  document["bytes"] = manifest.bytes;
  document["shards"] = manifest.shards.size();
  document["blocks"] = manifest.block_count;
  document["segments"] = manifest.segments.size();
  document["generation"] = manifest.generation;
  return document;
}

std::string ManifestText(const std::string& path, const shardkit::Manifest& manifest) {
  return Printable(path) + ": " + Counted(manifest.sample_count, "sample") + " in " +
         Counted(manifest.shards.size(), "shard") + ", " + Counted(manifest.block_count, "block") + ", " +
         FormatBytes(manifest.bytes) + "\n";
}

// What shardctl index makes an index of.
struct Target {
  bool dataset = false;           // of shards
  std::vector<std::string> tars;  // otherwise
};

bool HasShards(const std::vector<shardkit::DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const shardkit::DirectoryEntry& entry) {
    return entry.name == shardkit::kManifestName || entry.name.ends_with(".shard");
  });
}

absl::StatusOr<Target> FindTarget(const std::string& path) {
  shardkit::FileSystem& file_system = *shardkit::DefaultFileSystem();
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
  return absl::InvalidArgumentError(path +
                                    ": is a file, and the offset index belongs to datasets: give the directory that "
                                    "holds the shards");
}

absl::StatusOr<Target> FindTars(const std::string& path) {
  absl::StatusOr<std::vector<std::string>> tars = CollectTars({path});
  if (!tars.ok()) return tars.status();
  return Target{.tars = *std::move(tars)};
}

void PrintInterrupted() { PrintError("shardctl: interrupted; nothing was left behind"); }

absl::Status IndexDataset(const std::string& path, bool json, Json* datasets) {
  const absl::StatusOr<shardkit::Manifest> manifest =
      shardkit::RebuildIndex(*shardkit::DefaultFileSystem(), path, CancelOnSignal());
  if (!manifest.ok()) return manifest.status();
  datasets->push_back(ManifestJson(path, *manifest));
  if (!json) Stdout().Write("indexed " + ManifestText(path, *manifest));
  return absl::OkStatus();
}

int Rebuild(const std::vector<std::string>& paths, bool dali, bool json) {
  Json document;
  document["datasets"] = Json::array();
  Json tars = Json::array();
  int code = kExitSuccess;
  // False when the work was interrupted.
  const auto note = [&](const absl::Status& status) {
    if (status.ok()) return true;
    if (absl::IsCancelled(status)) {
      PrintInterrupted();
      code = kExitEnvironment;
      return false;
    }
    code = std::max(code, Fail(status));
    return true;
  };
  for (const std::string& path : paths) {
    const absl::StatusOr<Target> target = dali ? FindTars(path) : FindTarget(path);
    bool go_on = note(target.status());
    if (target.ok() && target->dataset) go_on = note(IndexDataset(path, json, &document["datasets"]));
    for (size_t i = 0; target.ok() && go_on && i < target->tars.size(); ++i) {
      go_on = note(IndexTar(target->tars[i], dali, json, &tars));
    }
    if (!go_on) break;
  }
  if (!tars.empty()) document["tars"] = tars;
  if (json) PrintJson(document);
  return code;
}

}  // namespace

int RunIndex(int argc, char** argv) {
  CommandLine line("index", "make the indexes of datasets and tars",
                   "[OPTION]... DATASET...\n       shardctl index --dali TAR...");
  std::vector<std::string> paths;
  bool dali = false;
  bool json = false;
  line.Arguments("DATASET", 1, SIZE_MAX, &paths);
  line.Flag("--dali", &dali, "write X.idx for each X.tar, as DALI's wds2idx does");
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "Segment and manifest are made from the shards alone, so that both can be rebuilt when they are lost. The\n"
      "SHA-256 of shards that an old manifest lists are compared and kept. Of more than 1024 shards, only the segment\n"
      "says in which order they stand: where it alone is lost, shardctl repair takes them by their names.\n"
      "DATASET may also be a tar of WebDataset, or a directory of such tars: the index of X.tar is written to\n"
      "X.tar.shardidx. With it X.tar opens quickly, and each value read is compared with the checksum it had.\n"
      "TAR is a tar, or a directory that stands for its tars in the order of their names.");
  line.Example("shardctl index photos", "rebuild photos/dataset.segment and photos/dataset.json");
  line.Example("shardctl index train-0.tar", "write train-0.tar.shardidx");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  return Rebuild(paths, dali, json);
}

}  // namespace shardctl
