// A dataset on one page that needs no server: shardctl report.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "shardctl/json.h"
#include "shardkit/job.h"
#include "shardkit/validate.h"
#include "view/viewed_dataset.h"

namespace shardctl {

struct ReportOptions {
  uint64_t samples = 48;                                 // thumbnails, of samples drawn at random
  uint64_t seed = 0;                                     // of the draw
  uint64_t limit = uint64_t{5} << 20;                    // bytes of the page: thumbnails that do not fit are left out
  const shardkit::ValidateReport* validation = nullptr;  // null: it was not asked for
  const shardkit::Cancellation* cancellation = nullptr;  // not null
};

// HTML without scripts and without anything from elsewhere. Names and texts of the dataset are never markup in it.
// The dataset is complete. Cancelled when asked for it.
absl::StatusOr<std::string> MakeReport(const ViewedDataset& dataset, const Snapshot& snapshot,
                                       const ReportOptions& options);

// The text between tags and in quoted attributes: markup, control characters and what is not UTF-8 are replaced.
std::string HtmlText(std::string_view text);

}  // namespace shardctl
