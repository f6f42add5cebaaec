// Turns samples with named fields into rows of a schema. The schema widens when new fields come.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

// OutOfRange, with a list of the columns.
absl::Status NoSuchColumn(std::string_view name, const std::vector<Column>& columns);

// Why values of the column `stored` cannot be used as values of the column `seen`: the property that differs ("type",
// "codec"), or empty when they can (format-spec/dataset.md, section 9.1).
std::string_view ColumnDifference(const Column& stored, const Column& seen);

// One thread at a time.
class SchemaMapper {
 public:
  // `codecs` replace the codec of the columns they name, here and in Widen.
  absl::Status Start(const Schema& schema, const std::map<std::string, Codec>& codecs);

  const Schema& schema() const { return schema_; }

  // Puts the sample's values in the schema's order. False when the schema must be widened first. InvalidArgument when
  // no widening makes a field fit.
  absl::StatusOr<bool> Map(const Sample& sample, std::vector<std::optional<Value>>* values);

  // Adds the columns and widens the types that the sample needs.
  absl::Status Widen(const Sample& sample);

 private:
  struct Target {
    size_t position = 0;
    bool fits = false;
  };
  struct Known {
    Column column;  // compared on use: the address may now be that of another column
    size_t position = 0;
  };
  absl::StatusOr<Target> Find(const Column& column) const;

  Schema schema_;
  std::map<std::string, Codec> codecs_;
  absl::flat_hash_map<const Column*, Known> known_;  // many fields point to the same few columns
};

}  // namespace shardkit::dataset
