// Schemas and samples decoded from the fuzzer's bytes, and the check that a dataset holds these samples.
#pragma once

#include <string>
#include <vector>

#include "shardkit/dataset_writer.h"
#include "support/input.h"
#include "support/rows.h"

namespace shardkit::fuzz {

enum class Columns {
  kAny,          // of every type
  kByteStrings,  // the types of values in tars
};

// 1 to 6 columns. Usually the first is the key.
Schema TakeSchema(Input& input, Columns which);

// Up to 40 samples whose values fit their columns. Keys are unique and in order.
std::vector<Row> TakeRows(Input& input, const Schema& schema);

// Appends the rows. An absent value has no field.
absl::Status AppendRows(const Schema& schema, const std::vector<Row>& rows, DatasetWriter& writer);

// Fails unless the dataset has these rows, in the schema's columns by name.
void RequireRows(FileSystem& files, const std::string& path, const Schema& schema, const std::vector<Row>& rows);

}  // namespace shardkit::fuzz
