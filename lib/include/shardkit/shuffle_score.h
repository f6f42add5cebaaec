// How well an order mixes, told from the plan alone: no data is read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardkit/plan.h"

namespace shardkit {

// Mean distance, in the source order, of samples that follow one another in `order`, as a share of what it is on
// average in a perfect shuffle of `sample_count` samples, (sample_count + 1) / 3. About 1 is perfect; 3 / (sample_count
// + 1) is no shuffle at all. Orders of fewer than two samples score 1.
double NeighbourDistance(std::span<const uint64_t> order, uint64_t sample_count);

// The NeighbourDistance of a perfect shuffle of the plan's epochs: 1 when all samples are taken equally often, and
// otherwise what the shares of the datasets make of it, of which most may stand close together in the source order.
double PerfectNeighbourDistance(const Plan& plan);

// How often samples that follow one another have the same label, as a share of how often they do on average in a
// perfect shuffle. About 1 is perfect, above it labels stand in clumps. `labels` in delivery order; 1 when no two are
// equal.
double LabelClumping(std::span<const uint64_t> labels);

// The first `limit` positions of an epoch as ordinals through all datasets, one after the other (the second dataset's
// begin where the first one's end).
std::vector<uint64_t> Ordinals(const Plan& plan, uint64_t epoch, uint64_t limit);

// What a buffer as WebDataset's `shuffle` gives, for comparison: shards in random order, their samples passing through
// a buffer of `buffer_samples` from which a random one leaves as each comes in (an initial filling comes first). The
// first `limit` ordinals. `shard_sizes` in samples.
std::vector<uint64_t> ReservoirOrder(std::span<const uint64_t> shard_sizes, uint64_t buffer_samples, uint64_t seed,
                                     uint64_t limit);

}  // namespace shardkit
