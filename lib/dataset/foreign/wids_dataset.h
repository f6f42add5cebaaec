// Tars, with what an index says about them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/foreign/listed_hash.h"
#include "dataset/foreign/foreign_dataset.h"
#include "format/foreign/wids_index.h"
#include "shardkit/filesystem.h"

namespace shardkit::dataset {

struct ListedTar {
  std::string path;
  std::string name;        // in the manifest
  std::string index_path;  // of the wids index; if empty, the fields below are unused
  size_t number = 0;       // among the index's shards
  format::WidsShard listed;
  std::shared_ptr<container::ListedHash> hash;  // null when none is listed that this build can compute
};

// Opens the dataset of these tars; there must be at least one. kOriginName is looked for in `folder`.
absl::StatusOr<std::unique_ptr<ForeignDataset>> OpenTars(ReadableFileSystem& file_system, const std::string& folder,
                                                         std::vector<ListedTar> tars, const DatasetOptions& options);

// DataLoss, naming tar and index, unless the tar has the number of bytes, or of samples, that the index lists. NotFound
// when there is no tar.
absl::Status CheckTarSize(ReadableFileSystem& file_system, const ListedTar& tar);
absl::Status CheckTarSamples(ReadableFileSystem& file_system, const ListedTar& tar, uint64_t samples);

// Reads the tar and reports when its MD5 is not the one listed, or cannot be computed. Returns an error only when the
// check could not be done.
absl::Status CheckTarMd5(const RandomAccessFile& file, const ListedTar& tar,
                         const std::function<void(std::string message)>& report);

// For a missing tar, an error that names its place in the index. Any other status stays as it is.
absl::Status DescribeMissing(const ListedTar& tar, const absl::Status& status);

}  // namespace shardkit::dataset
