#include "convert/columns/view_edit.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "dataset/schema_mapper.h"
#include "dataset/view/extend_view.h"

namespace shardkit::convert {
namespace {

// Whether readers that go without the source find the same values: those of the shards' column of the seen name.
bool IsDefault(const ColumnSource& source, const Manifest& manifest, const std::string& seen) {
  if (source.layer) return false;
  return source.column.empty() ? !manifest.schema.Find(seen) : source.column == seen;
}

}  // namespace

ViewEdit::ViewEdit(const Manifest& manifest) {
  const Schema& schema = manifest.seen_schema();
  for (size_t i = 0; i < schema.size(); ++i) {
    columns.push_back({schema[i], manifest.view ? manifest.view->sources[i] : std::vector<ColumnSource>()});
  }
  if (manifest.view) layers = manifest.view->layers;
}

ViewEdit::SeenColumn* ViewEdit::Find(std::string_view name) {
  const auto found = std::ranges::find(columns, name, [](const SeenColumn& each) { return each.column.name; });
  return found == columns.end() ? nullptr : &*found;
}

absl::Status ViewEdit::NoColumn(std::string_view name) const {
  std::vector<Column> seen;
  for (const SeenColumn& each : columns) seen.push_back(each.column);
  return dataset::NoSuchColumn(name, seen);
}

absl::Status ViewEdit::Apply(Manifest* manifest) && {
  DatasetView view{.layers = std::move(layers)};
  std::vector<Column> seen;
  bool plain = true;
  for (SeenColumn& each : columns) {
    while (!each.sources.empty() && each.sources.back().end == manifest->sample_count &&
           IsDefault(each.sources.back(), *manifest, each.column.name)) {
      each.sources.pop_back();
    }
    plain = plain && each.sources.empty();
    seen.push_back(std::move(each.column));
    view.sources.push_back(std::move(each.sources));
  }
  dataset::LeaveOutLayers(&view);
  SHARDKIT_ASSIGN_OR_RETURN(view.schema, Schema::Create(std::move(seen)));
  manifest->view.reset();
  if (manifest->shards.empty()) {
    // There are no stored columns that these could be others than.
    manifest->schema = std::move(view.schema);
    return absl::OkStatus();
  }
  if (!plain || view.schema != manifest->schema) manifest->view = std::move(view);
  return absl::OkStatus();
}

std::vector<ColumnSource> SourcesOfRenamed(const Manifest& manifest, const ViewEdit::SeenColumn& column) {
  std::vector<ColumnSource> sources = column.sources;
  const uint64_t samples = manifest.sample_count;
  const uint64_t end = sources.empty() ? 0 : sources.back().end;
  if (end < samples) {
    ColumnSource rest{.end = samples};
    if (manifest.schema.Find(column.column.name)) rest.column = column.column.name;
    sources.push_back(std::move(rest));
  }
  return sources;
}

}  // namespace shardkit::convert
