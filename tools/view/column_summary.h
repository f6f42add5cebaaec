// The values of a column in numbers: counts, lengths, histograms, frequent texts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardctl/json.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardctl {

// Of values that are shown to it. One thread at a time. Its memory has a limit.
class ColumnSummary {
 public:
  // `look`: whether the values are looked at as numbers or texts, besides their lengths.
  ColumnSummary(const shardkit::Column& column, bool look) : column_(column), look_(look) {}

  void Add(const shardkit::ColumnView& values);

  const shardkit::ColumnStatistics& statistics() const { return statistics_; }
  uint64_t samples() const { return samples_; }

  // {minimum, maximum, mean, histogram}, or null where there are no finite numbers.
  Json Numbers() const;

  // The most frequent texts, or null for columns without texts, and where none is there twice.
  Json Strings() const;

  // Different texts that were seen; null for columns without texts, and where they were too many to count.
  Json Distinct() const;

 private:
  const shardkit::Column column_;
  const bool look_;
  uint64_t samples_ = 0;
  shardkit::ColumnStatistics statistics_;
  std::vector<double> numbers_;
  std::map<std::string, uint64_t, std::less<>> texts_;
  bool too_many_texts_ = false;
};

// As the page shows it. `statistics` are those of the whole dataset, or null where only `summary` is known; `summary`
// is null where the values were not looked at.
Json DescribeColumn(const shardkit::Column& column, const shardkit::ColumnStatistics* statistics,
                    const ColumnSummary* summary, uint64_t samples);

}  // namespace shardctl
