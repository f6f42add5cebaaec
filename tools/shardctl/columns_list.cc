#include "columns_list.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "json.h"
#include "output.h"
#include "report.h"
#include "table.h"

namespace shardctl {
namespace {

// The column files that have values of a column.
std::vector<std::string> FilesOf(const shardkit::ManifestSummary& summary, std::string_view stored_name) {
  std::vector<std::string> files;
  for (const shardkit::ColumnFile& file : summary.column_files) {
    if (std::find(file.columns.begin(), file.columns.end(), stored_name) != file.columns.end()) {
      files.push_back(file.name);
    }
  }
  return files;
}

// Where the values lie.
std::string PlaceText(const shardkit::Column& column, std::string_view stored_name,
                      const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += (text.empty() ? "" : ", ") + Printable(file);
  if (files.empty()) text = "shards";
  return stored_name == column.name ? text : text + " (as " + Printable(stored_name) + ")";
}

std::string MetadataText(const shardkit::Metadata& metadata) {
  std::string text;
  for (const auto& [name, value] : metadata) {
    text += (text.empty() ? "" : ", ") + Printable(name) + "=" + Printable(value);
  }
  return text;
}

}  // namespace

int RunColumnsList(int argc, char** argv) {
  CommandLine line("columns", "list the columns of a dataset; add, drop, rename and describe them",
                   "DATASET [OPTION]...\n       shardctl columns add|drop|rename|set DATASET ...");
  std::vector<std::string> paths;
  bool json = false;
  line.Arguments("DATASET", 1, 1, &paths);
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &json, "print one JSON document");
  line.Notes(
      "For each column: name, type (with ? where values may be absent), codec, where the values lie (the shards, or\n"
      "files that columns add has made; in parentheses the name that the column has there), metadata.\n"
      "shardctl columns add --help shows the options of add, and so on.");
  line.Example("shardctl columns photos", "one line for each column");
  line.Example("shardctl columns add photos --from scores.ndjson --key id", "more columns, matched by key");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const auto dataset = OpenDataset(paths[0]);
  if (!dataset.ok()) return Fail(dataset.status());
  const shardkit::ManifestSummary& summary = (*dataset)->summary();
  Json columns = Json::array();
  Table table("lllll");
  for (const shardkit::Column& column : (*dataset)->columns()) {
    const std::string stored_name(summary.StoredName(column.name));
    const std::vector<std::string> files = FilesOf(summary, stored_name);
    table.AddRow({Printable(column.name) + (column.is_key ? " (key)" : ""),
                  TypeText(column) + (column.nullable ? "?" : ""), std::string(shardkit::CodecName(column.codec)),
                  PlaceText(column, stored_name, files), MetadataText(column.metadata)});
    Json each = ColumnJson(column);
    each["metadata"] = column.metadata;
    each["stored_name"] = stored_name;
    each["column_files"] = files;
    columns.push_back(std::move(each));
  }
  if (json) {
    PrintJson(Json{{"path", paths[0]}, {"generation", summary.generation}, {"columns", std::move(columns)}});
  } else {
    Stdout().Write(table.Format());
  }
  Stdout().Flush();
  return kExitSuccess;
}

}  // namespace shardctl
