// Reading a layer: columns of a dataset that lie in shards of their own (format-spec/spec.md, section 9.6).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/buffer_reserve.h"
#include "dataset/view/stored_dataset.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {

// A block of a layer in memory.
struct LayerBlock {
  std::vector<ColumnView> columns;
  std::vector<std::vector<uint64_t>> memory;  // of the columns
  uint64_t first_sample = 0;                  // stored sample
  uint64_t bytes = 0;                         // of memory
};

// The blocks of all layers of a dataset that were read last: one of them has the values of many blocks of the shards.
// Thread-safe.
class LayerCache {
 public:
  // Of blocks that nobody uses at the moment; one of them is kept however large it is.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;

  using Key = std::pair<const void*, uint64_t>;  // a layer, and the first sample of one of its blocks
  // `read` is called outside of the cache's lock, by one thread for each block; the others wait for it.
  absl::StatusOr<std::shared_ptr<const LayerBlock>> Get(
      const Key& key, const std::function<absl::StatusOr<std::shared_ptr<const LayerBlock>>()>& read);

 private:
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.first) ^ (std::hash<uint64_t>()(key.second) << 1);
    }
  };
  struct Entry {
    Key key;
    std::shared_ptr<const LayerBlock> block;
    uint64_t bytes = 0;
  };

  std::mutex mutex_;
  std::condition_variable read_;
  std::unordered_set<Key, KeyHash> reading_;
  std::list<Entry> entries_;  // the one used last is the first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> places_;
  uint64_t bytes_ = 0;
};

// Thread-safe after Open.
class LayerReader {
 public:
  // Opens the layer of the dataset in `directory` with some of its columns. NotFound when it is missing, DataLoss when
  // it is not the one that the manifest names.
  static absl::StatusOr<std::unique_ptr<LayerReader>> Open(ReadableFileSystem& file_system,
                                                           const std::string& directory, const Layer& layer,
                                                           const DatasetOptions& options,
                                                           std::vector<std::string> columns);

  const DatasetReader& dataset() const { return *dataset_; }

  // The block that holds the stored samples from `first` to `end`, which is behind `first`. DataLoss when there is
  // none.
  absl::StatusOr<std::shared_ptr<const LayerBlock>> Read(uint64_t first, uint64_t end, LayerCache& cache) const;

 private:
  std::unique_ptr<StoredDataset> dataset_;
  const std::unique_ptr<BufferReserve> buffers_ = std::make_unique<BufferReserve>();
};

}  // namespace shardkit::dataset
