#include "view/order.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "shardkit/loader.h"
#include "shardkit/plan.h"

namespace shardctl {
namespace {

constexpr uint64_t kMostOrderRows = 500;
constexpr uint64_t kMostScored = 1'000'000;
constexpr uint64_t kPoints = 4096;
constexpr uint64_t kMostRanks = 65536;

absl::StatusOr<uint64_t> Epoch(const Request& request) { return request.Count("epoch", 0, 0, UINT64_MAX - 1); }

}  // namespace

absl::StatusOr<std::shared_ptr<const shardkit::Plan>> OrderView::PlanOf(const ViewedDataset& dataset,
                                                                        const Request& request) {
  shardkit::PlanOptions options;
  const auto seed = request.Count("seed", 0, 0, UINT64_MAX);
  if (!seed.ok()) return seed.status();
  const auto batch = request.Count("batch_size", 32, 1, uint64_t{1} << 30);
  if (!batch.ok()) return batch.status();
  const std::string_view order = request.Text("order");
  if (!order.empty() && order != "shuffled" && order != "sequential") {
    return absl::InvalidArgumentError("order: is shuffled or sequential");
  }
  options.seed = *seed;
  options.batch_size = *batch;
  if (order == "sequential") options.order = shardkit::SampleOrder::kSequential;
  const std::string text = std::to_string(*seed) + " " + std::to_string(*batch) + " " + std::string(order);
  const std::lock_guard lock(mutex_);
  if (plan_ != nullptr && text == last_) return plan_;
  const shardkit::LoaderDataset source{.path = dataset.path(), .generation = dataset.generation()};
  auto plan = shardkit::PlanDatasets(dataset.file_system(), {&source, 1}, options);
  if (!plan.ok()) return plan.status();
  last_ = text;
  return plan_ = *std::move(plan);
}

absl::StatusOr<Json> OrderView::Step(const ViewedDataset& dataset, const Snapshot& snapshot, const Request& request,
                                     WorkspacePool& pool) {
  const auto plan = PlanOf(dataset, request);
  if (!plan.ok()) return plan.status();
  const auto epoch = Epoch(request);
  if (!epoch.ok()) return epoch.status();
  const auto world_size = request.Count("world_size", 1, 1, kMostRanks);
  if (!world_size.ok()) return world_size.status();
  const auto rank = request.Count("rank", 0, 0, *world_size - 1);
  if (!rank.ok()) return rank.status();
  const uint64_t steps = (*plan)->StepsFrom(0);
  const auto number = request.Count("step", 0, 0, std::max<uint64_t>(steps, 1) - 1);
  if (!number.ok()) return number.status();
  const shardkit::Step step = (*plan)->StepAt(0, *number);
  auto order = (*plan)->Epoch(*epoch)->Covering(step);
  if (!order.ok()) return order.status();
  const std::vector<uint64_t> positions = (*order)->RankPositions(step, *rank, *world_size);
  std::vector<uint64_t> ordinals;
  for (size_t i = 0; i < std::min<size_t>(positions.size(), kMostOrderRows); ++i) {
    const uint64_t ordinal = (*order)->At(positions[i] % (*order)->size()).ordinal;
    if (ordinal < snapshot.samples) ordinals.push_back(ordinal);
  }
  auto rows = ReadRows(snapshot, ordinals, RowOptionsOf(request), pool);
  if (!rows.ok()) return rows.status();
  return Json{{"steps", steps},
              {"samples_per_epoch", (*plan)->samples_per_epoch()},
              {"step", *number},
              {"batch", positions.size()},
              {"rows", *std::move(rows)}};
}

absl::StatusOr<Json> OrderView::Shuffle(const ViewedDataset& dataset, const Request& request) {
  const auto plan = PlanOf(dataset, request);
  if (!plan.ok()) return plan.status();
  const auto epoch = Epoch(request);
  if (!epoch.ok()) return epoch.status();
  const auto ordinals = shardkit::Ordinals(**plan, *epoch, kMostScored);
  if (!ordinals.ok()) return ordinals.status();
  const uint64_t samples = (*plan)->samples_per_epoch();
  Json points = Json::array();
  const size_t stride = std::max<size_t>(1, (ordinals->size() + kPoints - 1) / kPoints);
  for (size_t i = 0; i < ordinals->size(); i += stride) points.push_back({i, (*ordinals)[i]});
  const double perfect = shardkit::PerfectNeighbourDistance(**plan, *epoch);
  return Json{{"positions", ordinals->size()},
              {"samples", samples},
              {"points", std::move(points)},
              {"score", JsonNumber(shardkit::NeighbourDistance(*ordinals, samples) / perfect)},
              {"perfect", 1.0},
              {"buffer_bytes", (*plan)->options().shuffle_buffer_bytes}};
}

}  // namespace shardctl
