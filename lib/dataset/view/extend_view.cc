#include "dataset/view/extend_view.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/schema_mapper.h"

namespace shardkit::dataset {

namespace {

// Whether the samples from `begin` on have the values of the shards' column of the column's own name.
bool ComeFromShards(const std::vector<ColumnSource>& sources, uint64_t begin) {
  return sources.empty() || sources.back().end < begin;
}

}  // namespace

Schema SharedColumns(const Manifest& before) {
  if (!before.view) return before.schema;
  std::vector<Column> shared;
  for (const Column& column : before.schema.columns()) {
    const std::optional<size_t> seen = before.view->schema.Find(column.name);
    const bool same = seen && ComeFromShards(before.view->sources[*seen], before.sample_count);
    if (same || column.is_key) shared.push_back(column);
  }
  if (shared.empty()) return Schema();
  return *Schema::Create(std::move(shared));  // a part of a schema is one
}

absl::StatusOr<Schema> WithStoredKey(const Manifest& before, const Schema& appended) {
  const std::optional<size_t> stored = before.schema.key_column(), given = appended.key_column();
  if (!stored || !given) return appended;
  std::vector<Column> columns = appended.columns();
  const Schema& seen = before.seen_schema();
  const std::optional<size_t> clash = seen.key_column() ? appended.Find(seen[*seen.key_column()].name) : std::nullopt;
  if (clash && clash != given) {
    return InvalidArgument("column \"", columns[*clash].name, "\" has the name of the dataset's key");
  }
  columns[*given].name = before.schema[*stored].name;
  return Schema::Create(std::move(columns));
}

absl::Status ExtendView(const Manifest& before, const Schema& appended, Manifest* manifest) {
  if (!manifest->view) return absl::OkStatus();
  DatasetView& view = *manifest->view;
  const uint64_t begin = before.sample_count;
  std::vector<Column> columns = view.schema.columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    Column& column = columns[i];
    std::vector<ColumnSource>& sources = view.sources[i];
    const bool from_shards = ComeFromShards(sources, begin);
    std::optional<size_t> stored =
        from_shards || appended.Find(column.name) ? manifest->schema.Find(column.name) : std::nullopt;
    if (column.is_key && appended.key_column()) {
      const std::optional<size_t> other = appended.Find(column.name);
      if (other && other != appended.key_column()) {
        return FailedPrecondition("column \"", column.name, "\" of the samples has the name of the dataset's key");
      }
      stored = manifest->schema.key_column();
      const std::string& name = manifest->schema[*stored].name;
      if (name != column.name) {  // it was renamed, and a dataset has one key
        if (sources.empty() || sources.back().layer || sources.back().column != name)
          sources.push_back({.column = name});
        sources.back().end = manifest->sample_count;
      }
    } else if (stored && manifest->schema[*stored].is_key) {
      stored.reset();  // the key's stored name is now that of another column
    }
    if (!stored) {
      if (column.is_key) {
        return FailedPrecondition("the samples have no column \"", column.name, "\", which is the key");
      }
      column.nullable = true;
      if (!manifest->schema.Find(column.name)) continue;
      // The shards before have another column of this name.
      const bool absent = !sources.back().layer && sources.back().column.empty();
      if (!absent) sources.emplace_back();
      sources.back().end = manifest->sample_count;
      continue;
    }
    const Column& of_shards = manifest->schema[*stored];
    column.type = CommonType(column.type, of_shards.type).value_or(column.type);
    column.nullable = column.nullable || of_shards.nullable;
    const std::string_view difference = ColumnDifference(of_shards, column);
    if (!difference.empty()) {
      return FailedPrecondition("column \"", column.name, "\" of the samples does not fit the dataset's: its ",
                                difference,
                                " differs; where the shards have another column of this name, shardctl compact --fold ",
                                "puts the one that is seen into them");
    }
  }
  for (const Column& column : appended.columns()) {
    if (view.schema.Find(column.name)) continue;
    if (column.is_key && view.schema.key_column()) continue;  // seen by its new name
    if (column.is_key) return FailedPrecondition("column \"", column.name, "\" is a key, and no longer the dataset's");
    Column& added = columns.emplace_back(manifest->schema[*manifest->schema.Find(column.name)]);
    added.nullable = added.nullable || begin > 0;
    std::vector<ColumnSource>& sources = view.sources.emplace_back();
    // What the shards before have of that name stays unseen.
    if (begin > 0 && before.schema.Find(column.name)) sources.push_back({.end = begin});
  }
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  SHARDKIT_RETURN_IF_ERROR(schema.status());
  view.schema = *std::move(schema);
  return absl::OkStatus();
}

void LeaveOutLayers(DatasetView* view) {
  std::vector<Layer> layers;
  std::vector<std::optional<uint64_t>> places(view->layers.size());
  for (std::vector<ColumnSource>& sources : view->sources) {
    for (ColumnSource& source : sources) {
      if (!source.layer) continue;
      std::optional<uint64_t>& place = places[*source.layer];
      if (!place) {
        place = layers.size();
        layers.push_back(view->layers[*source.layer]);
      }
      source.layer = place;
    }
  }
  view->layers = std::move(layers);
}

}  // namespace shardkit::dataset
