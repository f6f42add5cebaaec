// Finding samples: by a condition, piece by piece, and by key.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/select.h"
#include "view/rows.h"

namespace shardctl {

// Keeps what the last condition needs between the pieces of a search. Thread-safe.
class Finder {
 public:
  // Looks at samples from `from` on, for about 300 ms or until 200 match: {matches, next, scanned, samples}. `next` is
  // null when all have been seen. InvalidArgument, with the place in the text, for what is no condition.
  absl::StatusOr<Json> Find(const ViewedDataset& dataset, const std::string& where, uint64_t from,
                            const RowOptions& options, WorkspacePool& pool);

  // {ordinal}: of the first sample with this key, or null.
  static absl::StatusOr<Json> FindKey(const Snapshot& snapshot, std::string_view key, WorkspacePool& pool);

 private:
  struct Search;
  absl::StatusOr<std::shared_ptr<const Search>> Begin(const ViewedDataset& dataset, const std::string& where);

  std::mutex mutex_;
  std::shared_ptr<const Search> last_;
};

}  // namespace shardctl
