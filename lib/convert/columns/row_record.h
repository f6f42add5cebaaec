// A row as the bytes of one record, for sorting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/endian.h"

namespace shardkit::convert {

using RowValue = std::optional<std::string_view>;

// Appends the row: of each value its length plus one in 8 bytes, 0 for an absent one, and its bytes.
inline void AppendRow(std::span<const RowValue> row, std::string* out) {
  for (const RowValue& value : row) {
    AppendLittle(*out, value ? uint64_t{value->size()} + 1 : uint64_t{0});
    if (value) out->append(*value);
  }
}

// The row in `bytes`, which AppendRow has made; the values point into them.
inline void ParseRow(std::string_view bytes, std::span<RowValue> row) {
  for (RowValue& value : row) {
    const auto length = LoadLittle<uint64_t>(bytes.data());
    bytes.remove_prefix(8);
    value.reset();
    if (length == 0) continue;
    value = bytes.substr(0, length - 1);
    bytes.remove_prefix(length - 1);
  }
}

}  // namespace shardkit::convert
