// What the page of `shardctl view` asks its server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "view/find.h"
#include "view/http.h"
#include "view/order.h"
#include "view/statistics.h"
#include "view/viewed_dataset.h"
#include "view/workspace.h"

namespace shardctl {

// A dataset of the command line.
struct Entry {
  std::string path;
  absl::Status status;                     // of opening it
  std::unique_ptr<ViewedDataset> dataset;  // null where that failed
};

// Answers requests; reads nothing but these datasets and the page. Thread-safe. docs/view.md lists the paths.
class ViewApi {
 public:
  explicit ViewApi(std::vector<Entry> entries);

  Reply Answer(const Request& request);

 private:
  // What is known besides of a dataset.
  struct Work {
    Finder finder;
    OrderView order;
    StatisticsJob statistics;
  };

  absl::StatusOr<Reply> AnswerOf(size_t dataset, std::string_view what, const Request& request);
  absl::StatusOr<Reply> AnswerSample(const ViewedDataset& dataset, std::string_view what, uint64_t ordinal,
                                     const Request& request);
  Reply ListDatasets() const;

  const std::vector<Entry> entries_;
  WorkspacePool pool_;
  std::vector<std::unique_ptr<Work>> work_;
};

}  // namespace shardctl
