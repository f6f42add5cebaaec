// What the values of each column are like.
#pragma once

#include <memory>
#include <mutex>
#include <thread>

#include "shardctl/json.h"
#include "shardkit/job.h"
#include "view/viewed_dataset.h"

namespace shardctl {

// Computes, on a thread of its own that the first call starts, the statistics of a dataset: counts and lengths from
// those that shards have, numbers and texts from blocks that are drawn at random. Thread-safe.
class StatisticsJob {
 public:
  StatisticsJob() = default;
  ~StatisticsJob();

  // As far as it is; {state, source, columns, …}. Of a dataset that grows, the statistics are those of what was known
  // when they were asked for first; once it is complete, they are made again.
  Json Get(const ViewedDataset& dataset);

 private:
  void Run(const ViewedDataset& dataset, std::shared_ptr<const Snapshot> snapshot);
  void SetProgress(double progress);

  shardkit::Cancellation cancellation_;
  std::mutex mutex_;
  std::shared_ptr<const Snapshot> of_;
  Json result_;
  std::thread thread_;
};

// The same at once, for a report.
Json ReadStatistics(const ViewedDataset& dataset, const Snapshot& snapshot, const shardkit::Cancellation& cancellation,
                    const std::function<void(double)>& progress);

}  // namespace shardctl
