#include "shardkit/diff.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/schema_mapper.h"

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

// The samples of the shards that are not among `others`. Shards of other containers may have no hash, which is zero.
std::vector<OrdinalRange> Outside(const std::vector<PlacedHash>& shards, const std::vector<PlacedHash>& others) {
  const std::set<PlacedHash> known(others.begin(), others.end());
  std::vector<OrdinalRange> ranges;
  uint64_t first = 0;
  for (const PlacedHash& shard : shards) {
    const OrdinalRange range{first, first + shard.samples};
    first = range.end;
    if ((shard.hash != ContentHash{} && known.contains(shard)) || shard.samples == 0) continue;
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

// The ranges ascend.
bool Contains(const std::vector<OrdinalRange>& ranges, uint64_t sample) {
  const auto behind = std::ranges::upper_bound(ranges, sample, {}, &OrdinalRange::begin);
  return behind != ranges.begin() && sample < std::prev(behind)->end;
}

std::optional<std::string> KeyName(const Schema& schema) {
  const std::optional<size_t> key = schema.key_column();
  return key ? std::optional(schema[*key].name) : std::nullopt;
}

bool SameType(const Column& a, const Column& b) {
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
    for (const OrdinalRange& range : ranges_a) SHARDKIT_RETURN_IF_ERROR(CompareRange(range, samples));
    // Where B has no samples but those that were met, its keys need not be read.
    const bool all_met = ascending_ && met_ == Count(ranges_b_);
    if (!all_met) {
      for (const OrdinalRange& range : ranges_b_) SHARDKIT_RETURN_IF_ERROR(LookForRange(range));
    }
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
      if (!SameType(column, schema_b[*other])) diff_.types.push_back(column.name);
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
    SHARDKIT_ASSIGN_OR_RETURN(key_position_, a_->FindColumn(*key_a));
    return absl::OkStatus();
  }

  absl::Status Check() const {
    return options_.cancellation ? options_.cancellation->Check("comparing datasets") : absl::OkStatus();
  }

  void Add(DiffCount& count, std::string_view key, std::optional<uint64_t> a, std::optional<uint64_t> b) const {
    ++count.count;
    if (count.examples.size() < options_.max_examples) count.examples.push_back({std::string(key), a, b});
  }

  // Calls `take` with each sample's place in its block, and its ordinal.
  template <typename Take>
  absl::Status ForEachSample(const DatasetReader& dataset, const OrdinalRange& range, Take take) {
    SHARDKIT_ASSIGN_OR_RETURN(
        const auto scanner,
        dataset.Scan({.threads = options_.threads, .first_sample = range.begin, .end_sample = range.end}));
    while (true) {
      SHARDKIT_RETURN_IF_ERROR(Check());
      SHARDKIT_ASSIGN_OR_RETURN(const auto block, scanner->Next());
      if (!block) return absl::OkStatus();
      for (uint32_t i = 0; i < block->view().sample_count(); ++i) {
        const uint64_t sample = block->first_sample() + i;
        if (sample < range.begin || sample >= range.end) continue;  // blocks may reach beyond
        SHARDKIT_RETURN_IF_ERROR(take(block->view(), i, sample));
      }
      SHARDKIT_RETURN_IF_ERROR(block->CheckMapped());
    }
  }

  absl::Status CompareRange(const OrdinalRange& range, Samples& samples) {
    return ForEachSample(*a_, range, [&](const BlockView& view, uint32_t i, uint64_t sample) -> absl::Status {
      std::string_view key;
      std::optional<uint64_t> other;
      if (diff_.by_key) {
        key = view.column(key_position_).value(i).value_or(std::string_view());
        SHARDKIT_ASSIGN_OR_RETURN(other, keys_b_->FindKey(key, &key_buffer_));
      } else if (sample < b_->sample_count()) {
        other = sample;
      }
      if (options_.progress && ++done_ % 1024 == 0) options_.progress(done_, a_->sample_count());
      if (!other) {
        Add(diff_.only_a, key, sample, std::nullopt);
        return absl::OkStatus();
      }
      ++diff_.matched;
      if (Contains(ranges_b_, *other)) {
        ascending_ = ascending_ && (met_ == 0 || *other > last_);
        ++met_;
        last_ = *other;
      }
      if (compared_.empty()) return absl::OkStatus();
      SHARDKIT_RETURN_IF_ERROR(samples.Read(*other, &values_));
      for (size_t column = 0; column < compared_.size(); ++column) {
        if (view.column(column).value(i) == values_[column]) continue;
        Add(diff_.columns[column].values, key, sample, *other);
      }
      return samples.CheckMapped();
    });
  }

  // Samples of B that A lacks.
  absl::Status LookForRange(const OrdinalRange& range) {
    if (!diff_.by_key) {
      for (uint64_t sample = std::max(range.begin, a_->sample_count()); sample < range.end; ++sample) {
        Add(diff_.only_b, {}, std::nullopt, sample);
      }
      return absl::OkStatus();
    }
    return ForEachSample(*keys_b_, range, [&](const BlockView& view, uint32_t i, uint64_t sample) -> absl::Status {
      const std::string_view key = view.column(0).value(i).value_or(std::string_view());
      SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> other, a_->FindKey(key, &key_buffer_));
      if (!other) Add(diff_.only_b, key, std::nullopt, sample);
      return absl::OkStatus();
    });
  }

  ReadableFileSystem& file_system_;
  const std::string& path_a_;
  const std::string& path_b_;
  const DiffOptions& options_;
  std::vector<std::string> compared_;
  std::unique_ptr<DatasetReader> a_;  // columns(): those compared, then the key
  std::unique_ptr<DatasetReader> b_;
  std::unique_ptr<DatasetReader> keys_b_;  // the key alone; null without keys
  size_t key_position_ = 0;
  BlockBuffer key_buffer_;
  std::vector<std::optional<std::string_view>> values_;
  std::vector<OrdinalRange> ranges_b_;
  uint64_t done_ = 0;  // samples of A
  uint64_t met_ = 0;   // samples of ranges_b_, while ascending_: all different
  uint64_t last_ = 0;  // of these
  bool ascending_ = true;
  DatasetDiff diff_;
};

}  // namespace

absl::StatusOr<DatasetDiff> DiffDatasets(ReadableFileSystem& file_system, const std::string& a, const std::string& b,
                                         const DiffOptions& options) {
  return Guarded("comparing datasets", [&] { return Diff(file_system, a, b, options).Run(); });
}

}  // namespace shardkit
