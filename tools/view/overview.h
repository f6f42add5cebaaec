// What a dataset is as a whole.
#pragma once

#include "shardctl/json.h"
#include "view/viewed_dataset.h"

namespace shardctl {

// From the manifest, the first value of columns of bytes, and the manifests of earlier generations.
Json DescribeDataset(const ViewedDataset& dataset, const Snapshot& snapshot);

}  // namespace shardctl
