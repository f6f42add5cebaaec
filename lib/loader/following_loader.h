// A loader that opens its datasets again, between epochs, when they have changed (LoaderOptions::follow).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/loader.h"

namespace shardkit::loader {

class FollowingLoader : public Loader {
 public:
  // Opens a loader that does not follow.
  using OpenFunction = std::function<absl::StatusOr<std::unique_ptr<Loader>>(
      ReadableFileSystem& file_system, const std::vector<LoaderDataset>& datasets, const LoaderOptions& options)>;

  static absl::StatusOr<std::unique_ptr<Loader>> Open(ReadableFileSystem& file_system,
                                                      std::vector<LoaderDataset> datasets, const LoaderOptions& options,
                                                      OpenFunction open);

  absl::StatusOr<std::shared_ptr<const Batch>> Next() override;
  bool WaitFor(std::chrono::steady_clock::duration timeout) override;
  void Cancel() override;
  Cursor cursor() const override { return cursor_; }
  const Plan& plan() const override { return *plan_; }
  uint64_t steps_left() const override { return steps_left_; }
  LoaderReport Report() const override;
  std::string Trace() const override;
  void AddTraceEvent(const char* name, std::string_view lane, std::chrono::steady_clock::time_point begin,
                     std::chrono::steady_clock::time_point end, uint64_t number) override;
  std::string fallback_reason() const override;

 private:
  FollowingLoader(ReadableFileSystem& file_system, std::vector<LoaderDataset> datasets, const LoaderOptions& options,
                  OpenFunction open)
      : file_system_(file_system), datasets_(std::move(datasets)), options_(options), open_(std::move(open)) {}

  absl::Status Start(const std::vector<uint64_t>& generations);
  absl::Status Look();
  void Remember(const Loader& loader);
  std::shared_ptr<Loader> Current() const;

  ReadableFileSystem& file_system_;
  std::vector<LoaderDataset> datasets_;
  LoaderOptions options_;
  const OpenFunction open_;

  mutable std::mutex mutex_;
  std::shared_ptr<Loader> loader_;  // null while the datasets are opened again, and after that has failed
  LoaderReport earlier_;            // of the loaders before
  bool cancelled_ = false;

  // Used by the consumer's thread only.
  absl::Status failure_;
  Cursor cursor_;
  std::shared_ptr<const Plan> plan_;
  uint64_t steps_left_ = 0;
};

}  // namespace shardkit::loader
