// Measures how well an order mixes samples. Uses the plan alone and reads no data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/plan.h"

namespace shardkit {

// Mean distance, in the source order, between neighbours in `order`, divided by the expected distance in a perfect
// shuffle of `sample_count` samples, which is (sample_count + 1) / 3. About 1 is perfect; 3 / (sample_count + 1) is no
// shuffle at all. Orders of fewer than two samples score 1.
double NeighbourDistance(std::span<const uint64_t> order, uint64_t sample_count);

// The NeighbourDistance of a perfect shuffle of the plan's epochs. It is 1 when all samples are taken equally often.
// Otherwise it depends on the shares of the datasets: most samples may come from a small part of the source order.
double PerfectNeighbourDistance(const Plan& plan);

// How often neighbours in the order have the same label, divided by how often they do in a perfect shuffle on average.
// About 1 is perfect; above 1, equal labels stand close together. `labels` in delivery order. 1 when no two are equal.
double LabelClumping(std::span<const uint64_t> labels);

// Integer columns whose equal values stand together as the dataset is stored, labels most often: most blocks have one
// value alone, and not always the same one. A loader mixes the blocks of a shuffle buffer, and so few values at a time.
// Reads the block ranges of at most 8 shards, and nothing of shards without ranges.
absl::StatusOr<std::vector<std::string>> ClumpedColumns(const DatasetReader& dataset);

// The first `limit` samples of an epoch as ordinals through all datasets: the second dataset's ordinals begin where the
// first one's end. Errors are those of EpochOrder::Covering.
absl::StatusOr<std::vector<uint64_t>> Ordinals(const Plan& plan, uint64_t epoch, uint64_t limit);

// The order that a buffer like WebDataset's `shuffle` gives, for comparison. Shards are in random order; their samples
// go into a buffer of `buffer_samples`. Once the buffer is full, a random sample leaves for each one that enters.
// Returns the first `limit` ordinals. `shard_sizes` in samples.
std::vector<uint64_t> ReservoirOrder(std::span<const uint64_t> shard_sizes, uint64_t buffer_samples, uint64_t seed,
                                     uint64_t limit);

}  // namespace shardkit
