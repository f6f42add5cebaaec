// Changes to the columns that readers see.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/manifest.h"

namespace shardkit::convert {

// The view of a manifest, taken apart to be changed. One thread at a time.
struct ViewEdit {
  struct SeenColumn {
    Column column;
    std::vector<ColumnSource> sources;
  };
  std::vector<SeenColumn> columns;
  std::vector<Layer> layers;

  explicit ViewEdit(const Manifest& manifest);

  // Null when there is no such column.
  SeenColumn* Find(std::string_view name);

  // OutOfRange, with a list of the columns.
  absl::Status NoColumn(std::string_view name) const;

  // Makes these columns those of the manifest: without the layers that none of them takes values from, and without a
  // view where they are just those of the shards. InvalidArgument when they are no schema.
  absl::Status Apply(Manifest* manifest) &&;
};

// The sources of a column when it gets another name, for which they say where all values come from.
std::vector<ColumnSource> SourcesOfRenamed(const Manifest& manifest, const ViewEdit::SeenColumn& column);

}  // namespace shardkit::convert
