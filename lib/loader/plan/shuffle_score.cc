#include "shardkit/plan.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "loader/plan/clumps.h"
#include "loader/plan/permutation.h"

namespace shardkit {

double NeighbourDistance(std::span<const uint64_t> order, uint64_t sample_count) {
  if (order.size() < 2 || sample_count < 2) return 1;
  double sum = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    sum += static_cast<double>(std::max(order[i - 1], order[i]) - std::min(order[i - 1], order[i]));
  }
  const double mean = sum / static_cast<double>(order.size() - 1);
  return mean / ((static_cast<double>(sample_count) + 1) / 3);
}

double PerfectNeighbourDistance(const Plan& plan, uint64_t epoch) {
  std::vector<double> centres, sizes;
  double all = 0;
  for (const PlanDataset& dataset : plan.datasets()) {
    sizes.push_back(static_cast<double>(dataset.samples()));
    centres.push_back(all + sizes.back() / 2);
    all += sizes.back();
  }
  const double samples = static_cast<double>(plan.samples_per_epoch());
  const std::vector<uint64_t>& counts = plan.counts(epoch);
  double mean = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t j = 0; j < sizes.size(); ++j) {
      const double share = static_cast<double>(counts[i]) / samples * static_cast<double>(counts[j]) / samples;
      mean += share * (i == j ? sizes[i] / 3 : std::abs(centres[i] - centres[j]));
    }
  }
  return mean / (all / 3);
}

double LabelClumping(std::span<const uint64_t> labels) {
  if (labels.size() < 2) return 1;
  absl::flat_hash_map<uint64_t, uint64_t> counts;
  uint64_t equal = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    ++counts[labels[i]];
    if (i > 0 && labels[i] == labels[i - 1]) ++equal;
  }
  const double n = static_cast<double>(labels.size());
  double expected = 0;  // chance that two different samples have the same label
  for (const auto& [label, count] : counts) {
    expected += static_cast<double>(count) * static_cast<double>(count - 1) / (n * (n - 1));
  }
  return expected == 0 ? 1 : static_cast<double>(equal) / (n - 1) / expected;
}

absl::StatusOr<std::vector<std::string>> ClumpedColumns(const DatasetReader& dataset) {
  constexpr uint64_t kMostShards = 8;
  const std::vector<Column>& columns = dataset.columns();
  loader::Clumps clumps(columns.size());
  const uint64_t shards = std::min(dataset.shard_count(), kMostShards);
  for (uint64_t i = 0; i < shards; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto shard, dataset.OpenShard(i * dataset.shard_count() / shards));
    const absl::StatusOr<BlockRanges> ranges = shard->ReadBlockRanges();
    if (absl::IsNotFound(ranges.status())) continue;
    SHARDKIT_RETURN_IF_ERROR(ranges.status());
    for (size_t column = 0; column < columns.size(); ++column) {
      const std::optional<size_t> stored = shard->schema().Find(columns[column].name);
      for (size_t block = 0; stored && block < shard->blocks().size(); ++block) {
        const BlockRange* const range = ranges->Find(block, *stored);
        if (range == nullptr || range->present_count < loader::Clumps::kFewestValues) continue;
        if (range->range_kind != RangeKind::kI64 && range->range_kind != RangeKind::kU64) continue;
        clumps.Add(column, range->minimum == range->maximum, range->minimum);
      }
    }
  }
  std::vector<std::string> names;
  for (const size_t column : clumps.Found()) names.push_back(columns[column].name);
  return names;
}

absl::StatusOr<std::vector<uint64_t>> Ordinals(const Plan& plan, uint64_t epoch, uint64_t limit) {
  std::vector<uint64_t> first;
  uint64_t next = 0;
  for (const PlanDataset& dataset : plan.datasets()) {
    first.push_back(next);
    next += dataset.samples();
  }
  auto order = plan.Epoch(epoch);
  std::vector<uint64_t> ordinals(std::min(limit, order->size()));
  for (uint64_t i = 0; i < ordinals.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(order, order->Covering({i, i + 1}));
    const PlannedSample sample = order->At(i);
    ordinals[i] = first[sample.dataset] + sample.ordinal;
  }
  return ordinals;
}

std::vector<uint64_t> ReservoirOrder(std::span<const uint64_t> shard_sizes, uint64_t buffer_samples, uint64_t seed,
                                     uint64_t limit) {
  std::vector<uint64_t> first;
  uint64_t all = 0;
  for (const uint64_t size : shard_sizes) {
    first.push_back(all);
    all += size;
  }
  const std::vector<uint32_t> shards = loader::ShuffledIndexes(static_cast<uint32_t>(shard_sizes.size()), seed);
  std::vector<uint64_t> buffer, out;
  limit = std::min(limit, all);
  out.reserve(limit);
  uint64_t drawn = 0;
  const auto leave = [&] {
    std::swap(buffer[loader::RandomBelow(loader::Derive(~seed, drawn++), buffer.size())], buffer.back());
    out.push_back(buffer.back());
    buffer.pop_back();
  };
  for (const uint32_t shard : shards) {
    for (uint64_t i = 0; i < shard_sizes[shard] && out.size() < limit; ++i) {
      buffer.push_back(first[shard] + i);
      if (buffer.size() > buffer_samples) leave();
    }
  }
  while (out.size() < limit) leave();
  return out;
}

}  // namespace shardkit
