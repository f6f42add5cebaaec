// The stored samples that readers do not see (format-spec/dataset.md, section 9.5).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Ordinals count the samples that are seen; stored samples are all. Immutable. Holds 8 bytes for each removed sample.
class RemovedList {
 public:
  RemovedList() = default;

  // `ordinals` are stored samples, ascending, each once.
  explicit RemovedList(std::vector<uint64_t> ordinals) : removed_(std::move(ordinals)) {}

  // Reads the table in the dataset's directory. NotFound when it is missing, DataLoss when it is damaged, is not the
  // one that is named, or names samples that are not below `stored_samples`.
  static absl::StatusOr<RemovedList> Read(ReadableFileSystem& file_system, const std::string& directory,
                                          const RemovedSamples& named, uint64_t stored_samples);

  std::span<const uint64_t> ordinals() const { return removed_; }
  uint64_t size() const { return removed_.size(); }

  bool Has(uint64_t stored) const { return std::ranges::binary_search(removed_, stored); }

  // How many are removed of the stored samples before `stored`.
  uint64_t Before(uint64_t stored) const {
    return static_cast<uint64_t>(std::ranges::lower_bound(removed_, stored) - removed_.begin());
  }

  // Those of [first, end).
  std::span<const uint64_t> Within(uint64_t first, uint64_t end) const {
    return ordinals().subspan(Before(first), Before(end) - Before(first));
  }

  // These, and the seen samples for which `also` is true, which is asked once for each, in their order.
  template <typename Also>
  RemovedList With(const Also& also, uint64_t stored_samples) const {
    std::vector<uint64_t> all;
    uint64_t seen = 0;
    for (uint64_t stored = 0, next = 0; stored < stored_samples; ++stored) {
      const bool was_removed = next < size() && removed_[next] == stored;
      if (was_removed) ++next;
      if (was_removed || also(seen++)) all.push_back(stored);
    }
    return RemovedList(std::move(all));
  }

  // The stored sample that is seen as `ordinal`.
  uint64_t Stored(uint64_t ordinal) const {
    // As many seen samples lie before the i-th removed one as its number less i.
    uint64_t low = 0, high = size();
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (removed_[middle] - middle <= ordinal) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return ordinal + low;
  }

 private:
  std::vector<uint64_t> removed_;
};

// Publishes the table of a list that is not empty as `name` in the directory.
absl::StatusOr<RemovedSamples> WriteRemoved(FileSystem& file_system, const std::string& directory,
                                            const std::string& name, const RemovedList& removed);

}  // namespace shardkit::dataset
