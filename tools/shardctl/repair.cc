// shardctl repair
#include "shardkit/repair.h"

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
#include "repair_report.h"
#include "report.h"
#include "verbs.h"

namespace shardctl {
namespace {

constexpr size_t kLossesShown = 100;

struct RepairArguments {
  std::string path;
  std::string output;
  bool json = false;
};

void PrintRest(const std::string& path, size_t losses) {
  if (losses <= kLossesShown) return;
  const size_t rest = losses - kLossesShown;
  PrintError("shardctl: " + path + ": and " + std::to_string(rest) + (rest == 1 ? " more loss" : " more losses"));
}

int Finish(const RepairArguments& arguments, bool written, bool lossless) {
  if (!written) {
    PrintError("shardctl: " + arguments.path + ": nothing could be recovered; " + arguments.output +
               " was not written");
    return kExitBadData;
  }
  return lossless ? kExitSuccess : kExitSkipped;
}

int ReportError(const absl::Status& status) {
  if (!absl::IsCancelled(status)) return FailWriting(status);
  PrintError("shardctl: interrupted; nothing was written");
  return kExitEnvironment;
}

int RepairOneShard(const RepairArguments& arguments, const shardkit::RepairOptions& options, Progress* progress) {
  const auto report = shardkit::RepairShard(*shardkit::PosixFileSystem(), arguments.path, arguments.output, options);
  progress->Clear();
  if (!report.ok()) return ReportError(report.status());
  if (arguments.json) {
    PrintJson(ShardRepairJson(*report));
  } else {
    size_t room = kLossesShown;
    PrintShardRepair(*report, &room);
    PrintRest(arguments.path, report->losses.size());
    Stdout().Write(Printable(arguments.path) + ": " +
                   RecoveryText(report->samples_recovered, report->samples_lost, report->end_known) + "\n");
    if (report->written) {
      Stdout().Write(Printable(arguments.output) + ": " + Counted(report->blocks_recovered, "block") + ", " +
                     FormatBytes(report->bytes) + "\n");
    }
  }
  Stdout().Flush();
  return Finish(arguments, report->written, report->lossless());
}

int RepairWholeDataset(const RepairArguments& arguments, const shardkit::RepairOptions& options, Progress* progress) {
  const auto report = shardkit::RepairDataset(*shardkit::PosixFileSystem(), arguments.path, arguments.output, options);
  progress->Clear();
  if (!report.ok()) return ReportError(report.status());
  size_t losses = 0, damaged = 0;
  bool end_known = true;
  for (const shardkit::RepairReport& shard : report->shards) {
    losses += shard.losses.size();
    damaged += shard.problems.empty() && shard.lossless() ? 0 : 1;
    end_known = end_known && shard.end_known;
  }
  if (arguments.json) {
    Json document;
    document["path"] = arguments.path;
    document["output"] = report->written ? Json(arguments.output) : Json(nullptr);
    document["lossless"] = report->lossless();
    document["samples_recovered"] = report->samples_recovered();
    document["samples_lost"] = report->samples_lost();
    document["notes"] = report->notes;
    document["shards"] = Json::array();
    for (const shardkit::RepairReport& shard : report->shards) document["shards"].push_back(ShardRepairJson(shard));
    PrintJson(document);
  } else {
    for (const std::string& note : report->notes) Note(arguments.path + ": " + note);
    size_t room = kLossesShown;
    for (const shardkit::RepairReport& shard : report->shards) PrintShardRepair(shard, &room);
    PrintRest(arguments.path, losses);
    Stdout().Write(Printable(arguments.path) + ": " +
                   RecoveryText(report->samples_recovered(), report->samples_lost(), end_known) + ", " +
                   std::to_string(damaged) + " of " + Counted(report->shards.size(), "shard") + " damaged\n");
    if (report->written) {
      Stdout().Write(Printable(arguments.output) + ": " + Counted(report->manifest.sample_count, "sample") + ", " +
                     Counted(report->manifest.shards.size(), "shard") + ", " + FormatBytes(report->manifest.bytes) +
                     "\n");
    }
  }
  Stdout().Flush();
  return Finish(arguments, report->written, report->lossless());
}

}  // namespace

int RunRepair(int argc, char** argv) {
  CommandLine line("repair", "recover what is whole of a damaged shard or dataset", "[OPTION]... PATH -o OUT");
  std::vector<std::string> paths;
  std::optional<std::string> output, schema_from;
  RepairArguments arguments;
  shardkit::RepairOptions options;
  DecompressionOption decompression;
  line.Arguments("PATH", 1, 1, &paths);
  line.Text("-o,--output", "OUT", &output, "the new shard, or the directory of the new dataset; must not exist");
  line.Text("--schema-from", "PATH", &schema_from,
            "where the header and its copy are damaged: take the columns from this shard, dataset or dataset.json");
  line.Flag("--keep-samples", &options.keep_samples,
            "keep the samples of a damaged block whose own values are whole; they are encoded again");
  decompression.AddTo(&line);
  line.AllowBase();
  line.Flag("--json", &arguments.json, "print the report, every loss included, as one JSON document");
  line.Notes(
      "A block is whole when all its checksums hold. What is wrong and what is lost is listed on standard error, or in "
      "the JSON document. PATH is never changed. Copy a file from a dying disk with a tool that skips bad sectors "
      "first. Of MDS and tars, shardctl convert --on-error skip "
      "keeps the samples that can be read.\n"
      "Exit code 4 when samples were lost, 1 when nothing could be recovered.");
  line.Example("shardctl repair photos/00000003.shard -o fixed.shard", "every whole block into a new shard");
  line.Example("mv fixed.shard photos/00000003.shard && shardctl index photos", "put it in the old one's place");
  line.Example("shardctl repair photos -o photos-fixed", "all shards at once, with a new manifest and index");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!output.has_value()) return line.UsageError("-o OUT is missing");
  arguments.path = paths[0];
  arguments.output = *output;
  if (schema_from.has_value()) options.schema_from = *schema_from;
  options.max_decompression = decompression.bytes();
  options.cancellation = CancelOnSignal();
  Progress progress("");
  if (progress.enabled()) {
    options.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total, done); };
  }
  if (const absl::Status apart = CheckApart(arguments.output, {arguments.path}); !apart.ok()) return Fail(apart);
  const absl::StatusOr<shardkit::FileInfo> info = shardkit::PosixFileSystem()->Stat(arguments.path);
  if (!info.ok()) return Fail(info.status());
  return info->type == shardkit::FileType::kDirectory ? RepairWholeDataset(arguments, options, &progress)
                                                      : RepairOneShard(arguments, options, &progress);
}

}  // namespace shardctl
