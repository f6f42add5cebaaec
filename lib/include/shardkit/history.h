// Generation history of a dataset, and differences between two datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"

namespace shardkit {

// Generation history (format-spec/dataset.md, section 9.3).

// The number of manifests of earlier generations that writers keep.
inline constexpr uint64_t kMostKeptManifests = 64;

struct DatasetGeneration {
  uint64_t generation = 1;
  DatasetOperation operation;  // what made this generation from the one before
  uint64_t samples = 0;        // of the whole dataset, visible to readers; likewise below
  uint64_t shards = 0;
  uint64_t bytes = 0;
  uint64_t segments = 0;
  size_t columns = 0;  // visible to readers

  // Whether the generation can be opened (DatasetOptions::generation): the required files exist, and the bases are
  // allowed. Shards are not checked: the dataset's own shards are only removed together with the manifest.
  bool readable = false;
};

// The generations whose manifests are kept, and the newest, ascending and without gaps. Reads their manifests. NotFound
// if `directory` is not a dataset of Shardkit.
absl::StatusOr<std::vector<DatasetGeneration>> ReadHistory(ReadableFileSystem& file_system,
                                                           const std::string& directory);

// Differences between the samples of two datasets.

// Progress counts samples of A. The threads read A ahead.
struct DiffOptions : JobOptions {
  // How A and B are read. `a.columns` and `b.columns` are ignored: see `columns`. To find what changed since an earlier
  // generation of a dataset, read that generation as A and the newest as B.
  DatasetOptions a, b;

  // Names of the columns to compare; empty means all that both datasets have.
  std::vector<std::string> columns;

  size_t max_examples = 10;  // for each difference; the counts are complete

  // Bytes for the keys of B if they are not in the order of A, 40 for each. If they need more, the following samples of
  // A are read several times.
  uint64_t key_memory = uint64_t{256} << 20;
};

struct DiffExample {
  std::string key;            // empty without keys
  std::optional<uint64_t> a;  // ordinals of the sample; empty if the dataset lacks it
  std::optional<uint64_t> b;
};

// The number of differing samples, or values of one column, and the first of them.
struct DiffCount {
  uint64_t count = 0;
  std::vector<DiffExample> examples;
};

struct ColumnDiff {
  std::string name;
  DiffCount values;  // samples whose values differ, or exist in one dataset only
};

struct DatasetDiff {
  bool by_key = false;   // samples are matched by key, otherwise by ordinal
  uint64_t matched = 0;  // samples that both have
  uint64_t unread = 0;   // matched without reading: in shards with the same content hash
  DiffCount only_a;
  DiffCount only_b;
  std::vector<std::string> columns_only_a;
  std::vector<std::string> columns_only_b;
  std::vector<std::string> types;   // common columns whose type, dtype, shape or size differs
  std::vector<ColumnDiff> columns;  // columns with different values, in the order of A

  bool same() const {
    return only_a.count == 0 && only_b.count == 0 && columns_only_a.empty() && columns_only_b.empty() &&
           types.empty() && columns.empty();
  }
};

// Compares the datasets at `a` and `b`, of any container. Samples are matched by key if both datasets have keys, by
// ordinal if neither has. The i-th sample of A with a duplicate key matches the i-th of B; the rest exist in one
// dataset only.
//
// These are no differences: codec and storage of columns, metadata, the order of samples with keys, and types of byte
// strings in tars, which have no types. Shards with the same content hash match each other and are not read (without
// keys only if they begin with the same sample). Memory, beside `key_memory`, does not grow with the number of samples:
// a few blocks of each dataset, and the memory of its reader.
//
// FailedPrecondition if only one of the two has keys. OutOfRange for a name in `columns` that neither has.
absl::StatusOr<DatasetDiff> DiffDatasets(ReadableFileSystem& file_system, const std::string& a, const std::string& b,
                                         const DiffOptions& options = {});

}  // namespace shardkit
