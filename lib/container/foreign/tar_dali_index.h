// Opening a tar with the index that DALI's wds2idx has made of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/foreign/tar_index.h"
#include "format/foreign/dali_index.h"

namespace shardkit::container {

// X.idx for X.tar; empty for a file of another name.
std::string DaliIndexPath(const std::string& path);

// False when the tar has no such index, or only one of a version that lacks the names. Otherwise fills in *contents
// from the index. Checks the first and the last member, and the end mark after the last. The other members must be
// checked with CheckTarMembers before their bytes are used. DataLoss when the index is damaged or belongs to another
// tar.
absl::StatusOr<bool> LoadDaliContents(ReadableFileSystem& file_system, const RandomAccessFile& file,
                                      TarContents* contents);

// Reads the headers of values [first_value, end_value) and of the members between them. With `to_end`, also reads all
// headers after them: no other value may follow. DataLoss, naming the place, unless the headers match the index.
absl::Status CheckTarMembers(const RandomAccessFile& file, const TarContents& contents, uint64_t first_value,
                             uint64_t end_value, bool to_end);

// A tar as wds2idx sees it.
struct DaliView {
  std::vector<format::DaliSample> samples;
  std::vector<TarProblem> additional;  // members that belong to a sample for DALI, but not for webdataset
  std::vector<TarProblem> missing;     // members that belong to a sample for webdataset, but not for DALI
};

// The tar must not be compressed. DataLoss when it is damaged.
absl::StatusOr<DaliView> FindDaliSamples(const RandomAccessFile& file);

// Compares the index, if there is one, with the whole tar. Returns an error only when the check could not be done.
absl::Status CheckDaliIndex(ReadableFileSystem& file_system, const RandomAccessFile& file,
                            const std::function<void(std::string message)>& report);

}  // namespace shardkit::container
