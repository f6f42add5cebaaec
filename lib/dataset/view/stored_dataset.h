// A dataset as it is stored: without its view, and with the samples that were removed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "dataset/shard_list_reader.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {

// summary() has the stored columns and samples, and columns() are stored columns.
class StoredDataset : public DatasetReader {
 public:
  // Like DatasetReader::Open, but for what readers see. Where the dataset has a view, `options.columns` name columns of
  // it, and those stored columns are read that they take values from.
  static absl::StatusOr<std::unique_ptr<StoredDataset>> Open(ReadableFileSystem& file_system, const std::string& path,
                                                             const DatasetOptions& options);

  // `shard` is below shard_count().
  virtual absl::StatusOr<PlacedShard> Place(size_t shard) const = 0;

  // The first sample with this key that `accept` takes.
  virtual absl::StatusOr<std::optional<uint64_t>> FindKeyWhere(std::string_view key, BlockBuffer* buffer,
                                                               const std::function<bool(uint64_t)>& accept) const = 0;

  // Changes a block, whose first sample in the dataset is *first_sample, after it was read, on the thread that has
  // read it. A scanner leaves out blocks without samples.
  using CompleteBlock = std::function<absl::Status(uint64_t* first_sample, BlockBuffer* buffer, BlockView* view)>;
  virtual absl::StatusOr<std::unique_ptr<BlockScanner>> ScanWith(const ScanOptions& options,
                                                                 CompleteBlock complete) const = 0;
};

}  // namespace shardkit::dataset
