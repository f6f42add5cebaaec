#include "view/viewed_dataset.h"

#include <utility>

#include "shardctl/dataset_access.h"
#include "shardkit/manifest.h"
#include "shardkit/tar_index.h"
#include "view/prefix_filesystem.h"
#include "view/recent_reads.h"

namespace shardctl {
namespace {

constexpr uint64_t kWhole = UINT64_MAX;

// The parts of tars that are looked at before the whole. Each takes the time for what was seen before once more, an
// eighth of its own.
constexpr uint64_t kFirstPart = uint64_t{4} << 20;
constexpr uint64_t kGrowth = 8;

// What is kept of a dataset behind a URL.
constexpr uint64_t kRecentBytes = uint64_t{32} << 20;

// Values of more bytes are not shown, only stored.
constexpr uint64_t kMostBlockMemory = uint64_t{128} << 20;

// Whether finding the samples takes reading all of the tars.
bool IsWithoutIndex(shardkit::ReadableFileSystem& file_system, const std::string& path) {
  const auto info = file_system.Stat(path);
  if (!info.ok()) return false;
  if (info->type != shardkit::FileType::kDirectory) {
    return shardkit::IsTarPath(path) && !file_system.Stat(path + std::string(shardkit::kTarIndexSuffix)).ok();
  }
  if (file_system.Stat(shardkit::JoinPath(path, shardkit::kManifestName)).ok()) return false;
  const auto tars = shardkit::ListTars(file_system, path);
  return tars.ok() && !tars->empty() && !file_system.Stat(tars->front() + std::string(shardkit::kTarIndexSuffix)).ok();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ViewedDataset>> ViewedDataset::Open(shardkit::ReadableFileSystem& file_system,
                                                                   const std::string& path, uint64_t generation) {
  std::unique_ptr<ViewedDataset> dataset(new ViewedDataset(file_system, path, generation));
  if (shardkit::IsUrl(path)) dataset->recent_ = KeepRecentReads(file_system, kRecentBytes);
  if (IsWithoutIndex(file_system, path)) {
    dataset->snapshot_ = std::make_shared<Snapshot>();
    dataset->part_ = kFirstPart;
    dataset->looks_ = true;
    dataset->thread_ = std::thread([raw = dataset.get()] { raw->Find(); });
    return dataset;
  }
  auto whole = dataset->OpenPart(kWhole, {});
  if (!whole.ok()) return whole.status();
  dataset->snapshot_ = *std::move(whole);
  return dataset;
}

ViewedDataset::~ViewedDataset() {
  cancellation_.Cancel();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Snapshot> ViewedDataset::current() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

std::string ViewedDataset::NameOf(std::string_view path) {
  std::string_view rest = path;
  while (rest.size() > 1 && rest.ends_with('/')) rest.remove_suffix(1);
  const size_t slash = rest.rfind('/');
  if (slash != rest.npos && slash + 1 < rest.size()) rest.remove_prefix(slash + 1);
  return std::string(rest);
}

absl::StatusOr<std::shared_ptr<const Snapshot>> ViewedDataset::OpenPart(uint64_t bytes,
                                                                        const std::vector<std::string>& columns) const {
  auto snapshot = std::make_shared<Snapshot>();
  shardkit::DatasetOptions options;
  options.generation = generation_;
  options.columns = columns;
  options.skip_lost_samples = true;
  options.max_block_memory = kMostBlockMemory;
  // A look at one value must not read the file that it is in.
  options.verify_listed_hashes = false;
  shardkit::ReadableFileSystem* file_system = recent_ != nullptr ? recent_.get() : &file_system_;
  if (looks_) {
    snapshot->file_system = BeginningOfTars(*file_system, bytes, cancellation_);
    file_system = snapshot->file_system.get();
  }
  auto reader = shardkit::DatasetReader::Open(*file_system, path_, options);
  if (!reader.ok()) return reader.status();
  snapshot->reader = *std::move(reader);
  snapshot->samples = snapshot->reader->sample_count();
  snapshot->complete = bytes == kWhole;
  if (!snapshot->complete) {
    // The members of the last sample may go on where this part ends.
    if (snapshot->samples > 0) --snapshot->samples;
  } else if (!snapshot->reader->lost_samples().empty()) {
    snapshot->problem = snapshot->reader->lost_samples().front().status;
  }
  return snapshot;
}

absl::StatusOr<std::shared_ptr<const Snapshot>> ViewedDataset::Reopen(const std::vector<std::string>& columns) const {
  uint64_t part;
  {
    const std::lock_guard lock(mutex_);
    part = part_;
  }
  return OpenPart(part, columns);
}

void ViewedDataset::Find() {
  for (uint64_t bytes = kFirstPart; !cancellation_.cancelled(); bytes *= kGrowth) {
    // No tar of that many bytes is known, and then the whole is next.
    bool whole = bytes > (uint64_t{1} << 42);
    auto part = OpenPart(whole ? kWhole : bytes, {});
    if (!whole && part.ok() && (*part)->reader->summary().bytes < bytes) {
      // The first tar was shorter than that: there is nothing more to see in parts.
      whole = true;
      part = OpenPart(kWhole, {});
    }
    {
      const std::lock_guard lock(mutex_);
      if (part.ok()) {
        snapshot_ = *std::move(part);
        part_ = whole ? kWhole : bytes;
      } else if (whole) {
        // What was found stays.
        auto last = std::make_shared<Snapshot>(*snapshot_);
        last->complete = true;
        last->problem = part.status();
        snapshot_ = std::move(last);
      }
    }
    if (whole) return;
  }
}

}  // namespace shardctl
