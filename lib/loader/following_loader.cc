#include "loader/following_loader.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"

namespace shardkit::loader {

absl::StatusOr<std::unique_ptr<Loader>> FollowingLoader::Open(ReadableFileSystem& file_system,
                                                              std::vector<LoaderDataset> datasets,
                                                              const LoaderOptions& options, OpenFunction open) {
  for (const LoaderDataset& dataset : datasets) {
    if (dataset.generation == 0) continue;
    return InvalidArgument("loader: follow takes the newest generation of ", dataset.path, ", not generation ",
                           dataset.generation, "; give one of the two");
  }
  std::vector<uint64_t> generations(datasets.size(), 0);
  const bool inside = options.cursor && options.cursor->position > 0;
  if (inside && options.cursor->generations.size() == datasets.size()) generations = options.cursor->generations;
  auto loader =
      std::unique_ptr<FollowingLoader>(new FollowingLoader(file_system, std::move(datasets), options, std::move(open)));
  if (options.cursor && !inside) {
    loader->options_.first_epoch = options.cursor->epoch;
    loader->options_.cursor.reset();
  }
  SHARDKIT_RETURN_IF_ERROR(loader->Start(generations));
  return loader;
}

absl::Status FollowingLoader::Start(const std::vector<uint64_t>& generations) {
  for (size_t i = 0; i < datasets_.size(); ++i) datasets_[i].generation = generations[i];
  SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<Loader> opened, open_(file_system_, datasets_, options_));
  options_.cursor.reset();
  Remember(*opened);
  std::lock_guard lock(mutex_);
  if (cancelled_) opened->Cancel();
  loader_ = std::move(opened);
  return absl::OkStatus();
}

// Between epochs: opens the datasets again when one is newer. One that has an earlier generation was made anew, and
// stays as it was opened.
absl::Status FollowingLoader::Look() {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<uint64_t> generations, NewestGenerations(file_system_, datasets_));
  bool newer = false;
  for (size_t i = 0; i < generations.size(); ++i) {
    const uint64_t opened = plan_->datasets()[i].generation;
    newer |= generations[i] > opened;
    generations[i] = std::max(generations[i], opened);
  }
  if (!newer) return absl::OkStatus();
  LoaderReport report = Report();
  std::shared_ptr<Loader> before;
  {
    std::lock_guard lock(mutex_);
    earlier_ = std::move(report);
    before = std::exchange(loader_, nullptr);
  }
  before.reset();  // its memory and threads, before there are others
  options_.first_epoch = cursor_.epoch;
  return Start(generations);
}

absl::StatusOr<std::shared_ptr<const Batch>> FollowingLoader::Next() {
  if (!failure_.ok()) return failure_;
  std::shared_ptr<Loader> loader = Current();
  auto batch = loader->Next();
  const uint64_t epoch = cursor_.epoch;
  Remember(*loader);
  if (!batch.ok() || *batch == nullptr || cursor_.epoch == epoch) return batch;
  loader.reset();  // so that looking can end it
  if (options_.epochs == 0 || cursor_.epoch < options_.epochs) {
    failure_ = Guarded("loader: opening the datasets again", [this] { return Look(); });
  }
  return batch;
}

bool FollowingLoader::WaitFor(std::chrono::steady_clock::duration timeout) {
  return !failure_.ok() || Current()->WaitFor(timeout);
}

void FollowingLoader::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (loader_ != nullptr) loader_->Cancel();
}

LoaderReport FollowingLoader::Report() const {
  std::shared_ptr<Loader> loader;
  LoaderReport earlier;
  {
    std::lock_guard lock(mutex_);
    loader = loader_;
    earlier = earlier_;
  }
  return loader != nullptr ? Total(earlier, loader->Report()) : earlier;
}

std::string FollowingLoader::Trace() const {
  const auto loader = Current();
  return loader != nullptr ? loader->Trace() : std::string();
}

void FollowingLoader::AddTraceEvent(const char* name, std::string_view lane,
                                    std::chrono::steady_clock::time_point begin,
                                    std::chrono::steady_clock::time_point end, uint64_t number) {
  if (const auto loader = Current()) loader->AddTraceEvent(name, lane, begin, end, number);
}

std::string FollowingLoader::fallback_reason() const {
  const auto loader = Current();
  return loader != nullptr ? loader->fallback_reason() : std::string();
}

void FollowingLoader::Remember(const Loader& loader) {
  cursor_ = loader.cursor();
  steps_left_ = loader.steps_left();
  plan_ = loader.plan().shared_from_this();
}

std::shared_ptr<Loader> FollowingLoader::Current() const {
  std::lock_guard lock(mutex_);
  return loader_;
}

}  // namespace shardkit::loader
