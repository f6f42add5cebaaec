// shardctl columns
#include "shardkit/change.h"

#include <optional>
#include <string>
#include <vector>

#include "columns_list.h"
#include "command_line.h"
#include "dataset_access.h"
#include "interrupt.h"
#include "job_report.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "shardkit/remote.h"
#include "verbs.h"

namespace shardctl {
namespace {

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + Printable(name);
  return text;
}

// "NAME=VALUE". A name has no '='; a value may, and may be empty where `may_be_empty`.
absl::StatusOr<std::pair<std::string, std::string>> ParsePair(const std::string& text, bool may_be_empty,
                                                              std::string_view form) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || (equals + 1 == text.size() && !may_be_empty)) {
    return absl::InvalidArgumentError(Quote(text) + " is not " + std::string(form));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

int ReportAdded(const std::string& dataset, const std::string& from, const shardkit::AddColumnsReport& report,
                bool json, double seconds) {
  if (json) {
    PrintJson(Json{{"path", dataset},
                   {"from", from},
                   {"generation", report.generation},
                   {"columns", report.columns},
                   {"replaced", report.replaced},
                   {"samples", report.samples},
                   {"matched", report.matched},
                   {"rows", report.rows},
                   {"unmatched", report.unmatched},
                   {"unmatched_keys", report.unmatched_keys},
                   {"files", report.files},
                   {"bytes", report.bytes},
                   {"seconds", seconds}});
    return kExitSuccess;
  }
  std::string text = "added " + Join(report.columns) + " to " + std::to_string(report.matched) + " of " +
                     Counted(report.samples, "sample");
  if (!report.replaced.empty()) text += ", in the place of what was " + Join(report.replaced);
  Stdout().Write(text + "\nwrote " + Counted(report.files, "column file") + ", " + FormatBytes(report.bytes) + ", " +
                 FormatFixed(seconds, 1) + " s; generation " + std::to_string(report.generation) + "\n");
  if (report.unmatched > 0) {
    const bool more = report.unmatched > report.unmatched_keys.size();
    Note(Counted(report.unmatched, "key") + " of " + from + (report.unmatched == 1 ? " is" : " are") +
         " of no sample: " + Join(report.unmatched_keys) + (more ? ", …" : ""));
  }
  return kExitSuccess;
}

int RunAdd(int argc, char** argv) {
  CommandLine line("columns add", "add columns to a dataset, without touching its shards",
                   "DATASET --from FILE [OPTION]...");
  std::vector<std::string> datasets, columns, types;
  std::optional<std::string> from, key;
  bool json = false;
  JobsOption jobs;
  line.Arguments("DATASET", 1, 1, &datasets);
  line.Text("--from", "FILE", &from, "the values: NDJSON, which is read twice, NPY, or a dataset of any container");
  line.Text("--key", "COLUMN", &key, "the column of FILE with the keys; without it, row i is of sample i");
  line.Texts("--columns", "COL,...", &columns,
             "only these columns of FILE; of NPY, the name of its column [the name of the file]");
  line.Texts("--type", "COL=TYPE", &types,
             "type of a column of NDJSON: an integer or float type, bool, utf8, json [i64, f64, bool, utf8, json, by "
             "the values]");
  jobs.AddTo(&line, "threads that compress; the output is the same for any number");
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &json, "print the summary as one JSON document");
  line.Notes(
      "By key, samples without a row have no value, rows whose key no sample has are counted and listed, and two rows\n"
      "of one key are refused. A column that is there already is replaced. The values lie in shards of their own; an\n"
      "interrupted run leaves the dataset as it was. Parquet is read by shardkit.add_columns of the Python package.");
  line.Example("shardctl columns add photos --from scores.ndjson --key id --type score=f32",
               "lines such as {\"id\": \"a/001\", \"score\": 0.73}");
  line.Example("shardctl columns add photos --from embedding.npy", "row i of the array is of sample i");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (!from.has_value()) return line.UsageError("--from FILE is missing");
  shardkit::ColumnRowsOptions options;
  options.key = key.value_or("");
  options.columns = SplitAtCommas(columns);
  for (const std::string& text : types) {
    const auto pair = ParsePair(text, false, "COLUMN=TYPE, as score=f32");
    if (!pair.ok()) return line.UsageError("--type: " + std::string(pair.status().message()));
    const std::optional<shardkit::Type> type = shardkit::TypeFromName(pair->second);
    if (!type.has_value()) return line.UsageError("--type: there is no type " + Quote(pair->second));
    options.types[pair->first] = *type;
  }
  shardkit::AddColumnsOptions add;
  add.threads = jobs.jobs(datasets);
  add.cancellation = CancelOnSignal();
  Progress progress("samples");
  if (progress.enabled()) add.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); };
  options.cancellation = add.cancellation;
  from = shardkit::KeepQuery(*from);
  const auto rows = shardkit::OpenColumnRows(*shardkit::DefaultFileSystem(), *from, options);
  if (absl::IsCancelled(rows.status())) {
    return ReportInterruption(/*dry_run=*/false, shardkit::DatasetWriterOptions{.append = true});
  }
  if (!rows.ok()) return Fail(rows.status());
  const auto report = shardkit::AddColumns(*shardkit::DefaultFileSystem(), datasets[0], **rows, add);
  progress.Clear();
  if (absl::IsCancelled(report.status())) {
    return ReportInterruption(/*dry_run=*/false, shardkit::DatasetWriterOptions{.append = true});
  }
  if (!report.ok()) return FailWriting(report.status());
  return ReportAdded(datasets[0], *from, *report, json, progress.seconds());
}

int ReportChanged(const absl::StatusOr<uint64_t>& generation, const std::string& dataset, const std::string& text,
                  bool json) {
  if (!generation.ok()) return FailWriting(generation.status());
  if (json) {
    PrintJson(Json{{"path", dataset}, {"generation", *generation}});
  } else {
    Stdout().Write(text + "; generation " + std::to_string(*generation) + "\n");
  }
  return kExitSuccess;
}

int RunDrop(int argc, char** argv) {
  CommandLine line("columns drop", "leave columns out of a dataset; their values stay where they are",
                   "DATASET COLUMN...");
  std::vector<std::string> names;
  bool json = false;
  line.Arguments("DATASET COLUMN", 2, SIZE_MAX, &names);
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes("Earlier generations still have them (shardctl history).");
  line.Example("shardctl columns drop photos caption", "readers see it no more");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const std::vector<std::string> columns(names.begin() + 1, names.end());
  return ReportChanged(shardkit::DropColumns(*shardkit::DefaultFileSystem(), names[0], columns), names[0],
                       "dropped " + Join(columns), json);
}

int RunRename(int argc, char** argv) {
  CommandLine line("columns rename", "give columns other names", "DATASET OLD=NEW...");
  std::vector<std::string> names;
  bool json = false;
  line.Arguments("DATASET OLD=NEW", 2, SIZE_MAX, &names);
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes("All at once, so that two columns can exchange their names.");
  line.Example("shardctl columns rename photos txt=caption", "the column txt is called caption");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  std::vector<std::pair<std::string, std::string>> renamed;
  std::string text;
  for (size_t i = 1; i < names.size(); ++i) {
    auto pair = ParsePair(names[i], false, "OLD=NEW");
    if (!pair.ok()) return line.UsageError(std::string(pair.status().message()));
    text += (text.empty() ? "renamed " : ", ") + Printable(pair->first) + " to " + Printable(pair->second);
    renamed.push_back(*std::move(pair));
  }
  return ReportChanged(shardkit::RenameColumns(*shardkit::DefaultFileSystem(), names[0], renamed), names[0], text,
                       json);
}

int RunSet(int argc, char** argv) {
  CommandLine line("columns set", "say what the values of a column mean", "DATASET COLUMN [NAME=VALUE]...");
  std::vector<std::string> words, classes;
  bool json = false;
  line.Arguments("DATASET COLUMN", 2, SIZE_MAX, &words);
  line.Texts("--class-names", "NAME,...", &classes, "the classes: value i of the column means the i-th, from 0");
  line.StoreOptions(StoreUse::kWrite);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes("NAME= removes a value. Names that Shardkit knows: media_type, class_names, items, unit, description.");
  line.Example("shardctl columns set photos label --class-names cat,dog", "0 is a cat, 1 is a dog");
  line.Example("shardctl columns set photos depth unit=mm description=", "the unit; and no description any more");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  shardkit::Metadata changes;
  for (size_t i = 2; i < words.size(); ++i) {
    const auto pair = ParsePair(words[i], true, "NAME=VALUE");
    if (!pair.ok()) return line.UsageError(std::string(pair.status().message()));
    if (!changes.insert(*pair).second) return line.UsageError(Quote(pair->first) + " is given twice");
  }
  for (const std::string& text : classes) {
    // An empty name would be left out, and those behind it would get other numbers.
    if (("," + text + ",").find(",,") != std::string::npos) return line.UsageError("--class-names: a name is empty");
  }
  if (const std::vector<std::string> names = SplitAtCommas(classes); !names.empty()) {
    if (!changes.emplace(shardkit::kClassNames, FormatJson(Json(names))).second) {
      return line.UsageError("--class-names: not together with class_names=");
    }
  }
  if (changes.empty()) return line.UsageError("nothing is to be set: NAME=VALUE, or --class-names");
  return ReportChanged(shardkit::SetColumnMetadata(*shardkit::DefaultFileSystem(), words[0], words[1], changes),
                       words[0], "changed " + Printable(words[1]), json);
}

}  // namespace

int RunColumns(int argc, char** argv) {
  const std::string_view word = argc > 0 ? argv[0] : "";
  if (word == "add") return RunAdd(argc - 1, argv + 1);
  if (word == "drop") return RunDrop(argc - 1, argv + 1);
  if (word == "rename") return RunRename(argc - 1, argv + 1);
  if (word == "set") return RunSet(argc - 1, argv + 1);
  return RunColumnsList(argc, argv);
}

}  // namespace shardctl
