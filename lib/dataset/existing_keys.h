// The keys that a dataset has, while samples are appended to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"

namespace shardkit::dataset {

// One thread at a time. Holds what a reader of the dataset holds, however many keys there are.
class ExistingKeyCheck {
 public:
  // Null where there is nothing to look for: the dataset has no keys, or samples are added whatever their keys are. The
  // file system must outlive the check.
  static absl::StatusOr<std::unique_ptr<ExistingKeyCheck>> Open(FileSystem& file_system, const std::string& directory,
                                                                ExistingKeys action);

  // Whether a sample with this key is to be left out: the dataset has the key, or, where it refuses, had one before, so
  // that nothing more is stored for naught.
  absl::StatusOr<bool> LeavesOut(std::string_view key);

  // Samples whose key the dataset has.
  uint64_t count() const { return count_; }

  // AlreadyExists where there were such samples and the append is to be refused.
  absl::Status Verdict() const;

 private:
  ExistingKeyCheck(std::unique_ptr<DatasetReader> dataset, ExistingKeys action)
      : dataset_(std::move(dataset)), action_(action) {}

  const std::unique_ptr<DatasetReader> dataset_;
  const ExistingKeys action_;
  BlockBuffer buffer_;
  uint64_t count_ = 0;
  std::vector<std::string> first_;  // of the keys
};

}  // namespace shardkit::dataset
