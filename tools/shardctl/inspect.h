// The three views of shardctl inspect. Each function prints one view and returns an exit code.
#pragma once

#include "shardkit/dataset_reader.h"

namespace shardctl {

// A dataset, or one shard as a dataset.
int InspectDataset(const shardkit::DatasetReader& dataset, bool json);

int InspectSample(const shardkit::DatasetReader& dataset, uint64_t sample, bool json);

int InspectBlock(const shardkit::DatasetReader& dataset, uint64_t shard, uint64_t block, bool json);

}  // namespace shardctl
