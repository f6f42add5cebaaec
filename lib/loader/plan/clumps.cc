#include "loader/plan/clumps.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "shardkit/shard.h"

namespace shardkit::loader {
namespace {

constexpr uint64_t kFewestBlocks = 4;

bool IsInteger(const Column& column) {
  const RangeKind kind = column.has_known_type() ? RangeKindOf(column.type) : RangeKind::kNone;
  return kind == RangeKind::kI64 || kind == RangeKind::kU64;
}

}  // namespace

void Clumps::Add(size_t column, bool all_equal, uint64_t one) {
  ++columns_[column].blocks;
  if (!all_equal) return;
  ++columns_[column].of_one_value;
  ++columns_[column].values[one];
}

std::vector<size_t> Clumps::Found() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    uint64_t most = 0;
    for (const auto& [value, blocks] : column.values) most = std::max(most, blocks);
    if (column.blocks < kFewestBlocks || 2 * column.of_one_value <= column.blocks) continue;
    if (4 * most <= 3 * column.of_one_value) found.push_back(i);
  }
  return found;
}

std::vector<BlockValues> ValuesOf(const BlockView& view, const std::vector<Column>& columns) {
  std::vector<BlockValues> values;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!IsInteger(columns[i])) continue;
    BlockValues found{.column = i, .all_equal = true, .one = 0};
    std::optional<std::string_view> first;
    uint32_t present = 0;
    for (uint32_t sample = 0; sample < view.sample_count() && (found.all_equal || present < Clumps::kFewestValues);
         ++sample) {
      const auto value = view.column(i).value(sample);
      if (!value) continue;
      ++present;
      if (!first) first = value;
      found.all_equal = found.all_equal && *value == *first;
    }
    if (present < Clumps::kFewestValues) continue;
    for (const char byte : *first) found.one = found.one << 8 | static_cast<uint8_t>(byte);
    values.push_back(found);
  }
  return values;
}

}  // namespace shardkit::loader
