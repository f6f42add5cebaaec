#include "plan_scores.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "dataset_access.h"
#include "shardkit/plan.h"

namespace shardctl {
namespace {

constexpr uint64_t kMostScored = 4'000'000;
constexpr uint64_t kAbsent = 0x6162'7365'6e74;  // stands for an absent value

absl::StatusOr<std::unique_ptr<shardkit::DatasetReader>> OpenLabels(const shardkit::LoaderDataset& from,
                                                                    const std::string& label, bool verify_hashes) {
  const auto dataset = OpenDataset(from.path, {}, {}, from.generation);
  if (!dataset.ok()) return dataset.status();
  if (const absl::StatusOr<size_t> column = (*dataset)->FindColumn(label); !column.ok()) {
    return column.status();
  }
  return OpenDataset(from.path, {{.verify_listed_hashes = verify_hashes}}, {label}, from.generation);
}

// Hashes of the samples' labels, in the order of `ordinals`. Ordinals count through all datasets.
absl::StatusOr<std::vector<uint64_t>> ReadLabels(std::span<const shardkit::LoaderDataset> datasets,
                                                 const std::string& label, const std::vector<uint64_t>& ordinals,
                                                 bool verify_hashes) {
  std::vector<size_t> by_ordinal(ordinals.size());
  std::iota(by_ordinal.begin(), by_ordinal.end(), size_t{0});
  std::ranges::sort(by_ordinal, {}, [&](size_t i) { return ordinals[i]; });
  std::vector<uint64_t> labels(ordinals.size());
  auto next = by_ordinal.begin();
  uint64_t first = 0;  // the ordinal of the dataset's first sample
  for (const shardkit::LoaderDataset& from : datasets) {
    const auto dataset = OpenLabels(from, label, verify_hashes);
    if (!dataset.ok()) return dataset.status();
    const auto scanner = (*dataset)->Scan({.threads = std::max(2, ReadingThreads({&from.path, 1}))});
    if (!scanner.ok()) return scanner.status();
    while (next != by_ordinal.end()) {
      const auto block = (*scanner)->Next();
      if (!block.ok()) return block.status();
      if (*block == nullptr) break;
      const uint64_t begin = first + (*block)->first_sample();
      const shardkit::BlockView& view = (*block)->view();
      for (; next != by_ordinal.end() && ordinals[*next] < begin + view.sample_count(); ++next) {
        const auto value = view.column(0).value(static_cast<uint32_t>(ordinals[*next] - begin));
        labels[*next] = value.has_value() ? XXH3_64bits(value->data(), value->size()) : kAbsent;
      }
    }
    first += (*dataset)->sample_count();
  }
  return labels;
}

uint64_t Mean(uint64_t bytes, uint64_t samples) { return samples == 0 ? 1 : std::max<uint64_t>(1, bytes / samples); }

}  // namespace

absl::StatusOr<PlanScores> ScorePlan(const shardkit::Plan& plan, uint64_t epoch,
                                     std::span<const shardkit::LoaderDataset> datasets,
                                     const std::optional<std::string>& label, bool verify_hashes) {
  std::vector<uint64_t> shard_sizes;
  for (const shardkit::LoaderDataset& from : datasets) {
    const auto dataset = OpenDataset(from.path, {}, {}, from.generation);
    if (!dataset.ok()) return dataset.status();
    const absl::Status listed = (*dataset)->ForEachShard([&](const shardkit::ManifestShard& shard) {
      shard_sizes.push_back(shard.samples);
      return absl::OkStatus();
    });
    if (!listed.ok()) return listed;
  }
  const uint64_t samples = std::accumulate(shard_sizes.begin(), shard_sizes.end(), uint64_t{0});
  uint64_t bytes = 0;
  for (const shardkit::PlanDataset& dataset : plan.datasets()) bytes += dataset.bytes();
  const shardkit::PlanOptions& options = plan.options();
  const absl::StatusOr<std::vector<uint64_t>> ordinals = shardkit::Ordinals(plan, epoch, kMostScored);
  if (!ordinals.ok()) return ordinals.status();
  const std::vector<uint64_t>& order = *ordinals;
  const std::vector<uint64_t> reservoir = shardkit::ReservoirOrder(
      shard_sizes, options.shuffle_buffer_bytes / Mean(bytes, samples), options.seed + epoch, kMostScored);

  PlanScores scores;
  scores.samples = order.size();
  scores.shuffle = shardkit::NeighbourDistance(order, samples) / shardkit::PerfectNeighbourDistance(plan, epoch);
  scores.webdataset = shardkit::NeighbourDistance(reservoir, samples);
  if (!label.has_value()) return scores;
  std::vector<uint64_t> both = order;
  both.insert(both.end(), reservoir.begin(), reservoir.end());
  const absl::StatusOr<std::vector<uint64_t>> labels = ReadLabels(datasets, *label, both, verify_hashes);
  if (!labels.ok()) return labels.status();
  const std::span<const uint64_t> all(*labels);
  scores.clumping = shardkit::LabelClumping(all.first(order.size()));
  scores.webdataset_clumping = shardkit::LabelClumping(all.subspan(order.size()));
  return scores;
}

}  // namespace shardctl
