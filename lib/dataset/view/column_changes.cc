#include "dataset/view/column_changes.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace shardkit::dataset {
namespace {

// Where a run of values ends, and the layer and the column that it comes from; the layer is empty for the shards, and
// the column where there are no values.
using SourceRun = std::tuple<uint64_t, std::string_view, std::string_view>;

struct SeenColumn {
  const Column* column = nullptr;
  std::vector<SourceRun> origin;
};

std::vector<SeenColumn> SeenColumns(const ManifestSummary& summary) {
  std::vector<SeenColumn> seen;
  const Schema& schema = summary.view ? summary.view->schema : summary.schema;
  for (size_t i = 0; i < schema.size(); ++i) {
    const std::string_view name = schema[i].name;
    SeenColumn each{.column = &schema[i]};
    uint64_t end = 0;
    for (size_t k = 0; summary.view && k < summary.view->sources[i].size(); ++k) {
      const ColumnSource& source = summary.view->sources[i][k];
      end = source.end;
      each.origin.emplace_back(end, source.layer ? summary.view->layers[*source.layer].name : std::string_view(),
                               source.column);
    }
    if (end < summary.sample_count || each.origin.empty()) {
      each.origin.emplace_back(summary.sample_count, "", summary.schema.Find(name) ? name : std::string_view());
    }
    seen.push_back(std::move(each));
  }
  return seen;
}

const SeenColumn* Named(const std::vector<SeenColumn>& columns, std::string_view name) {
  const auto found = std::ranges::find_if(columns, [&](const SeenColumn& each) { return each.column->name == name; });
  return found == columns.end() ? nullptr : &*found;
}

}  // namespace

ColumnChanges CompareColumns(const ManifestSummary& before, const ManifestSummary& after) {
  const std::vector<SeenColumn> old = SeenColumns(before), now = SeenColumns(after);
  ColumnChanges changes;
  std::vector<std::string_view> kept;  // columns of before that are there, by whatever name
  for (const SeenColumn& each : now) {
    const std::string& name = each.column->name;
    const SeenColumn* same = Named(old, name);
    if (same != nullptr && same->origin == each.origin) {
      if (same->column->metadata != each.column->metadata) changes.described.push_back(name);
      kept.push_back(name);
      continue;
    }
    const auto renamed =
        std::ranges::find_if(old, [&](const SeenColumn& other) { return other.origin == each.origin; });
    if (renamed != old.end()) {
      changes.renamed.emplace_back(renamed->column->name, name);
      kept.push_back(renamed->column->name);
    } else if (same != nullptr) {
      changes.replaced.push_back(name);
      kept.push_back(name);
    } else {
      changes.added.push_back(name);
    }
  }
  for (const SeenColumn& each : old) {
    if (std::ranges::find(kept, each.column->name) == kept.end()) changes.dropped.push_back(each.column->name);
  }
  return changes;
}

}  // namespace shardkit::dataset
