// Validating datasets of other containers.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "dataset/foreign/foreign_dataset.h"
#include "shardkit/validate.h"

namespace shardkit::dataset {

// Takes a problem of the file at a path.
using ForeignProblemSink = std::function<void(const std::string& path, const absl::Status&)>;

// Reads every value of every shard, and with options.deep decodes it. Also reports what ForeignDataset::FindProblems
// finds. Counts in *report. Damage goes to `sink`, in the order of shards and blocks. Returns an error only when the
// check could not be done.
absl::Status ValidateForeign(const ForeignDataset& dataset, const std::string& path, const ValidateOptions& options,
                             ThreadPool& threads, ValidateReport* report, const ForeignProblemSink& sink);

}  // namespace shardkit::dataset
