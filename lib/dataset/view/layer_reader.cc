#include "dataset/view/layer_reader.h"

#include <functional>

#include "absl/cleanup/cleanup.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/view/selected_rows.h"

namespace shardkit::dataset {

absl::StatusOr<std::shared_ptr<const LayerBlock>> LayerCache::Get(
    const Key& key, const std::function<absl::StatusOr<std::shared_ptr<const LayerBlock>>()>& read) {
  std::unique_lock lock(mutex_);
  auto place = places_.find(key);
  while (place == places_.end() && reading_.contains(key)) {
    read_.wait(lock);
    place = places_.find(key);
  }
  if (place != places_.end()) {
    entries_.splice(entries_.begin(), entries_, place->second);
    return entries_.front().block;
  }
  // After an error, or an exception, the next thread tries.
  reading_.insert(key);
  const absl::Cleanup end = [&] {
    if (!lock.owns_lock()) lock.lock();
    reading_.erase(key);
    read_.notify_all();
  };
  lock.unlock();
  SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<const LayerBlock> block, read());
  const uint64_t bytes = block->bytes;
  lock.lock();
  entries_.push_front({key, block, bytes});
  places_[key] = entries_.begin();
  for (bytes_ += bytes; bytes_ > kMostBytes && entries_.size() > 1; entries_.pop_back()) {
    bytes_ -= entries_.back().bytes;
    places_.erase(entries_.back().key);
  }
  return block;
}

absl::StatusOr<std::unique_ptr<LayerReader>> LayerReader::Open(ReadableFileSystem& file_system,
                                                               const std::string& directory, const Layer& layer,
                                                               const DatasetOptions& options,
                                                               std::vector<std::string> columns) {
  const std::string path = JoinPath(directory, layer.name);
  DatasetOptions of_layer = options;
  of_layer.columns = std::move(columns);
  of_layer.key_column = false;
  of_layer.generation = 0;
  auto opened = StoredDataset::Open(file_system, path, of_layer);
  if (absl::IsNotFound(opened.status())) {
    return NotFound(path, ": a layer of the dataset is missing; copy it again, or shardctl columns drop ", directory,
                    " takes its columns out");
  }
  if (absl::IsOutOfRange(opened.status())) {  // it lacks a column
    return DataLoss(path, ": is not the layer that ", JoinPath(directory, kManifestName),
                    " names: ", ToStd(opened.status().message()));
  }
  SHARDKIT_RETURN_IF_ERROR(opened.status());
  auto reader = std::make_unique<LayerReader>();
  reader->dataset_ = *std::move(opened);
  const DatasetReader& dataset = *reader->dataset_;
  if (dataset.container() != "shard" || !dataset.plain() || reader->dataset_->summary().checksum != layer.checksum ||
      dataset.sample_count() != layer.samples || dataset.summary().schema.key_column()) {
    return DataLoss(path, ": is not the layer that ", JoinPath(directory, kManifestName), " names");
  }
  return reader;
}

absl::StatusOr<std::shared_ptr<const LayerBlock>> LayerReader::Read(uint64_t first, uint64_t end,
                                                                    LayerCache& cache) const {
  SHARDKIT_ASSIGN_OR_RETURN(const DatasetReader::Location location, dataset_->Locate(first));
  SHARDKIT_ASSIGN_OR_RETURN(const auto shard, dataset_->OpenShard(location.shard));
  const size_t number = shard->BlockOfSample(location.local);
  const BlockInfo& info = shard->blocks()[number];
  const uint64_t begin = first - (location.local - info.first_sample);
  if (end - begin > info.sample_count) {
    return At(DataLoss(shard->path(), ": block ", number, " of a layer ends at sample ", begin + info.sample_count,
                       ", within a block of the shards: the layer does not fit the dataset"),
              {.path = shard->path(), .block = number});
  }
  return cache.Get({this, begin}, [&]() -> absl::StatusOr<std::shared_ptr<const LayerBlock>> {
    auto block = std::make_shared<LayerBlock>();
    block->first_sample = begin;
    BlockBuffer buffer = buffers_->Take();
    BlockView view;
    SHARDKIT_RETURN_IF_ERROR(dataset_->ReadBlock(location.shard, number, &buffer, &view));
    block->memory.resize(view.column_count());
    for (size_t i = 0; i < view.column_count(); ++i) {
      block->columns.push_back(CopyColumn(view.column(i), &block->memory[i]));
      block->bytes += 8 * block->memory[i].capacity();
    }
    SHARDKIT_RETURN_IF_ERROR(buffer.CheckMapped());
    buffers_->Give(std::move(buffer));
    return block;
  });
}

}  // namespace shardkit::dataset
