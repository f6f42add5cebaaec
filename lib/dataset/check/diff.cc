#include "shardkit/history.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/write/schema_mapper.h"

namespace shardkit {
namespace {

// Samples `begin` to `end` of one dataset that have to be looked at.
struct OrdinalRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct PlacedHash {
  ContentHash hash{};
  uint64_t samples = 0;
  uint64_t first_sample = 0;  // 0 for all where samples are matched by key

  auto operator<=>(const PlacedHash&) const = default;
};

// What is seen of a dataset with layers or removed samples does not follow from the hashes of its shards.
absl::StatusOr<std::vector<PlacedHash>> HashesOf(const DatasetReader& dataset, bool by_key) {
  std::vector<PlacedHash> hashes;
  uint64_t first = 0;
  SHARDKIT_RETURN_IF_ERROR(dataset.ForEachShard([&](const ManifestShard& shard) {
    hashes.push_back({dataset.plain() ? shard.content_hash : ContentHash{}, shard.samples, by_key ? 0 : first});
    first += shard.samples;
    return absl::OkStatus();
  }));
  return hashes;
}

// The samples of the shards that are not among `others`, where each of them is one of `shards` once. Shards of other
// containers may have no hash, which is zero.
std::vector<OrdinalRange> Outside(const std::vector<PlacedHash>& shards, const std::vector<PlacedHash>& others) {
  std::multiset<PlacedHash> known(others.begin(), others.end());
  std::vector<OrdinalRange> ranges;
  uint64_t first = 0;
  for (const PlacedHash& shard : shards) {
    const OrdinalRange range{first, first + shard.samples};
    first = range.end;
    if (shard.samples == 0) continue;
    if (const auto same = known.find(shard); shard.hash != ContentHash{} && same != known.end()) {
      known.erase(same);
      continue;
    }
    if (!ranges.empty() && ranges.back().end == range.begin) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

uint64_t Count(const std::vector<OrdinalRange>& ranges) {
  uint64_t count = 0;
  for (const OrdinalRange& range : ranges) count += range.end - range.begin;
  return count;
}

// The samples of the ranges from `sample` on. The ranges ascend.
std::vector<OrdinalRange> Behind(std::vector<OrdinalRange> ranges, uint64_t sample) {
  std::erase_if(ranges, [&](const OrdinalRange& range) { return range.end <= sample; });
  if (!ranges.empty()) ranges.front().begin = std::max(ranges.front().begin, sample);
  return ranges;
}

std::optional<std::string> KeyName(const Schema& schema) {
  const std::optional<size_t> key = schema.key_column();
  return key ? std::optional(schema[*key].name) : std::nullopt;
}

// Of what lies in tars only the names of members tell the types of byte strings.
bool SameType(const Column& a, const Column& b, bool in_tars) {
  if (in_tars && IsByteString(a) && IsByteString(b)) return true;
  return a.type == b.type && a.dtype == b.dtype && a.shape == b.shape && a.fixed_size() == b.fixed_size();
}

// The values of one sample after another of a dataset. In sequence, each block is read once; else each value.
class Samples {
 public:
  explicit Samples(const DatasetReader& dataset) : dataset_(dataset), buffers_(dataset.columns().size()) {}

  // The values of columns(), valid until the next call.
  absl::Status Read(uint64_t sample, std::vector<std::optional<std::string_view>>* values) {
    values->assign(buffers_.size(), std::nullopt);
    const bool in_sequence = sample == next_;
    next_ = sample + 1;
    if (sample < begin_ || sample >= end_) {
      if (!in_sequence) {
        for (size_t i = 0; i < buffers_.size(); ++i) {
          SHARDKIT_ASSIGN_OR_RETURN((*values)[i], dataset_.ReadValue(sample, i, &buffers_[i]));
        }
        return absl::OkStatus();
      }
      SHARDKIT_RETURN_IF_ERROR(Load(sample));
    }
    const auto local = static_cast<uint32_t>(sample - begin_);
    for (size_t i = 0; i < buffers_.size(); ++i) (*values)[i] = block_->view().column(i).value(local);
    return absl::OkStatus();
  }

  absl::Status CheckMapped() const { return end_ == 0 ? absl::OkStatus() : block_->CheckMapped(); }

 private:
  absl::Status Load(uint64_t sample) {
    begin_ = end_ = 0;
    SHARDKIT_ASSIGN_OR_RETURN(const auto scanner,
                              dataset_.Scan({.threads = 0, .first_sample = sample, .end_sample = sample + 1}));
    block_.reset();
    SHARDKIT_ASSIGN_OR_RETURN(block_, scanner->Next());
    if (block_ == nullptr) return DataLoss(dataset_.path(), ": no block has sample ", sample);
    begin_ = block_->first_sample();
    end_ = begin_ + block_->view().sample_count();
    if (sample < begin_ || sample >= end_) return DataLoss(dataset_.path(), ": no block has sample ", sample);
    return absl::OkStatus();
  }

  const DatasetReader& dataset_;
  std::unique_ptr<ScannedBlock> block_;
  uint64_t begin_ = 0;  // of the block's samples
  uint64_t end_ = 0;
  uint64_t next_ = 0;
  std::vector<BlockBuffer> buffers_;  // for values outside of it
};

// The samples of B whose keys have some hashes, and which of them samples of A have been matched with.
class KeyPlaces {
 public:
  void Add(const Hash128Bytes& hash, uint64_t sample) { places_.push_back({hash, sample, 0}); }
  void Sort() { std::ranges::sort(places_); }

  // The first sample with the key that was not taken, which is then.
  std::optional<uint64_t> Take(const Hash128Bytes& hash) {
    const auto first = std::ranges::lower_bound(places_, hash, {}, &Place::hash);
    if (first == places_.end() || first->hash != hash) return std::nullopt;
    const auto left = static_cast<uint64_t>(places_.end() - first);
    if (first->taken == left || (first + static_cast<ptrdiff_t>(first->taken))->hash != hash) return std::nullopt;
    return (first + static_cast<ptrdiff_t>(first->taken++))->sample;
  }

  // Calls `take` with each sample that was not taken.
  template <typename Visit>
  void ForEachLeft(Visit visit) const {
    for (size_t i = 0; i < places_.size();) {
      uint64_t taken = places_[i].taken;
      const Hash128Bytes hash = places_[i].hash;
      for (; i < places_.size() && places_[i].hash == hash; ++i) {
        if (taken == 0) visit(places_[i].sample);
        taken -= taken > 0;
      }
    }
  }

  struct Place {
    Hash128Bytes hash{};
    uint64_t sample = 0;
    uint64_t taken = 0;  // of all with this hash, noted at the first of them

    auto operator<=>(const Place&) const = default;
  };

 private:
  std::vector<Place> places_;
};

uint64_t PartOf(const Hash128Bytes& hash, uint64_t parts) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) number = number << 8 | hash[i];
  return number % parts;
}

class Diff {
 public:
  Diff(ReadableFileSystem& file_system, const std::string& a, const std::string& b, const DiffOptions& options)
      : file_system_(file_system), path_a_(a), path_b_(b), options_(options) {}

  absl::StatusOr<DatasetDiff> Run() {
    SHARDKIT_RETURN_IF_ERROR(Open());
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<PlacedHash> hashes_a, HashesOf(*a_, diff_.by_key));
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<PlacedHash> hashes_b, HashesOf(*b_, diff_.by_key));
    const std::vector<OrdinalRange> ranges_a = Outside(hashes_a, hashes_b);
    ranges_b_ = Outside(hashes_b, hashes_a);
    diff_.unread = diff_.matched = done_ = a_->sample_count() - Count(ranges_a);
    for (const std::string& name : compared_) diff_.columns.push_back({.name = name});
    Samples samples(*b_);
    SHARDKIT_RETURN_IF_ERROR(diff_.by_key ? MatchKeys(ranges_a, samples) : MatchOrdinals(ranges_a, samples));
    std::erase_if(diff_.columns, [](const ColumnDiff& column) { return column.values.count == 0; });
    return std::move(diff_);
  }

 private:
  absl::StatusOr<std::unique_ptr<DatasetReader>> OpenWith(const std::string& path, DatasetOptions options,
                                                          std::vector<std::string> columns) {
    options.columns = std::move(columns);
    options.key_column = true;
    return DatasetReader::Open(file_system_, path, options);
  }

  absl::Status Open() {
    // All columns first, to learn their names: this reads manifests alone.
    SHARDKIT_ASSIGN_OR_RETURN(const auto whole_a, OpenWith(path_a_, options_.a, {}));
    SHARDKIT_ASSIGN_OR_RETURN(const auto whole_b, OpenWith(path_b_, options_.b, {}));
    const Schema& schema_a = whole_a->summary().schema;
    const Schema& schema_b = whole_b->summary().schema;
    const std::optional<std::string> key_a = KeyName(schema_a), key_b = KeyName(schema_b);
    if (key_a.has_value() != key_b.has_value()) {
      return FailedPrecondition(key_a ? path_b_ : path_a_, ": has no keys, unlike ", key_a ? path_a_ : path_b_,
                                ": convert one of them, with the same --key");
    }
    diff_.by_key = key_a.has_value();
    const bool in_tars = whole_a->container() == "webdataset" || whole_b->container() == "webdataset";
    const auto wanted = [&](const Column& column) {
      return !column.is_key &&
             (options_.columns.empty() || std::ranges::find(options_.columns, column.name) != options_.columns.end());
    };
    for (const std::string& name : options_.columns) {
      if (!schema_a.Find(name) && !schema_b.Find(name))
        return Annotate(dataset::NoSuchColumn(name, schema_a.columns()), path_a_);
    }
    for (const Column& column : schema_a.columns()) {
      if (!wanted(column)) continue;
      const std::optional<size_t> other = schema_b.Find(column.name);
      if (!other || schema_b[*other].is_key) {
        diff_.columns_only_a.push_back(column.name);
        continue;
      }
      if (!SameType(column, schema_b[*other], in_tars)) diff_.types.push_back(column.name);
      compared_.push_back(column.name);
    }
    for (const Column& column : schema_b.columns()) {
      const std::optional<size_t> other = schema_a.Find(column.name);
      if (wanted(column) && (!other || schema_a[*other].is_key)) diff_.columns_only_b.push_back(column.name);
    }
    // No names would mean all columns.
    const auto columns = [&](const std::optional<std::string>& key, const Schema& schema) {
      if (!compared_.empty()) return compared_;
      return std::vector<std::string>{key.value_or(schema.columns().empty() ? std::string() : schema[0].name)};
    };
    if (compared_.empty() && (schema_a.columns().empty() || schema_b.columns().empty())) {
      return FailedPrecondition(schema_a.columns().empty() ? path_a_ : path_b_,
                                ": has no columns: there is nothing to compare");
    }
    SHARDKIT_ASSIGN_OR_RETURN(a_, OpenWith(path_a_, options_.a, columns(key_a, schema_a)));
    SHARDKIT_ASSIGN_OR_RETURN(b_, OpenWith(path_b_, options_.b, columns(key_b, schema_b)));
    if (!diff_.by_key) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(keys_b_, OpenWith(path_b_, options_.b, {*key_b}));
    SHARDKIT_ASSIGN_OR_RETURN(key_in_a_, a_->FindColumn(*key_a));
    SHARDKIT_ASSIGN_OR_RETURN(key_in_b_, b_->FindColumn(*key_b));
    return absl::OkStatus();
  }

  absl::Status Check() const {
    return options_.cancellation ? options_.cancellation->Check("comparing datasets") : absl::OkStatus();
  }

  void Add(DiffCount& count, std::string_view key, std::optional<uint64_t> a, std::optional<uint64_t> b) const {
    ++count.count;
    if (count.examples.size() < most_examples_) count.examples.push_back({std::string(key), a, b});
  }

  // Leaves the first examples.
  void Sort(DiffCount* count) const {
    const auto place = [](const DiffExample& example) { return example.a ? *example.a : *example.b; };
    std::ranges::sort(count->examples, {}, place);
    count->examples.resize(std::min(count->examples.size(), options_.max_examples));
  }

  // Calls `take` with each sample's place in its block, and its ordinal, until it returns false.
  template <typename Take>
  absl::Status ForEachSample(const DatasetReader& dataset, const std::vector<OrdinalRange>& ranges, Take take) {
    for (const OrdinalRange& range : ranges) {
      SHARDKIT_ASSIGN_OR_RETURN(
          const auto scanner,
          dataset.Scan({.threads = options_.threads, .first_sample = range.begin, .end_sample = range.end}));
      while (true) {
        SHARDKIT_RETURN_IF_ERROR(Check());
        SHARDKIT_ASSIGN_OR_RETURN(const auto block, scanner->Next());
        if (!block) break;
        for (uint32_t i = 0; i < block->view().sample_count(); ++i) {
          const uint64_t sample = block->first_sample() + i;
          if (sample < range.begin || sample >= range.end) continue;  // blocks may reach beyond
          SHARDKIT_ASSIGN_OR_RETURN(const bool more, take(block->view(), i, sample));
          if (!more) return block->CheckMapped();
        }
        SHARDKIT_RETURN_IF_ERROR(block->CheckMapped());
      }
    }
    return absl::OkStatus();
  }

  static std::string_view KeyIn(const BlockView& view, size_t column, uint32_t i) {
    return view.column(column).value(i).value_or(std::string_view());
  }

  void Progress() {
    if (options_.progress && ++done_ % 1024 == 0) options_.progress(done_, a_->sample_count());
  }

  // Compares sample i of the view, of A, with values_, those of sample `other` of B.
  void CompareValues(const BlockView& view, uint32_t i, std::string_view key, uint64_t sample, uint64_t other) {
    ++diff_.matched;
    for (size_t column = 0; column < compared_.size(); ++column) {
      if (view.column(column).value(i) == values_[column]) continue;
      Add(diff_.columns[column].values, key, sample, other);
    }
  }

  absl::Status MatchOrdinals(const std::vector<OrdinalRange>& ranges_a, Samples& samples) {
    const auto compare = [&](const BlockView& view, uint32_t i, uint64_t sample) -> absl::StatusOr<bool> {
      Progress();
      if (sample >= b_->sample_count()) {
        Add(diff_.only_a, {}, sample, std::nullopt);
        return true;
      }
      if (!compared_.empty()) SHARDKIT_RETURN_IF_ERROR(samples.Read(sample, &values_));
      CompareValues(view, i, {}, sample, sample);
      SHARDKIT_RETURN_IF_ERROR(samples.CheckMapped());
      return true;
    };
    SHARDKIT_RETURN_IF_ERROR(ForEachSample(*a_, ranges_a, compare));
    for (const OrdinalRange& range : Behind(ranges_b_, a_->sample_count())) {
      for (uint64_t sample = range.begin; sample < range.end; ++sample) Add(diff_.only_b, {}, std::nullopt, sample);
    }
    return absl::OkStatus();
  }

  // The i-th sample of a key in A is matched with the i-th in B. As long as both have the same keys one after the
  // other, that is the next one; the samples behind are looked for by their keys.
  absl::Status MatchKeys(const std::vector<OrdinalRange>& ranges_a, Samples& samples) {
    uint64_t rest_a = UINT64_MAX, rest_b = ranges_b_.empty() ? UINT64_MAX : ranges_b_[0].begin;
    size_t range = 0;
    const auto compare = [&](const BlockView& view, uint32_t i, uint64_t sample) -> absl::StatusOr<bool> {
      const std::string_view key = KeyIn(view, key_in_a_, i);
      if (rest_b != UINT64_MAX) SHARDKIT_RETURN_IF_ERROR(samples.Read(rest_b, &values_));
      if (rest_b == UINT64_MAX || values_[key_in_b_] != key) {
        rest_a = sample;
        return false;
      }
      Progress();
      CompareValues(view, i, key, sample, rest_b);
      if (++rest_b == ranges_b_[range].end) rest_b = ++range < ranges_b_.size() ? ranges_b_[range].begin : UINT64_MAX;
      SHARDKIT_RETURN_IF_ERROR(samples.CheckMapped());
      return true;
    };
    SHARDKIT_RETURN_IF_ERROR(ForEachSample(*a_, ranges_a, compare));
    const std::vector<OrdinalRange> left_a = Behind(ranges_a, rest_a), left_b = Behind(ranges_b_, rest_b);
    const uint64_t most = std::max<uint64_t>(options_.key_memory / sizeof(KeyPlaces::Place), 1);
    const uint64_t parts = std::max<uint64_t>((Count(left_b) + most - 1) / most, 1);
    for (uint64_t part = 0; part < parts; ++part) {
      SHARDKIT_RETURN_IF_ERROR(MatchPart(left_a, left_b, part, parts, samples));
    }
    if (parts > 1) {
      Sort(&diff_.only_a);
      Sort(&diff_.only_b);
      for (ColumnDiff& column : diff_.columns) Sort(&column.values);
    }
    return absl::OkStatus();
  }

  // Matches the samples whose keys' hashes are those of one of `parts` parts.
  absl::Status MatchPart(const std::vector<OrdinalRange>& left_a, const std::vector<OrdinalRange>& left_b,
                         uint64_t part, uint64_t parts, Samples& samples) {
    most_examples_ = options_.max_examples * (part + 1);  // the first of this part may come before all others
    KeyPlaces places;
    const auto note = [&](const BlockView& view, uint32_t i, uint64_t sample) -> absl::StatusOr<bool> {
      const Hash128Bytes hash = Hash128(KeyIn(view, 0, i));
      if (PartOf(hash, parts) == part) places.Add(hash, sample);
      return true;
    };
    SHARDKIT_RETURN_IF_ERROR(ForEachSample(*keys_b_, left_b, note));
    places.Sort();
    const auto compare = [&](const BlockView& view, uint32_t i, uint64_t sample) -> absl::StatusOr<bool> {
      const std::string_view key = KeyIn(view, key_in_a_, i);
      const Hash128Bytes hash = Hash128(key);
      if (PartOf(hash, parts) != part) return true;
      Progress();
      const std::optional<uint64_t> other = places.Take(hash);
      if (!other) {
        Add(diff_.only_a, key, sample, std::nullopt);
        return true;
      }
      if (!compared_.empty()) SHARDKIT_RETURN_IF_ERROR(samples.Read(*other, &values_));
      CompareValues(view, i, key, sample, *other);
      SHARDKIT_RETURN_IF_ERROR(samples.CheckMapped());
      return true;
    };
    SHARDKIT_RETURN_IF_ERROR(ForEachSample(*a_, left_a, compare));
    std::vector<DiffExample> examples;
    places.ForEachLeft([&](uint64_t sample) {
      ++diff_.only_b.count;
      examples.push_back({{}, std::nullopt, sample});
    });
    const auto named = static_cast<ptrdiff_t>(std::min(examples.size(), options_.max_examples));
    std::ranges::partial_sort(examples, examples.begin() + named, {}, &DiffExample::b);
    for (DiffExample& example : std::span(examples).first(static_cast<size_t>(named))) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto key, keys_b_->ReadValue(*example.b, 0, &key_buffer_));
      example.key = key.value_or(std::string_view());
      diff_.only_b.examples.push_back(std::move(example));
    }
    return absl::OkStatus();
  }

  ReadableFileSystem& file_system_;
  const std::string& path_a_;
  const std::string& path_b_;
  const DiffOptions& options_;
  std::vector<std::string> compared_;
  std::unique_ptr<DatasetReader> a_;  // columns(): those compared, then the key
  std::unique_ptr<DatasetReader> b_;
  std::unique_ptr<DatasetReader> keys_b_;  // the key alone; null without keys
  size_t key_in_a_ = 0;
  size_t key_in_b_ = 0;
  BlockBuffer key_buffer_;
  std::vector<std::optional<std::string_view>> values_;
  std::vector<OrdinalRange> ranges_b_;
  uint64_t done_ = 0;  // samples of A
  uint64_t most_examples_ = options_.max_examples;
  DatasetDiff diff_;
};

}  // namespace

absl::StatusOr<DatasetDiff> DiffDatasets(ReadableFileSystem& file_system, const std::string& a, const std::string& b,
                                         const DiffOptions& options) {
  return Guarded("comparing datasets", [&] { return Diff(file_system, a, b, options).Run(); });
}

}  // namespace shardkit
