// What becomes of a dataset's view when its shards change.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// The stored columns that appended shards have: those that readers see by their own names, and the key by any name.
// No columns when all were renamed or dropped.
Schema SharedColumns(const Manifest& before);

// The columns of samples to append as they are stored: a dataset has one key, so the key of the samples takes the name
// that the key has in the shards. InvalidArgument when another column has that name.
absl::StatusOr<Schema> WithStoredKey(const Manifest& before, const Schema& appended);

// Gives manifest->view the columns of `appended`, which the shards behind those of `before` have. manifest->schema is
// that of all shards, and manifest->view that of `before`. FailedPrecondition, naming it, when a column does not fit.
absl::Status ExtendView(const Manifest& before, const Schema& appended, Manifest* manifest);

// Takes the layers out of the view from which no column has values, and puts the others into the order in which the
// columns name them.
void LeaveOutLayers(DatasetView* view);

}  // namespace shardkit::dataset
