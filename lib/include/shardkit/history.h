// What has become of a dataset from generation to generation (format-spec/spec.md, section 9.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Manifests of earlier generations that writers keep.
inline constexpr uint64_t kMostKeptManifests = 64;

// What made a generation of the one before, as the two manifests tell it.
enum class DatasetChange : uint8_t {
  kMade,       // generation 1
  kAppended,   // shards were added
  kColumns,    // columns were added, dropped, renamed or described, and no shard
  kRemoved,    // samples were removed, and no shard
  kCompacted,  // shards were rewritten without removed samples, or with the columns of layers
  kIndexed,    // the same shards: segments were joined, or indexes made anew
  kUnknown,    // the manifest before is not kept
};

// "made", "appended", "columns", "removed", "compacted", "indexed", "unknown".
std::string_view ChangeName(DatasetChange change);

// What a generation did to the columns, by name.
struct ColumnChanges {
  std::vector<std::string> added;
  std::vector<std::string> replaced;  // the same name, other values
  std::vector<std::string> dropped;
  std::vector<std::pair<std::string, std::string>> renamed;  // from and to
  std::vector<std::string> described;                        // other metadata

  bool operator==(const ColumnChanges&) const = default;
};

struct DatasetGeneration {
  uint64_t generation = 1;
  DatasetChange change = DatasetChange::kMade;
  uint64_t samples = 0;  // that readers see of the whole dataset in this generation, as the others
  uint64_t shards = 0;
  uint64_t bytes = 0;
  uint64_t segments = 0;
  size_t columns = 0;          // that readers see
  uint64_t samples_added = 0;  // since the generation before; 0 where that is not kept
  uint64_t shards_added = 0;
  uint64_t samples_removed = 0;  // of kRemoved
  ColumnChanges column_changes;  // of kColumns

  // The files without which it cannot be opened (see DatasetOptions::generation) are there, but for shards, which
  // are removed only together with its manifest.
  bool readable = false;
};

// The generations whose manifests are kept, and the newest, ascending. They follow one another without gaps. Reads
// their manifests. NotFound when `directory` is not a dataset of Shardkit.
absl::StatusOr<std::vector<DatasetGeneration>> ReadHistory(ReadableFileSystem& file_system,
                                                           const std::string& directory);

}  // namespace shardkit
