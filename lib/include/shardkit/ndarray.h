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

// Appends a value that carries its own shape: what a column without Column::shape stores. InvalidArgument
// when the data's size is not that of the shape, or a limit is passed.
absl::Status AppendNdarray(Type dtype, std::span<const uint64_t> shape, std::string_view data, std::string* out);

// Parses a value of `column`, whose type is kNdarray, with or without a shape in the schema. DataLoss when
// the bytes do not fit.
absl::StatusOr<NdarrayView> ParseNdarray(const Column& column, std::string_view value);

}  // namespace shardkit
