#include "view/overview.h"

#include "shardctl/dataset_access.h"
#include "shardctl/describe.h"
#include "shardkit/history.h"
#include "view/value.h"

namespace shardctl {
namespace {

// Of bytes, what the first sample's are: the columns of other programs often say no more.
std::string KindOf(const shardkit::DatasetReader& dataset, size_t index, uint64_t samples) {
  const shardkit::Column& column = dataset.columns()[index];
  if (ValueKind(column) != "bytes" || samples == 0) return ValueKind(column);
  shardkit::BlockBuffer buffer;
  const auto value = dataset.ReadValue(0, index, &buffer);
  return value.ok() && value->has_value() ? ValueKind(column, **value) : "bytes";
}

Json DescribeColumns(const shardkit::DatasetReader& dataset, uint64_t samples) {
  Json columns = Json::array();
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const shardkit::Column& column = dataset.columns()[i];
    const std::vector<std::string> classes = ShownClasses(column);
    columns.push_back({{"name", column.name},
                       {"type", TypeText(column)},
                       {"kind", KindOf(dataset, i, samples)},
                       {"codec", shardkit::CodecName(column.codec)},
                       {"key", column.is_key},
                       {"nullable", column.nullable},
                       {"metadata", ShownMetadata(column.metadata)},
                       {"class_names", classes.empty() ? Json() : Json(classes)}});
  }
  return columns;
}

Json DescribeColumnFiles(const shardkit::ManifestSummary& summary) {
  Json files = Json::array();
  for (const shardkit::ColumnFile& file : summary.column_files) {
    Json columns = Json::array();
    for (const shardkit::Column& column : summary.schema.columns()) {
      const std::string_view stored = summary.StoredName(column.name);
      if (std::find(file.columns.begin(), file.columns.end(), stored) != file.columns.end()) {
        columns.push_back(column.name);
      }
    }
    files.push_back({{"name", file.name}, {"columns", std::move(columns)}});
  }
  return files;
}

Json DescribeGenerations(const ViewedDataset& dataset) {
  Json generations = Json::array();
  const auto history = shardkit::ReadHistory(dataset.file_system(), dataset.path());
  if (!history.ok()) return generations;
  for (const shardkit::DatasetGeneration& each : *history) {
    generations.push_back({{"generation", each.generation},
                           {"operation", each.operation.name},
                           {"text", DescribeOperation(each.operation)},
                           {"samples", each.samples},
                           {"bytes", each.bytes},
                           {"readable", each.readable}});
  }
  return generations;
}

}  // namespace

Json DescribeDataset(const ViewedDataset& dataset, const Snapshot& snapshot) {
  const shardkit::DatasetReader& reader = *snapshot.reader;
  const shardkit::ManifestSummary& summary = reader.summary();
  Json generations = reader.container() == "shard" ? DescribeGenerations(dataset) : Json::array();
  Json document{{"name", dataset.name()},
                {"path", dataset.path()},
                {"container", reader.container()},
                {"samples", snapshot.samples},
                {"complete", snapshot.complete},
                {"bytes", summary.bytes},
                {"shards", summary.shard_count},
                {"blocks", summary.block_count},
                {"generation", generations.empty() ? Json() : Json(summary.generation)}};
  const std::string problem = reader.index_problem();
  document["index"] = {{"used", problem.empty()}, {"problem", problem.empty() ? Json() : Json(problem)}};
  if (reader.container() != "shard") document["index"] = nullptr;
  document["metadata"] = ShownMetadata(summary.metadata);
  document["columns"] = DescribeColumns(reader, snapshot.samples);
  document["column_files"] = DescribeColumnFiles(summary);
  document["generations"] = std::move(generations);
  return document;
}

}  // namespace shardctl
