#include "dataset/read/selected_rows.h"

#include <cstring>

#include "base/checked.h"

namespace shardkit::dataset {
namespace {

uint64_t Words(uint64_t bytes) { return RoundUp(bytes, 8) / 8; }

}  // namespace

uint64_t WordsToSelect(const ColumnView& column, std::span<const uint32_t> rows) {
  const auto count = static_cast<uint32_t>(rows.size());
  if (!column.loaded()) return 0;
  const uint64_t presence = column.may_be_absent() ? Words(RoundUp(count, 8) / 8) : 0;
  if (!column.fixed()) return presence + 2 * uint64_t{count};
  return presence + Words(count * column.fixed_size());
}

ColumnView SelectRows(const ColumnView& column, std::span<const uint32_t> rows, uint64_t** memory) {
  const auto count = static_cast<uint32_t>(rows.size());
  if (!column.loaded()) return ColumnView::Missing(count);
  const char* presence = nullptr;
  if (column.may_be_absent()) {
    const uint64_t words = Words(RoundUp(count, 8) / 8);
    auto* const bits = reinterpret_cast<uint8_t*>(*memory);
    std::memset(bits, 0, 8 * words);
    for (uint32_t i = 0; i < count; ++i) {
      if (column.present(rows[i])) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (1u << (i % 8)));
    }
    presence = reinterpret_cast<const char*>(bits);
    *memory += words;
  }
  if (!column.fixed()) {
    uint64_t* const begins = *memory;
    uint64_t* const ends = begins + count;
    for (uint32_t i = 0; i < count; ++i) {
      begins[i] = column.begin(rows[i]);
      ends[i] = column.end(rows[i]);
    }
    *memory += 2 * uint64_t{count};
    return column.At(count, presence, reinterpret_cast<const char*>(begins), reinterpret_cast<const char*>(ends));
  }
  const uint64_t size = column.fixed_size();
  char* const values = reinterpret_cast<char*>(*memory);
  for (uint32_t i = 0; i < count && size > 0; ++i) {
    std::memcpy(values + i * size, column.bytes(rows[i]).data(), size);
  }
  *memory += Words(count * size);
  return ColumnView(count, presence, nullptr, values, size, 0);
}

}  // namespace shardkit::dataset
