// Indexes of WebDataset tars. An index is a shard beside the tar. It lists the places and checksums of the tar's
// values, and the keys, block by block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardkit {

// Appended to the tar's name: "train-0.tar" has the index "train-0.tar.shardidx".
inline constexpr std::string_view kTarIndexSuffix = ".shardidx";

// A broken rule of WebDataset; all of the tar can still be read.
struct TarProblem {
  std::string member;   // its name
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

// Reads the whole tar and writes its index. An existing index is replaced atomically. InvalidArgument for a compressed
// tar: its values have no offsets in the file. DataLoss if the tar is damaged. Takes up to three times as much memory
// as the index has bytes.
absl::StatusOr<TarIndexReport> BuildTarIndex(FileSystem& file_system, const std::string& path,
                                             const Cancellation* cancellation = nullptr);

// X.tar has the index X.idx: the name passed to DALI's readers.
inline constexpr std::string_view kDaliIndexSuffix = ".idx";

// Writes the index of X.tar for DALI's readers.webdataset, version 1.2, to X.idx, atomically, as DALI's wds2idx would.
// The problems include members that DALI wrongly takes for samples.
// - InvalidArgument: a compressed tar; a name that does not end in .tar; X.idx exists and is not such an index; or such
//   an index cannot describe the tar, which has no samples, members of a sample that DALI ignores, or names with white
//   space.
// - DataLoss: the tar is damaged.
absl::StatusOr<TarIndexReport> BuildDaliIndex(FileSystem& file_system, const std::string& path,
                                              const Cancellation* cancellation = nullptr);

// Whether the file name is a tar's: .tar, or compressed .tar.gz .tgz .tar.zst .tar.bz2 .tar.xz .tar.lz4 .tar.lzma
// .tar.Z.
bool IsTarPath(std::string_view path);

// Paths of the tars of a directory, including compressed ones, in the order of their names. Ignores other files.
absl::StatusOr<std::vector<std::string>> ListTars(ReadableFileSystem& file_system, const std::string& directory);

}  // namespace shardkit
