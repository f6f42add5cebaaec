// What distinguishes the generations of a dataset, and two datasets.
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

// What has become of a dataset from generation to generation (format-spec/dataset.md, section 9.3).

// Manifests of earlier generations that writers keep.
inline constexpr uint64_t kMostKeptManifests = 64;

struct DatasetGeneration {
  uint64_t generation = 1;
  DatasetOperation operation;  // what made it of the one before
  uint64_t samples = 0;        // that readers see of the whole dataset in this generation, as the others
  uint64_t shards = 0;
  uint64_t bytes = 0;
  uint64_t segments = 0;
  size_t columns = 0;  // that readers see

  // The files without which it cannot be opened (see DatasetOptions::generation) are there, and its bases may be
  // opened. Shards are not looked for: the dataset's own are removed only together with its manifest.
  bool readable = false;
};

// The generations whose manifests are kept, and the newest, ascending. They follow one another without gaps. Reads
// their manifests. NotFound when `directory` is not a dataset of Shardkit.
absl::StatusOr<std::vector<DatasetGeneration>> ReadHistory(ReadableFileSystem& file_system,
                                                           const std::string& directory);

// What distinguishes the samples of two datasets.

// Progress counts samples of A. Threads read A ahead.
struct DiffOptions : JobOptions {
  // How the two are read. Of `a.columns` and `b.columns` nothing is used: see `columns`. Reading an earlier generation
  // of one dataset as A and the newest as B tells what has changed since.
  DatasetOptions a, b;

  // Names of the columns whose values are compared; empty means all that both have.
  std::vector<std::string> columns;

  size_t max_examples = 10;  // of each difference; all are counted

  // Bytes for the keys of B where they do not come in the order of A, 40 for each. Where they are more, the samples of
  // A that follow are read several times.
  uint64_t key_memory = uint64_t{256} << 20;
};

struct DiffExample {
  std::string key;            // empty without keys
  std::optional<uint64_t> a;  // ordinals of the sample; absent where the dataset lacks it
  std::optional<uint64_t> b;
};

// Of samples, or of values of one column: how many, and the first of them.
struct DiffCount {
  uint64_t count = 0;
  std::vector<DiffExample> examples;
};

struct ColumnDiff {
  std::string name;
  DiffCount values;  // samples whose values differ, or that have one in one dataset alone
};

struct DatasetDiff {
  bool by_key = false;   // samples are matched by their keys, else by their ordinals
  uint64_t matched = 0;  // samples of A that B has
  uint64_t unread = 0;   // of these, in shards that both have, by their content hash
  DiffCount only_a;
  DiffCount only_b;
  std::vector<std::string> columns_only_a;
  std::vector<std::string> columns_only_b;
  std::vector<std::string> types;   // columns of both whose type, dtype, shape or size differs
  std::vector<ColumnDiff> columns;  // with values that differ, in the order of A

  bool same() const {
    return only_a.count == 0 && only_b.count == 0 && columns_only_a.empty() && columns_only_b.empty() &&
           types.empty() && columns.empty();
  }
};

// Compares the datasets at `a` and `b`, of any container. Samples are matched by key where both have keys, else, where
// neither has, by ordinal. Where a key stands more than once, the i-th sample of A that has it is matched with the i-th
// of B, and what is left over is only in one of the two. Codec and storage of columns, metadata, the order of samples
// with keys, and types of byte strings in tars, which do not tell them, are no differences. Shards of the same content
// hash are matched with each other and not read (without keys only where they begin with the same sample). Memory
// beside `key_memory` does not grow with the number of samples: of each dataset a few blocks, and what its reader
// holds.
//
// FailedPrecondition when only one of the two has keys. OutOfRange for a name in `columns` that neither has.
absl::StatusOr<DatasetDiff> DiffDatasets(ReadableFileSystem& file_system, const std::string& a, const std::string& b,
                                         const DiffOptions& options = {});

}  // namespace shardkit
