#include "dataset/view/selected_rows.h"

#include <cstring>
#include <string_view>

#include "base/checked.h"

namespace shardkit::dataset {
namespace {

uint64_t Words(uint64_t bytes) { return RoundUp(bytes, 8) / 8; }

}  // namespace

uint64_t WordsToSelect(const ColumnView& column, const SelectedRows& rows) {
  if (!column.loaded()) return 0;
  const uint64_t presence = column.may_be_absent() ? Words(RoundUp(rows.count, 8) / 8) : 0;
  if (!column.fixed()) return presence + 2 * uint64_t{rows.count};
  return presence + (rows.listed.empty() ? 0 : Words(rows.count * column.fixed_size()));
}

ColumnView SelectRows(const ColumnView& column, const SelectedRows& rows, uint64_t** memory) {
  if (!column.loaded()) return ColumnView::Missing(rows.count);
  const char* presence = nullptr;
  if (column.may_be_absent()) {
    const uint64_t words = Words(RoundUp(rows.count, 8) / 8);
    auto* const bits = reinterpret_cast<uint8_t*>(*memory);
    std::memset(bits, 0, 8 * words);
    for (uint32_t i = 0; i < rows.count; ++i) {
      if (column.present(rows[i])) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (1u << (i % 8)));
    }
    presence = reinterpret_cast<const char*>(bits);
    *memory += words;
  }
  if (!column.fixed()) {
    uint64_t* const begins = *memory;
    uint64_t* const ends = begins + rows.count;
    for (uint32_t i = 0; i < rows.count; ++i) {
      begins[i] = column.begin(rows[i]);
      ends[i] = column.end(rows[i]);
    }
    *memory += 2 * uint64_t{rows.count};
    return column.At(rows.count, presence, reinterpret_cast<const char*>(begins), reinterpret_cast<const char*>(ends));
  }
  const uint64_t size = column.fixed_size();
  if (rows.listed.empty()) {
    const char* const values = rows.count == 0 ? nullptr : column.bytes(rows.first).data();
    return ColumnView(rows.count, presence, nullptr, values, size, 0);
  }
  char* const values = reinterpret_cast<char*>(*memory);
  for (uint32_t i = 0; i < rows.count && size > 0; ++i) {
    std::memcpy(values + i * size, column.bytes(rows[i]).data(), size);
  }
  *memory += Words(rows.count * size);
  return ColumnView(rows.count, presence, nullptr, values, size, 0);
}

ColumnView CopyColumn(const ColumnView& column, std::vector<uint64_t>* memory) {
  const SelectedRows all{.count = column.size()};
  if (!column.loaded()) return ColumnView::Missing(all.count);
  const uint64_t fixed = column.fixed_size();
  uint64_t bytes = column.fixed() ? fixed * all.count : 0;
  for (uint32_t i = 0; i < all.count && !column.fixed(); ++i) bytes += column.bytes(i).size();
  memory->resize(WordsToSelect(column, all) + Words(bytes));
  uint64_t* next = memory->data();
  const ColumnView selected = SelectRows(column, all, &next);
  char* const values = reinterpret_cast<char*>(next);
  if (column.fixed()) {
    if (bytes > 0) std::memcpy(values, column.bytes(0).data(), bytes);
    return ColumnView(all.count, selected.presence(), nullptr, values, fixed, 0);
  }
  uint64_t* const begins = next - 2 * uint64_t{all.count};
  uint64_t* const ends = begins + all.count;
  uint64_t place = 0;
  for (uint32_t i = 0; i < all.count; ++i) {
    const std::string_view value = column.bytes(i);
    if (!value.empty()) std::memcpy(values + place, value.data(), value.size());
    begins[i] = place;
    ends[i] = place += value.size();
  }
  return ColumnView::Scattered(all.count, selected.presence(), reinterpret_cast<const char*>(begins),
                               reinterpret_cast<const char*>(ends), values);
}

}  // namespace shardkit::dataset
