// Opening a tar through the index that DALI's wds2idx has made of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/foreign/tar_index.h"
#include "format/foreign/dali_index.h"

namespace shardkit {

// X.idx for X.tar; empty for a file of another name.
std::string DaliIndexPath(const std::string& path);

// False when the tar has no such index, or one of a version that lacks the names. Otherwise *contents are
// what the index says, and name it. That the first and the last member are there, and the end mark behind
// that, has been looked at; the others are to be checked with CheckTarMembers before their bytes are
// believed. DataLoss when the index is damaged or of another tar.
absl::StatusOr<bool> LoadDaliContents(FileSystem& file_system, const RandomAccessFile& file, TarContents* contents);

// Goes over the headers of values [first_value, end_value), and of what stands between them; with `to_end`
// also of what follows, in which there may be no other value. DataLoss, naming the place, unless they are
// what the index says.
absl::Status CheckTarMembers(const RandomAccessFile& file, const TarContents& contents, uint64_t first_value,
                             uint64_t end_value, bool to_end);

// A tar as wds2idx sees it.
struct DaliView {
  std::vector<format::DaliSample> samples;
  std::vector<TarProblem> additional;  // members that are no part of a sample by webdataset's rule
  std::vector<TarProblem> missing;     // members that are, and that wds2idx leaves out
};

// Of a tar that is not compressed. DataLoss for a damaged one.
absl::StatusOr<DaliView> FindDaliSamples(const RandomAccessFile& file);

// Compares an index, where there is one, with the whole tar. An error is what kept the check from being done.
absl::Status CheckDaliIndex(FileSystem& file_system, const RandomAccessFile& file,
                            const std::function<void(std::string message)>& report);

}  // namespace shardkit
