// The parts of dataset.json as JSON.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// As a string of JSON.
std::string Quote(std::string_view text);
// 16 lower-case hexadecimal digits.
std::string Hex64(uint64_t value);

// Objects on a line of their own.
std::string FormatColumn(const Column& column);
std::string FormatSegment(const Segment& segment);
std::string FormatShard(const ManifestShard& shard);
// The values of the keys "view" and "removed".
std::string FormatView(const DatasetView& view);
std::string FormatRemoved(const RemovedSamples& removed);

// The parsing functions below throw simdjson_error or one of these. ParseManifest turns Newer into Unimplemented, and
// the others into DataLoss.
struct Malformed {
  std::string what;
};

struct Newer {
  std::string what;
};

// The keys of an object. The views must be valid until this is destroyed.
class Keys {
 public:
  std::string_view Note(std::string_view key) { return keys_.emplace_back(key); }

  // Call after the last key. Two readers could take different ones of two equal keys, so these are refused.
  void Check(std::initializer_list<std::string_view> required);

 private:
  absl::InlinedVector<std::string_view, 8> keys_;
};

std::string_view ToString(simdjson::simdjson_result<simdjson::ondemand::value> element);
uint64_t ToCount(simdjson::simdjson_result<simdjson::ondemand::value> element);
Metadata ToMetadata(simdjson::ondemand::object entries);
Column ParseColumn(simdjson::ondemand::object fields);
ManifestShard ParseShard(simdjson::ondemand::object fields);
Segment ParseSegment(simdjson::ondemand::object fields);
RemovedSamples ParseRemoved(simdjson::ondemand::object fields);
// Checks all that the view says by itself; CheckView compares it with the rest.
DatasetView ParseView(simdjson::ondemand::object fields);

// DataLoss where the view or the removed samples do not fit what is stored.
absl::Status CheckView(const ManifestSummary& summary);

}  // namespace shardkit::dataset
