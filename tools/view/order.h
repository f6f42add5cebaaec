// What a loader would deliver.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/plan.h"
#include "view/rows.h"

namespace shardctl {

// Keeps the last plan. Thread-safe.
class OrderView {
 public:
  // The samples of a step, of the parameters seed, epoch, world_size, rank, batch_size, step and order.
  absl::StatusOr<Json> Step(const ViewedDataset& dataset, const Snapshot& snapshot, const Request& request,
                            WorkspacePool& pool);

  // Where the samples of an epoch come from, and how well they are mixed.
  absl::StatusOr<Json> Shuffle(const ViewedDataset& dataset, const Request& request);

 private:
  absl::StatusOr<std::shared_ptr<const shardkit::Plan>> PlanOf(const ViewedDataset& dataset, const Request& request);

  std::mutex mutex_;
  std::string last_;  // what plan_ was made of
  std::shared_ptr<const shardkit::Plan> plan_;
};

}  // namespace shardctl
