// What becomes of a dataset's columns when it is changed (format-spec/dataset.md, section 9.1).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// The stored names that columns of the dataset have or had.
std::set<std::string> UsedStoredNames(const ManifestSummary& manifest);

// A stored name that is not among *used, for the column `name` that comes into being in `generation`. Adds it there.
std::string NewStoredName(std::string_view name, uint64_t generation, std::set<std::string>* used);

// The columns of `schema`, a part of the dataset's, with their stored names.
Schema WithStoredNames(const ManifestSummary& manifest, const Schema& schema);

// The columns of samples to append, whose key takes the name of the dataset's. InvalidArgument when another column has
// that name.
absl::StatusOr<Schema> WithKeyOf(const ManifestSummary& manifest, const Schema& appended);

// Gives the dataset the columns of samples that are appended in this generation. InvalidArgument when one does not fit.
absl::Status AppendColumns(const Schema& appended, Manifest* manifest);

// The columns of a manifest, taken apart to be changed. One thread at a time.
struct ColumnEdit {
  struct EditedColumn {
    Column column;
    std::string stored_name;
  };
  std::vector<EditedColumn> columns;

  explicit ColumnEdit(const ManifestSummary& manifest);

  // Null when there is no such column.
  EditedColumn* Find(std::string_view name);

  // OutOfRange, with a list of the columns.
  absl::Status NoColumn(std::string_view name) const;

  // Makes these columns those of the manifest, without the column files of which none is seen. InvalidArgument when
  // they are no schema.
  absl::Status Apply(Manifest* manifest) &&;
};

}  // namespace shardkit::dataset
