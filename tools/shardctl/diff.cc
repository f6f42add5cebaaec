// shardctl diff
#include "shardkit/history.h"

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

Json ExampleJson(const shardkit::DiffExample& example, bool by_key) {
  Json document;
  if (by_key) document["key"] = example.key;
  if (example.a.has_value()) document["a"] = *example.a;
  if (example.b.has_value()) document["b"] = *example.b;
  return document;
}

Json CountJson(const shardkit::DiffCount& count, bool by_key) {
  Json examples = Json::array();
  for (const shardkit::DiffExample& example : count.examples) examples.push_back(ExampleJson(example, by_key));
  return Json{{"count", count.count}, {"examples", std::move(examples)}};
}

Json DiffJson(const shardkit::DatasetDiff& diff) {
  Json columns = Json::array();
  for (const shardkit::ColumnDiff& column : diff.columns) {
    Json document = CountJson(column.values, diff.by_key);
    document["name"] = column.name;
    columns.push_back(std::move(document));
  }
  return Json{{"same", diff.same()},
              {"by_key", diff.by_key},
              {"matched", diff.matched},
              {"unread", diff.unread},
              {"only_a", CountJson(diff.only_a, diff.by_key)},
              {"only_b", CountJson(diff.only_b, diff.by_key)},
              {"columns_only_a", diff.columns_only_a},
              {"columns_only_b", diff.columns_only_b},
              {"types", diff.types},
              {"columns", std::move(columns)}};
}

// ": KEY, KEY, ..."
std::string Examples(const shardkit::DiffCount& count, bool by_key) {
  std::string text;
  for (const shardkit::DiffExample& example : count.examples) {
    text += text.empty() ? ": " : ", ";
    text += by_key ? Printable(example.key) : std::to_string(example.a.has_value() ? *example.a : *example.b);
  }
  return text + (count.count > count.examples.size() ? ", ..." : "") + "\n";
}

void PrintDiff(const shardkit::DatasetDiff& diff, const std::string& a, const std::string& b) {
  std::string text;
  const auto add = [&](const shardkit::DiffCount& count, const std::string& path) {
    if (count.count > 0)
      text += "only in " + path + ": " + Counted(count.count, "sample") + Examples(count, diff.by_key);
  };
  const auto name = [&](const std::vector<std::string>& columns, const std::string& what) {
    for (const std::string& column : columns) text += what + ": column " + Quote(column) + "\n";
  };
  name(diff.columns_only_a, "only in " + a);
  name(diff.columns_only_b, "only in " + b);
  name(diff.types, "of another type");
  add(diff.only_a, a);
  add(diff.only_b, b);
  for (const shardkit::ColumnDiff& column : diff.columns) {
    text += "column " + Quote(column.name) + ": " + Counted(column.values.count, "value") + " differ" +
            (column.values.count == 1 ? "s" : "") + Examples(column.values, diff.by_key);
  }
  text += Counted(diff.matched, "sample") + " in both";
  if (diff.unread > 0) text += ", " + std::to_string(diff.unread) + " of them in the same shards";
  Stdout().Write(text + (diff.same() ? ": no difference\n" : "\n"));
}

}  // namespace

int RunDiff(int argc, char** argv) {
  CommandLine line("diff", "say in which samples, columns and values two datasets differ", "[OPTION]... A B");
  std::vector<std::string> paths;
  shardkit::DiffOptions options;
  uint64_t examples = options.max_examples;
  bool json = false;
  JobsOption jobs;
  DecompressionOption decompression;
  HashOption hashes;
  line.Arguments("A B", 2, 2, &paths);
  line.Texts("--column", "COL", &options.columns, "compare the values of this column alone; may be repeated");
  line.Count("--examples", "N", &examples, 0, UINT32_MAX, "name at most N samples of each difference [10]");
  line.Count("--at-a", "GENERATION", &options.a.generation, 1, UINT64_MAX, "read A as it was in this generation");
  line.Count("--at-b", "GENERATION", &options.b.generation, 1, UINT64_MAX, "read B as it was in this generation");
  jobs.AddTo(&line, "threads that read");
  decompression.AddTo(&line);
  hashes.AddTo(&line);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes(
      "Samples are matched by key, the i-th that has it with the i-th, or where neither dataset has keys by ordinal.\n"
      "How they are stored and in which order is no difference. Shards that both have are not read. The exit code is\n"
      "0 where they are the same, else 1.");
  line.Example("shardctl diff photos copy-of-photos", "are these the same?");
  line.Example("shardctl diff --at-a 3 photos photos", "what has come since generation 3?");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  options.max_examples = examples;
  options.threads = jobs.jobs(paths);
  for (shardkit::DatasetOptions* const read : {&options.a, &options.b}) {
    read->max_decompression = decompression.bytes();
    read->verify_listed_hashes = hashes.verify();
  }
  options.cancellation = CancelOnSignal();
  Progress progress("samples");
  if (progress.enabled()) {
    options.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); };
  }
  const auto diff = shardkit::DiffDatasets(*shardkit::DefaultFileSystem(), paths[0], paths[1], options);
  progress.Clear();
  if (absl::IsCancelled(diff.status())) {
    PrintError("shardctl: interrupted");
    return kExitEnvironment;
  }
  if (!diff.ok()) return Fail(diff.status());
  if (json) {
    PrintJson(DiffJson(*diff));
  } else {
    PrintDiff(*diff, paths[0], paths[1]);
  }
  Stdout().Flush();
  return diff->same() ? kExitSuccess : kExitBadData;
}

}  // namespace shardctl
