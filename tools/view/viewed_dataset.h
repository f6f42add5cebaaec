// A dataset that is being looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/job.h"

namespace shardctl {

// What is known of the dataset at some time.
struct Snapshot {
  std::shared_ptr<shardkit::ReadableFileSystem> file_system;  // of `reader`, where it is not the dataset's
  std::shared_ptr<const shardkit::DatasetReader> reader;      // null: no sample has been found, so far
  uint64_t samples = 0;                                       // that may be shown
  bool complete = false;                                      // all that there are
  absl::Status problem;                                       // why there are no more; OK where all is well
};

// Opens at once what has an index. Of tars without one, a thread finds the samples, more and more of them, while the
// first are shown. Thread-safe. Must outlive its snapshots' use.
class ViewedDataset {
 public:
  // The errors of DatasetReader::Open, for all but tars without an index. `generation`: as in DatasetOptions.
  // `file_system` must outlive the dataset.
  static absl::StatusOr<std::unique_ptr<ViewedDataset>> Open(shardkit::ReadableFileSystem& file_system,
                                                             const std::string& path, uint64_t generation = 0);
  ~ViewedDataset();

  shardkit::ReadableFileSystem& file_system() const { return file_system_; }
  const std::string& path() const { return path_; }
  uint64_t generation() const { return generation_; }

  // Samples keep their ordinals from one to the next.
  std::shared_ptr<const Snapshot> current() const;

  // The last part of the path.
  std::string name() const { return NameOf(path_); }
  static std::string NameOf(std::string_view path);

  // Another reader of what is there now, for some columns (shardkit::DatasetOptions::columns).
  absl::StatusOr<std::shared_ptr<const Snapshot>> Reopen(const std::vector<std::string>& columns) const;

 private:
  ViewedDataset(shardkit::ReadableFileSystem& file_system, std::string path, uint64_t generation)
      : file_system_(file_system), path_(std::move(path)), generation_(generation) {}
  void Find();
  absl::StatusOr<std::shared_ptr<const Snapshot>> OpenPart(uint64_t bytes,
                                                           const std::vector<std::string>& columns) const;

  shardkit::ReadableFileSystem& file_system_;
  const std::string path_;
  const uint64_t generation_;
  std::unique_ptr<shardkit::ReadableFileSystem> recent_;  // of what is far away
  bool looks_ = false;                                    // for samples, on thread_
  shardkit::Cancellation cancellation_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_;
  uint64_t part_ = UINT64_MAX;  // bytes of each tar that snapshot_ knows
  std::thread thread_;
};

}  // namespace shardctl
