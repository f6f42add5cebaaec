// The bytes of `ndarray` values (format-spec/spec.md, "Values").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/schema.h"

namespace shardkit {

// A borrowed array. `data` points into the value it was parsed from.
struct NdarrayView {
  Type dtype = Type::kU8;
  std::vector<uint64_t> shape;  // slowest dimension first; empty for a single element
  std::string_view data;        // product of shape x ScalarSize(dtype) bytes

  uint64_t element_count() const;
};

// Appends a value with its own shape, as stored in a column without Column::shape. InvalidArgument when the size of
// `data` does not match the shape, or when a limit is exceeded.
absl::Status AppendNdarray(Type dtype, std::span<const uint64_t> shape, std::string_view data, std::string* out);

// Parses a value of `column`, whose type is kNdarray, with or without a shape in the schema. DataLoss when the bytes do
// not match the column; Unimplemented when its dtype is not known.
absl::StatusOr<NdarrayView> ParseNdarray(const Column& column, std::string_view value);

}  // namespace shardkit
