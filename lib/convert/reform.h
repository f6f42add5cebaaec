// Values in another form, where a container has no place for the one they have.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit {

enum class Reform : uint8_t {
  kNone,
  kToNpy,       // numbers and arrays -> NumPy's files
  kFromNpy,     // back
  kToCocoJson,  // masks -> a JSON list of COCO's objects
  kBf16ToF32,   // numbers and arrays; every bf16 is an f32
  kBoolToU8,    // numbers and arrays: the bytes as they are
};

// The column that values of `column` belong to afterwards; its name stays. kFromNpy has none: the column before is
// needed.
Column ReformedColumn(const Column& column, Reform reform);

// The value in its new form, borrowed from *arena or from `value`. `column` is the one before, and of kFromNpy the one
// after. DataLoss when the value is not one of the column.
absl::StatusOr<std::string_view> ReformValue(const Column& column, Reform reform, std::string_view value,
                                             ByteArena* arena);

}  // namespace shardkit
