// Converts values to another form when a container cannot store the form they have.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

enum class ValueConversion : uint8_t {
  kNone,
  kToNpy,       // numbers and arrays -> NumPy's files
  kFromNpy,     // the reverse of kToNpy
  kToCocoJson,  // masks -> a JSON list of COCO's objects
  kBf16ToF32,   // numbers and arrays; every bf16 is an f32
  kBoolToU8,    // numbers and arrays; the bytes do not change
};

// The column of the converted values, with the same name. Not for kFromNpy: its result is the column from before
// kToNpy.
Column ColumnAfter(const Column& column, ValueConversion conversion);

// The converted value, borrowed from *arena or from `value`. `column` is the column before the conversion, but for
// kFromNpy the column after it. DataLoss when the value does not fit the column.
absl::StatusOr<std::string_view> ConvertValue(const Column& column, ValueConversion conversion, std::string_view value,
                                              ByteArena* arena);

}  // namespace shardkit::operations
