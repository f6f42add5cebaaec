#include "dataset/repair/repair_salvage.h"

#include <algorithm>
#include <string>

#include "base/errors.h"
#include "base/status_macros.h"
#include "container/block_builder.h"
#include "container/encoding_plan.h"
#include "container/record_reader.h"

namespace shardkit::dataset {
namespace {

// Larger blocks are not taken apart: by the rule that closes blocks, a single value makes such a block so large.
constexpr uint64_t kLargestBlock = uint64_t{256} << 20;

absl::StatusOr<container::EncodingPlan> PlanOf(const container::NativeShardReader& shard) {
  SHARDKIT_ASSIGN_OR_RETURN(container::EncodingPlan plan, container::MakeEncodingPlan(shard.schema(), {}));
  for (const format::Dictionary& dictionary : shard.header().dictionaries) {
    auto loaded = codec::ZstdDictionary::Create(dictionary.bytes, plan.zstd_levels[dictionary.column]);
    // Without a dictionary that cannot be loaded, the samples are only larger.
    if (loaded.ok()) plan.dictionaries[dictionary.column] = *std::move(loaded);
  }
  return plan;
}

}  // namespace

absl::StatusOr<SalvagedBlock> SalvageBlock(const container::NativeShardReader& shard, size_t index,
                                           const Cancellation* cancellation) {
  const BlockInfo& info = shard.blocks()[index];
  if (info.length > kLargestBlock) return DataLoss("the block is too large to be taken apart");
  for (const Column& column : shard.schema().columns()) {
    if (!IsKnownCodec(column.codec)) return DataLoss("a column of an unknown codec cannot be taken apart");
  }
  BlockBuffer heads, records;
  std::vector<BlockBuffer> pages(shard.schema().size());  // one per column, since each keeps the page read last
  BlockView view;
  SHARDKIT_RETURN_IF_ERROR(shard.ReadHeads(index, &heads, &view));
  const format::BlockHeader header = heads.state().header;
  SHARDKIT_ASSIGN_OR_RETURN(const container::EncodingPlan plan, PlanOf(shard));
  container::BlockBuilder builder(plan.schema, UINT64_MAX, info.sample_count);
  SalvagedBlock salvaged;
  std::vector<std::optional<Value>> values(plan.schema.size());
  std::vector<std::string> single_values(plan.schema.size());
  for (uint32_t i = 0; i < info.sample_count; ++i) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("taking a damaged block apart"));
    bool whole = true;
    for (size_t column = 0; column < values.size(); ++column) {
      values[column].reset();
      if (!view.column(column).present(i)) continue;
      if (!plan.schema[column].has_values_chunk()) {
        values[column] = Value(view.column(column).bytes(i));
        continue;
      }
      const auto read = [&]() -> absl::StatusOr<std::optional<std::string_view>> {
        if (plan.schema[column].is_paged()) return shard.ReadValue(info.first_sample + i, column, &pages[column]);
        const uint64_t base = info.offset + header.columns[column].values_offset;
        const uint64_t begin = i == 0 ? 0 : view.column(column).end(i - 1);
        return container::ReadRecordAt(shard.file(), shard.options(), base + begin, base + view.column(column).end(i),
                                       &records);
      };
      const absl::StatusOr<std::optional<std::string_view>> value = read();
      if (!value.ok() && !absl::IsDataLoss(value.status())) return value.status();
      if (!value.ok()) {
        whole = false;
        if (std::ranges::find(salvaged.damaged_columns, column) == salvaged.damaged_columns.end()) {
          salvaged.damaged_columns.push_back(column);
        }
        continue;
      }
      single_values[column] = **value;
      values[column] = Value(single_values[column]);
    }
    if (whole && builder.Check(values).ok()) {
      builder.Add(values);
    } else if (!salvaged.lost.empty() && salvaged.lost.back().second == i) {
      ++salvaged.lost.back().second;
    } else {
      salvaged.lost.emplace_back(i, i + 1);
    }
  }
  std::ranges::sort(salvaged.damaged_columns);
  if (builder.empty()) return salvaged;
  SHARDKIT_ASSIGN_OR_RETURN(salvaged.block, container::BlockEncoder().Encode(plan, builder.Take()));
  return salvaged;
}

}  // namespace shardkit::dataset
