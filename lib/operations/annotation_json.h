// What the annotations of SA-1B and of COCO have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

// A column of a sample, and a column of an array with one row for each annotation.
Column AnnotationColumn(const char* name, Type type, Codec codec, bool nullable = true);
Column AnnotationArray(const char* name, Type dtype);

// An integer in any notation, such as 1e3: false for another value, or one that int64_t does not hold.
bool ReadInteger(const JsonElement& value, int64_t* out);

// Appends exactly `count` numbers: false when the value is no list of so many.
bool ReadFloats(const JsonElement& value, size_t count, std::vector<double>* out);

// Appends the mask of {"size": [height, width], "counts": …}, of compressed text or a list of runs. False, with nothing
// appended, for another value. DataLoss for counts that are malformed; their sum is not compared (ValidateRle).
absl::StatusOr<bool> AppendRunLengths(const JsonElement& segmentation, RleList* masks);

}  // namespace shardkit::operations
