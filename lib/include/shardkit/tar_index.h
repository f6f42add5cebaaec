// Indexes of WebDataset tars: a file beside a tar that says where its values lie, and what they hash to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"

namespace shardkit {

// Follows the tar's name: "train-0.tar" has "train-0.tar.shardidx".
inline constexpr std::string_view kTarIndexSuffix = ".shardidx";

// What is wrong with a tar as a WebDataset, though all of it can be read.
struct TarProblem {
  std::string member;   // a name
  uint64_t offset = 0;  // bytes from the start of the tar
  std::string message;  // "its key had ended: …"
};

struct TarIndexReport {
  std::string index_path;
  uint64_t samples = 0;
  uint64_t values = 0;
  uint64_t bytes = 0;  // of the tar
  uint64_t problem_count = 0;
  std::vector<TarProblem> problems;  // the first hundred
};

// Reads the whole tar, and writes its index in place of the one there is: whole or not at all.
// InvalidArgument for a compressed tar, whose values do not lie in it; DataLoss when the tar is damaged.
// Takes as much memory as the index has bytes.
absl::StatusOr<TarIndexReport> BuildTarIndex(FileSystem& file_system, const std::string& path,
                                             const Cancellation* cancellation = nullptr);

// X.tar has X.idx, the name that readers of DALI are given.
inline constexpr std::string_view kDaliIndexSuffix = ".idx";

// Writes the index of X.tar for DALI's readers.webdataset, version 1.2, as DALI's own wds2idx does, to X.idx: whole or
// not at all. Among the problems are members that DALI takes for samples though they are none. InvalidArgument for a
// compressed tar, one whose name does not end in .tar, an X.idx that is something else, and for a tar of which an index
// cannot tell: without samples, with members that DALI leaves out though they belong to a sample, with white space in a
// name. DataLoss when the tar is damaged.
absl::StatusOr<TarIndexReport> BuildDaliIndex(FileSystem& file_system, const std::string& path,
                                              const Cancellation* cancellation = nullptr);

struct WidsOptions {
  std::string name;  // of the dataset; without one the index has none
  bool md5 = true;   // list the MD5 of every tar, for which all of it is read
};

struct WidsReport {
  uint64_t shards = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;  // of all tars
};

// Writes the index of these tars, in this order, for wids, to `output`: whole or not at all. It ends in .json, and
// takes the place of nothing but such an index. Tars are named relative to its folder; both are absolute paths, or none
// is. InvalidArgument for a compressed tar, and for one that wids would cut into other samples than webdataset does,
// naming the member; DataLoss when a tar is damaged; Unimplemented when this build has no MD5.
absl::StatusOr<WidsReport> WriteWidsIndex(FileSystem& file_system, const std::vector<std::string>& tars,
                                          const std::string& output, const WidsOptions& options = {},
                                          const Cancellation* cancellation = nullptr);

// Whether a file's name is that of a tar: .tar, or compressed .tar.gz .tgz .tar.zst .tar.bz2 .tar.xz.
bool IsTarPath(std::string_view path);

// Paths of the tars of a directory, compressed ones among them, in the order of their names; other files are
// passed over.
absl::StatusOr<std::vector<std::string>> ListTars(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit
