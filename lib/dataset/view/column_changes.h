// What became of the columns that readers see from one generation to the next.
#pragma once

#include "shardkit/history.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Of two generations whose shards have the same samples.
ColumnChanges CompareColumns(const ManifestSummary& before, const ManifestSummary& after);

}  // namespace shardkit::dataset
