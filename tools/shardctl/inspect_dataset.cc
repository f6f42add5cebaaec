// shardctl inspect PATH: an overview of the dataset.
#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <vector>

#include "dataset_access.h"
#include "inspect.h"
#include "json.h"
#include "numbers.h"
#include "output.h"
#include "report.h"
#include "scalar.h"
#include "shardkit/remote.h"
#include "table.h"

namespace shardctl {
namespace {

struct Facts {
  bool is_directory = false;
  uint64_t hashed_shards = 0;  // with a SHA-256 in the manifest
  std::string content_hash;    // of a single shard
  std::vector<shardkit::ColumnStatistics> statistics;
  std::set<std::string> dictionary_columns;  // with a dictionary in at least one shard
  std::set<std::string> paged_columns;       // in pages in at least one shard
};

absl::Status Gather(const shardkit::DatasetReader& dataset, Facts* facts) {
  const absl::StatusOr<shardkit::FileInfo> info = shardkit::DefaultFileSystem()->Stat(dataset.path());
  // A dataset that is open and has no such file is a pattern of tars.
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  facts->is_directory = !info.ok() || info->type == shardkit::FileType::kDirectory;
  absl::StatusOr<std::vector<shardkit::ColumnStatistics>> statistics = dataset.ReadStatistics();
  if (!statistics.ok()) return statistics.status();
  facts->statistics = *std::move(statistics);
  for (size_t i = 0; i < dataset.shard_count(); ++i) {
    const absl::StatusOr<shardkit::ManifestShard> listed = dataset.Shard(i);
    if (!listed.ok()) return listed.status();
    if (listed->sha256) ++facts->hashed_shards;
    if (!facts->is_directory) facts->content_hash = shardkit::ToHex(listed->content_hash);
    const absl::StatusOr<std::shared_ptr<const shardkit::ShardReader>> shard = dataset.OpenShard(i);
    if (!shard.ok()) return shard.status();
    for (const size_t column : (*shard)->dictionary_columns()) {
      facts->dictionary_columns.insert((*shard)->schema()[column].name);
    }
    for (const shardkit::Column& column : (*shard)->schema().columns()) {
      if (column.is_paged()) facts->paged_columns.insert(column.name);
    }
  }
  return absl::OkStatus();
}

std::string BoundText(shardkit::RangeKind kind, uint64_t bits) {
  if (kind == shardkit::RangeKind::kI64) return std::to_string(static_cast<int64_t>(bits));
  if (kind == shardkit::RangeKind::kU64) return std::to_string(bits);
  return FormatFixed(std::bit_cast<double>(bits), 6);
}

uint64_t RemovedOf(const shardkit::DatasetReader& dataset) {
  return dataset.summary().removed ? dataset.summary().removed->samples : 0;
}

// The statistics of columns count removed samples, too.
uint64_t StoredSamples(const shardkit::DatasetReader& dataset) { return dataset.sample_count() + RemovedOf(dataset); }

Json StatisticsJson(const shardkit::Column& column, const shardkit::ColumnStatistics& statistics, uint64_t samples,
                    const Facts& facts) {
  Json document = ColumnJson(column);
  document["dictionary"] = facts.dictionary_columns.contains(column.name);
  document["pages"] = facts.paged_columns.contains(column.name);
  document["present"] = statistics.present_count;
  document["absent"] = samples - std::min(samples, statistics.present_count);
  document["value_bytes"] = statistics.value_bytes;
  document["stored_bytes"] = statistics.stored_bytes;
  document["length"] = {{"min", statistics.min_length},
                        {"median", statistics.LengthQuantile(0.5)},
                        {"p95", statistics.LengthQuantile(0.95)},
                        {"max", statistics.max_length}};
  document["range"] = nullptr;
  if (statistics.range_kind != shardkit::RangeKind::kNone) {
    document["range"] = {{"min", BoundJson(statistics.range_kind, statistics.minimum)},
                         {"max", BoundJson(statistics.range_kind, statistics.maximum)}};
  }
  return document;
}

void PrintDocument(const shardkit::DatasetReader& dataset, const Facts& facts) {
  const shardkit::ManifestSummary& summary = dataset.summary();
  Json document;
  document["path"] = dataset.path();
  document["kind"] = facts.is_directory ? "dataset" : "shard";
  document["samples"] = dataset.sample_count();
  document["removed_samples"] = RemovedOf(dataset);
  document["bytes"] = summary.bytes;
  document["shards"] = summary.shard_count;
  document["blocks"] = summary.block_count;
  document["shards_with_sha256"] = facts.hashed_shards;
  document["columns"] = Json::array();
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const shardkit::Column& column = dataset.columns()[i];
    document["columns"].push_back(StatisticsJson(column, facts.statistics[i], StoredSamples(dataset), facts));
  }
  document["metadata"] = summary.metadata;
  document["bases"] = Json::array();
  for (const shardkit::Base& base : summary.bases) {
    document["bases"].push_back(
        {{"name", base.name}, {"location", base.location}, {"path", base.path}, {"generation", base.generation}});
  }
  document["index"] = nullptr;
  if (facts.is_directory) {
    const std::string problem = dataset.index_problem();
    document["index"] = {{"used", problem.empty()}, {"problem", problem.empty() ? Json(nullptr) : Json(problem)}};
  }
  PrintJson(document);
}

std::string CodecText(const shardkit::Column& column, const Facts& facts) {
  std::string text(shardkit::CodecName(column.codec));
  if (facts.paged_columns.contains(column.name)) text += "+pages";
  return facts.dictionary_columns.contains(column.name) ? text + "+dict" : text;
}

std::string RatioText(const shardkit::ColumnStatistics& statistics) {
  if (statistics.present_count == 0 || statistics.stored_bytes == 0) return "-";
  return FormatFixed(static_cast<double>(statistics.value_bytes) / static_cast<double>(statistics.stored_bytes), 2);
}

void PrintColumns(const shardkit::DatasetReader& dataset, const Facts& facts) {
  Table table("lllrrrrrrrrrl");
  table.AddRow({"column", "type", "codec", "present", "absent", "raw", "stored", "ratio", "min", "median", "p95", "max",
                "range"});
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const shardkit::Column& column = dataset.columns()[i];
    const shardkit::ColumnStatistics& statistics = facts.statistics[i];
    std::vector<std::string> cells = {
        Printable(column.name) + (column.is_key ? " (key)" : ""),
        TypeText(column),
        CodecText(column, facts),
        std::to_string(statistics.present_count),
        std::to_string(StoredSamples(dataset) - std::min(StoredSamples(dataset), statistics.present_count)),
        FormatBytes(statistics.value_bytes),
        FormatBytes(statistics.stored_bytes),
        RatioText(statistics)};
    if (column.fixed_size().has_value() || statistics.present_count == 0) {
      const std::string size = column.fixed_size().has_value() ? FormatBytes(*column.fixed_size()) : "-";
      cells.insert(cells.end(), {size, size, size, size});
    } else {
      cells.insert(cells.end(),
                   {FormatBytes(statistics.min_length), "~" + FormatBytes(statistics.LengthQuantile(0.5)),
                    "~" + FormatBytes(statistics.LengthQuantile(0.95)), FormatBytes(statistics.max_length)});
    }
    cells.push_back(statistics.range_kind == shardkit::RangeKind::kNone
                        ? ""
                        : BoundText(statistics.range_kind, statistics.minimum) + " to " +
                              BoundText(statistics.range_kind, statistics.maximum));
    table.AddRow(std::move(cells));
  }
  Stdout().Write("\n" + table.Format());
}

void PrintMetadata(const shardkit::Metadata& metadata) {
  for (const auto& [name, value] : metadata) {
    Stdout().Write("  " + Printable(name) + ": " + Printable(value) + "\n");
  }
}

void PrintText(const shardkit::DatasetReader& dataset, const Facts& facts) {
  const shardkit::ManifestSummary& summary = dataset.summary();
  Stdout().Write(
      Printable(dataset.path()) + ": " + (facts.is_directory ? "dataset" : "shard") + " of " +
      Counted(dataset.sample_count(), "sample") +
      (RemovedOf(dataset) > 0 ? " (and " + std::to_string(RemovedOf(dataset)) + " removed, counted below)" : "") +
      ", " + FormatBytes(summary.bytes) + " in " + Counted(summary.shard_count, "shard") + ", " +
      Counted(summary.block_count, "block") + "\n");
  if (facts.is_directory) {
    const std::string problem = dataset.index_problem();
    Stdout().Write("offset index: " + (problem.empty() ? "in use" : "not in use: " + Printable(problem)) + "\n");
  } else if (!facts.content_hash.empty()) {
    Stdout().Write("content hash: " + facts.content_hash + "\n");
  }
  for (const shardkit::Base& base : summary.bases) {
    Stdout().Write("refers to " + Printable(base.name) + ": " + Printable(base.path) + ", generation " +
                   std::to_string(base.generation) + "\n");
  }
  PrintColumns(dataset, facts);
  for (const shardkit::Column& column : dataset.columns()) {
    if (column.metadata.empty()) continue;
    Stdout().Write("\nmetadata of column " + Printable(column.name) + ":\n");
    PrintMetadata(column.metadata);
  }
  if (summary.metadata.empty()) return;
  Stdout().Write("\nmetadata:\n");
  PrintMetadata(summary.metadata);
}

}  // namespace

int InspectDataset(const shardkit::DatasetReader& dataset, bool json) {
  Facts facts;
  if (const absl::Status status = Gather(dataset, &facts); !status.ok()) return Fail(status);
  if (json) {
    PrintDocument(dataset, facts);
  } else {
    PrintText(dataset, facts);
  }
  return kExitSuccess;
}

}  // namespace shardctl
