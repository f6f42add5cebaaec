// What distinguishes the samples of two datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {

struct DiffOptions {
  // How the two are read. Of `a.columns` and `b.columns` nothing is used: see `columns`. Reading an earlier generation
  // of one dataset as A and the newest as B tells what has changed since.
  DatasetOptions a, b;

  // Names of the columns whose values are compared; empty means all that both have.
  std::vector<std::string> columns;

  int threads = 1;           // that read A ahead
  size_t max_examples = 10;  // of each difference; all are counted

  // Bytes for the keys of B where they do not come in the order of A, 40 for each. Where they are more, the samples of
  // A that follow are read several times.
  uint64_t key_memory = uint64_t{256} << 20;

  const Cancellation* cancellation = nullptr;  // may be null
  // Called on the calling thread: samples of A done, and in all. An exception ends the comparison, and DiffDatasets
  // returns Internal with its text.
  std::function<void(uint64_t samples_done, uint64_t samples_total)> progress;
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
// FailedPrecondition when only one of the two has keys; OutOfRange for a name in `columns` that neither has; Cancelled.
absl::StatusOr<DatasetDiff> DiffDatasets(ReadableFileSystem& file_system, const std::string& a, const std::string& b,
                                         const DiffOptions& options = {});

}  // namespace shardkit
