// shardctl history
#include "shardkit/history.h"

#include "command_line.h"
#include "describe.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {
namespace {

std::string Describe(const shardkit::DatasetGeneration& each) {
  return std::to_string(each.generation) + "  " + Printable(DescribeOperation(each.operation)) + ": " +
         Counted(each.samples, "sample") + ", " + Counted(each.columns, "column") + ", " +
         Counted(each.shards, "shard") + ", " + Counted(each.segments, "segment") + ", " + FormatBytes(each.bytes) +
         (each.readable ? "" : " (cannot be opened any more: files that it names are gone)") + "\n";
}

}  // namespace

int RunHistory(int argc, char** argv) {
  CommandLine line("history", "list the generations of a dataset, and what each did", "[OPTION]... DATASET");
  std::vector<std::string> paths;
  bool json = false;
  line.Arguments("DATASET", 1, 1, &paths);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes(
      "Each change of a dataset makes its next generation. --at of ls, inspect, cat, unpack and convert reads an\n"
      "earlier one. The manifests of 64 are kept.");
  line.Example("shardctl history photos", "one line for each generation");
  line.Example("shardctl ls photos --at 3", "what the dataset held then");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const auto history = shardkit::ReadHistory(*shardkit::DefaultFileSystem(), paths[0]);
  if (!history.ok()) return Fail(history.status());
  Json list = Json::array();
  for (const shardkit::DatasetGeneration& each : *history) {
    if (!json) Stdout().Write(Describe(each));
    list.push_back({{"generation", each.generation},
                    {"operation", each.operation.name},
                    {"arguments", each.operation.arguments},
                    {"samples", each.samples},
                    {"shards", each.shards},
                    {"segments", each.segments},
                    {"columns", each.columns},
                    {"bytes", each.bytes},
                    {"readable", each.readable}});
  }
  if (json) PrintJson(Json{{"path", paths[0]}, {"generations", std::move(list)}});
  Stdout().Flush();
  return kExitSuccess;
}

}  // namespace shardctl
