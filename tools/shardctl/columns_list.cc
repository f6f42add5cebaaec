#include "columns_list.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "json.h"
#include "output.h"
#include "report.h"
#include "table.h"

namespace shardctl {
namespace {

// Where a run of values comes from.
struct Origin {
  uint64_t end = 0;   // stored samples
  std::string layer;  // empty: the shards
  std::string column;
  bool absent = false;
};

std::vector<Origin> OriginsOf(const shardkit::ManifestSummary& summary, const shardkit::Column& column,
                              const std::vector<std::string>& stored) {
  const uint64_t samples = summary.sample_count + (summary.removed ? summary.removed->samples : 0);
  std::vector<Origin> origins;
  const std::optional<size_t> seen = summary.schema.Find(column.name);
  if (summary.view && seen) {
    for (const shardkit::ColumnSource& source : summary.view->sources[*seen]) {
      origins.push_back({.end = source.end, .column = source.column, .absent = source.column.empty()});
      if (source.layer) origins.back().layer = summary.view->layers[*source.layer].name;
    }
  }
  if (origins.empty() || origins.back().end < samples) {
    const bool absent = summary.view && std::find(stored.begin(), stored.end(), column.name) == stored.end();
    origins.push_back({.end = samples, .column = absent ? "" : column.name, .absent = absent});
  }
  return origins;
}

std::string OriginText(const shardkit::Column& column, const std::vector<Origin>& origins) {
  std::string text;
  for (const Origin& origin : origins) {
    std::string each = origin.absent ? "absent" : origin.layer.empty() ? "shards" : Printable(origin.layer);
    if (!origin.absent && origin.column != column.name) each += " (" + Printable(origin.column) + ")";
    if (&origin != &origins.back()) each += " to sample " + std::to_string(origin.end) + ", then ";
    text += each;
  }
  return text;
}

std::string MetadataText(const shardkit::Metadata& metadata) {
  std::string text;
  for (const auto& [name, value] : metadata) {
    text += (text.empty() ? "" : ", ") + Printable(name) + "=" + Printable(value);
  }
  return text;
}

Json OriginsJson(const std::vector<Origin>& origins) {
  Json list = Json::array();
  for (const Origin& origin : origins) {
    list.push_back({{"end", origin.end},
                    {"layer", origin.layer.empty() ? Json(nullptr) : Json(origin.layer)},
                    {"column", origin.absent ? Json(nullptr) : Json(origin.column)}});
  }
  return list;
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
      "For each column: name, type (with ? where values may be absent), codec, where the values come from (the "
      "shards,\n"
      "or a layer that columns add has made; in parentheses the name that the column has there), metadata.\n"
      "shardctl columns add --help shows the options of add, and so on.");
  line.Example("shardctl columns photos", "one line for each column");
  line.Example("shardctl columns add photos --from scores.ndjson --key id", "more columns, matched by key");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const auto dataset = OpenDataset(paths[0]);
  if (!dataset.ok()) return Fail(dataset.status());
  const shardkit::ManifestSummary& summary = (*dataset)->summary();
  std::vector<std::string> stored;
  if (summary.view) {
    const auto manifest = (*dataset)->ReadManifest();
    if (!manifest.ok()) return Fail(manifest.status());
    for (const shardkit::Column& column : manifest->schema.columns()) stored.push_back(column.name);
  }
  Json columns = Json::array();
  Table table("lllll");
  for (const shardkit::Column& column : (*dataset)->columns()) {
    const std::vector<Origin> origins = OriginsOf(summary, column, stored);
    table.AddRow({Printable(column.name) + (column.is_key ? " (key)" : ""),
                  TypeText(column) + (column.nullable ? "?" : ""), std::string(shardkit::CodecName(column.codec)),
                  OriginText(column, origins), MetadataText(column.metadata)});
    Json each = ColumnJson(column);
    each["metadata"] = column.metadata;
    each["sources"] = OriginsJson(origins);
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
