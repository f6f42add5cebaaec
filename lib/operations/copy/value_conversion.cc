#include "operations/copy/value_conversion.h"

#include "base/json.h"

#include <cstring>
#include <string>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "operations/npy.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit::operations {
namespace {

// A single number is an array without dimensions.
absl::StatusOr<NdarrayView> Parse(const Column& column, std::string_view value) {
  if (column.type == Type::kNdarray) return ParseNdarray(column, value);
  if (value.size() != ScalarSize(column.type)) {
    return DataLoss("a value of ", value.size(), " bytes that should be of type ", TypeName(column.type));
  }
  return NdarrayView{column.type, {}, value};
}

// The bytes of an array in the form that values of `column` have.
absl::StatusOr<std::string_view> Store(const Column& column, const NdarrayView& array, ByteArena* arena) {
  if (column.type != Type::kNdarray) {
    if (!array.shape.empty()) return DataLoss("an array where a single number should be");
    return arena->Copy(array.data);
  }
  if (column.shape) {
    if (array.shape != *column.shape) return DataLoss("an array of another shape than the column's");
    return arena->Copy(array.data);
  }
  std::string out;
  SHARDKIT_RETURN_IF_ERROR(AppendNdarray(array.dtype, array.shape, array.data, &out));
  return arena->Copy(out);
}

absl::StatusOr<std::string_view> Widen(const Column& column, std::string_view value, ByteArena* arena) {
  SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, Parse(column, value));
  std::string elements(2 * array.data.size(), '\0');
  for (size_t i = 0; i < array.data.size(); i += 2) {
    // The upper half of an f32 is a bf16.
    std::memcpy(elements.data() + 2 * i + 2, array.data.data() + i, 2);
  }
  return Store(ColumnAfter(column, ValueConversion::kBf16ToF32), {Type::kF32, array.shape, elements}, arena);
}

}  // namespace

Column ColumnAfter(const Column& column, ValueConversion conversion) {
  Column out = column;
  const auto replace = [&](Type type) {
    (out.type == Type::kNdarray ? out.dtype : out.type) = type;
    out.storage = Storage::kDerived;
    out.value_size = 0;
  };
  const auto bytes = [&](Type type) {
    out = {};
    out.name = column.name;
    out.nullable = column.nullable;
    out.type = type;
  };
  if (conversion == ValueConversion::kBf16ToF32) replace(Type::kF32);
  if (conversion == ValueConversion::kBoolToU8) replace(Type::kU8);
  if (conversion == ValueConversion::kToNpy) bytes(Type::kBytes);
  if (conversion == ValueConversion::kToCocoJson) bytes(Type::kJson);
  return out;
}

absl::StatusOr<std::string_view> ConvertValue(const Column& column, ValueConversion conversion, std::string_view value,
                                              ByteArena* arena) {
  switch (conversion) {
    case ValueConversion::kToNpy: {
      SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, Parse(column, value));
      std::string file;
      SHARDKIT_RETURN_IF_ERROR(FormatNpy(array, &file));
      return arena->Copy(file);
    }
    case ValueConversion::kFromNpy: {
      SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array,
                                ParseNpy(column.type == Type::kNdarray ? column.dtype : column.type, value));
      return Store(column, array, arena);
    }
    case ValueConversion::kToCocoJson: {
      RleList masks;
      SHARDKIT_RETURN_IF_ERROR(ParseRleValue(value, &masks));
      JsonValue list = JsonValue::Array();
      for (size_t i = 0; i < masks.size(); ++i) {
        std::string counts;
        AppendCocoText(masks[i].runs, &counts);
        JsonValue size = JsonValue::Array();
        size.Add(masks[i].height).Add(masks[i].width);
        JsonValue mask = JsonValue::Object();
        mask.Set("counts", counts).Set("size", std::move(size));
        list.Add(std::move(mask));
      }
      return arena->Copy(list.Format());
    }
    case ValueConversion::kBf16ToF32:
      return Widen(column, value, arena);
    case ValueConversion::kBoolToU8:
    case ValueConversion::kNone:
      break;
  }
  return value;
}

}  // namespace shardkit::operations
