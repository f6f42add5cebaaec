#include "view/column_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "shardctl/scalar.h"
#include "view/value.h"

namespace shardctl {
namespace {

constexpr size_t kBuckets = 24;
constexpr size_t kMostNumbers = 1 << 20;
constexpr size_t kMostTexts = 1 << 16;
constexpr size_t kMostTextBytes = 200;
constexpr size_t kFrequent = 12;

// Bucket k of the statistics has the lengths of k significant bits: [2^(k-1), 2^k).
Json LengthsJson(const shardkit::ColumnStatistics& statistics) {
  Json histogram = Json::array();
  size_t first = 0;
  size_t end = statistics.length_histogram.size();
  while (first < end && statistics.length_histogram[first] == 0) ++first;
  while (end > first && statistics.length_histogram[end - 1] == 0) --end;
  for (size_t i = first; i < end; ++i) {
    const uint64_t from = i == 0 ? 0 : uint64_t{1} << (i - 1);
    const uint64_t to = i >= 64 ? std::numeric_limits<uint64_t>::max() : uint64_t{1} << i;
    histogram.push_back({{"from", from}, {"to", to}, {"count", statistics.length_histogram[i]}});
  }
  return {{"min", statistics.min_length},
          {"median", statistics.LengthQuantile(0.5)},
          {"p95", statistics.LengthQuantile(0.95)},
          {"max", statistics.max_length},
          {"histogram", std::move(histogram)}};
}

}  // namespace

void ColumnSummary::Add(const shardkit::ColumnView& values) {
  const std::string kind = look_ ? ValueKind(column_) : "";
  for (uint32_t i = 0; i < values.size(); ++i) {
    ++samples_;
    const auto value = values.value(i);
    if (!value) continue;
    statistics_.Add(column_, value->data(), value->size());
    if (kind == "text") {
      const auto found = texts_.find(value->substr(0, kMostTextBytes));
      if (found != texts_.end()) {
        ++found->second;
      } else if (texts_.size() < kMostTexts) {
        texts_.emplace(value->substr(0, kMostTextBytes), 1);
      } else {
        too_many_texts_ = true;
      }
    } else if (!kind.empty() && value->size() == shardkit::ScalarSize(column_.type) && numbers_.size() < kMostNumbers) {
      const Json number = ScalarJson(column_.type, value->data());
      if (number.is_number()) numbers_.push_back(number.get<double>());
      if (number.is_boolean()) numbers_.push_back(number.get<bool>() ? 1 : 0);
    }
  }
}

Json ColumnSummary::Numbers() const {
  if (numbers_.empty()) return nullptr;
  const double least = std::ranges::min(numbers_);
  const double most = std::ranges::max(numbers_);
  double sum = 0;
  std::array<uint64_t, kBuckets> counts{};
  // Halves, because the difference of two numbers can be more than the largest.
  const double half_width = most / 2 - least / 2;
  for (const double number : numbers_) {
    sum += number / static_cast<double>(numbers_.size());
    const double place = half_width > 0 ? (number / 2 - least / 2) / half_width * kBuckets : 0;
    ++counts[std::min(kBuckets - 1, static_cast<size_t>(place))];
  }
  Json histogram = Json::array();
  const auto edge = [&](size_t i) { return least + 2 * (half_width * static_cast<double>(i) / kBuckets); };
  const size_t buckets = half_width > 0 ? kBuckets : 1;
  for (size_t i = 0; i < buckets; ++i) {
    histogram.push_back({{"from", JsonNumber(edge(i))},
                         {"to", JsonNumber(i + 1 == buckets ? most : edge(i + 1))},
                         {"count", counts[i]}});
  }
  return {{"minimum", JsonNumber(least)},
          {"maximum", JsonNumber(most)},
          {"mean", JsonNumber(sum)},
          {"histogram", std::move(histogram)}};
}

Json ColumnSummary::Strings() const {
  std::vector<std::pair<std::string_view, uint64_t>> sorted(texts_.begin(), texts_.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(), [](const auto& each) { return each.second; });
  if (sorted.empty() || sorted[0].second < 2) return nullptr;
  Json strings = Json::array();
  for (size_t i = 0; i < std::min(kFrequent, sorted.size()); ++i) {
    strings.push_back({{"text", sorted[i].first}, {"count", sorted[i].second}});
  }
  return strings;
}

Json ColumnSummary::Distinct() const {
  if (texts_.empty() || too_many_texts_) return nullptr;
  return texts_.size();
}

Json DescribeColumn(const shardkit::Column& column, const shardkit::ColumnStatistics* statistics,
                    const ColumnSummary* summary, uint64_t samples) {
  Json document{{"name", column.name}};
  const bool whole = statistics != nullptr;
  if (!whole && summary == nullptr) return document;
  const shardkit::ColumnStatistics& shown = whole ? *statistics : summary->statistics();
  const uint64_t of = whole ? samples : summary->samples();
  document["present"] = shown.present_count;
  document["absent"] = of - std::min(of, shown.present_count);
  document["value_bytes"] = shown.value_bytes;
  document["stored_bytes"] = whole ? Json(shown.stored_bytes) : Json();
  document["lengths"] = column.fixed_size() || shown.present_count == 0 ? Json() : LengthsJson(shown);
  document["numbers"] = summary != nullptr ? summary->Numbers() : Json();
  if (document["numbers"].is_object() && shown.range_kind != shardkit::RangeKind::kNone) {
    document["numbers"]["minimum"] = BoundJson(shown.range_kind, shown.minimum);
    document["numbers"]["maximum"] = BoundJson(shown.range_kind, shown.maximum);
  }
  document["strings"] = summary != nullptr ? summary->Strings() : Json();
  document["distinct"] = summary != nullptr ? summary->Distinct() : Json();
  return document;
}

}  // namespace shardctl
