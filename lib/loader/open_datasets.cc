#include "loader/open_datasets.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::loader {

std::string OpenDatasets::fallback_reason() const {
  for (const auto& reader : readers) {
    if (std::string reason = reader->fallback_reason(); !reason.empty()) return reason;
  }
  return {};
}

void BlockPlaces::Add(const DatasetBlock& block) {
  if (shards_.empty() || shards_.back().number != block.shard) {
    shards_.push_back({block.shard, blocks_, block.forward_only});
  }
  ++blocks_;
}

DatasetBlock BlockPlaces::At(const PlanDataset& shape, uint32_t number, const PlanBlock& block) const {
  const auto place = [&](uint32_t shard, uint32_t first_block, bool forward_only) -> DatasetBlock {
    return {shard, number - first_block, block.first_sample, block.sample_count, block.bytes, forward_only};
  };
  if (!shape.shards.empty()) {
    const auto shard = std::prev(std::ranges::upper_bound(shape.shards, number, {}, &PlanShard::first_block));
    return place(static_cast<uint32_t>(shard - shape.shards.begin()), shard->first_block, false);
  }
  const Shard& shard = *std::prev(std::ranges::upper_bound(shards_, number, {}, &Shard::first_block));
  return place(shard.number, shard.first_block, shard.forward_only);
}

absl::StatusOr<PlanDataset> ReadShape(std::shared_ptr<const DatasetReader> reader, const LoaderDataset& dataset,
                                      bool alone, const PlanOptions& options, BlockPlaces* places) {
  PlanDataset shape{.proportion = dataset.proportion, .repeat = dataset.repeat, .choose = dataset.choose};
  // Segments distinguish datasets that have generations from what opens as one.
  if (!reader->summary().segments.empty()) shape.generation = reader->summary().generation;
  if (alone && reader->container() == "shard" && reader->summary().block_count > options.section_blocks) {
    uint64_t sample = 0, block = 0;
    SHARDKIT_RETURN_IF_ERROR(reader->ForEachShard([&](const ManifestShard& shard) -> absl::Status {
      if (shard.blocks > UINT32_MAX - block) return InvalidArgument(reader->path(), ": has 2^32 blocks or more");
      shape.shards.push_back(
          {sample, shard.samples, shard.bytes, static_cast<uint32_t>(block), static_cast<uint32_t>(shard.blocks)});
      sample += shard.samples;
      block += shard.blocks;
      return absl::OkStatus();
    }));
    shape.shards.shrink_to_fit();
    shape.read_blocks = [reader](std::span<const PlanShard> shards) -> absl::StatusOr<std::vector<PlanBlock>> {
      std::vector<SampleRange> ranges;
      for (const PlanShard& shard : shards) ranges.push_back({shard.first_sample, shard.sample_count});
      std::vector<PlanBlock> blocks;
      SHARDKIT_RETURN_IF_ERROR(reader->ForEachBlockOf(ranges, [&](const DatasetBlock& block) {
        blocks.push_back({block.first_sample, block.sample_count, block.length});
        return absl::OkStatus();
      }));
      return blocks;
    };
    return shape;
  }
  SHARDKIT_RETURN_IF_ERROR(reader->ForEachBlock([&](const DatasetBlock& block) {
    shape.blocks.push_back({block.first_sample, block.sample_count, block.length});
    if (places != nullptr) places->Add(block);
    return absl::OkStatus();
  }));
  shape.blocks.shrink_to_fit();
  return shape;
}

namespace {

// `key` if it is the key column of these datasets too.
absl::StatusOr<std::optional<std::string>> CommonKey(ReadableFileSystem& file_system,
                                                     std::span<const LoaderDataset> datasets, const std::string& key,
                                                     DatasetOptions options) {
  for (const LoaderDataset& dataset : datasets) {
    options.generation = dataset.generation;
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(file_system, dataset.path, options));
    const Schema& schema = reader->summary().schema;
    if (!schema.key_column() || schema[*schema.key_column()].name != key) return std::optional<std::string>();
  }
  return std::optional<std::string>(key);
}

}  // namespace

absl::StatusOr<OpenDatasets> OpenAll(ReadableFileSystem& file_system, std::span<const LoaderDataset> datasets,
                                     std::span<const std::string> wanted, bool keys, const ReadOptions& read,
                                     const PlanOptions& plan) {
  if (datasets.empty()) return InvalidArgument("loader: no dataset was given");
  OpenDatasets open;
  open.file_system = std::make_unique<TimedFileSystem>(file_system);
  std::vector<std::string> names(wanted.begin(), wanted.end());
  for (size_t i = 0; i < datasets.size(); ++i) {
    std::shared_ptr<const DatasetReader> reader;
    DatasetOptions options;
    static_cast<ReadOptions&>(options) = read;
    options.generation = datasets[i].generation;
    if (i == 0) {
      // The first dataset decides what is read. Columns that cannot be read do not matter when others are named.
      options.columns = names;
      options.key_column = keys;
      SHARDKIT_ASSIGN_OR_RETURN(reader, DatasetReader::Open(*open.file_system, datasets[0].path, options));
      const Schema& schema = reader->summary().schema;
      std::optional<std::string> stored_key, key;
      if (schema.key_column()) stored_key = schema[*schema.key_column()].name;
      if (keys && stored_key) {
        options.columns.clear();
        SHARDKIT_ASSIGN_OR_RETURN(key, CommonKey(*open.file_system, datasets.subspan(1), *stored_key, options));
      }
      if (names.empty()) {
        for (const Column& column : schema.columns()) {
          if (column.name != stored_key || key) names.push_back(column.name);
        }
      }
      if (key) {
        const auto found = std::ranges::find(names, *key);
        open.key_column = static_cast<size_t>(found - names.begin());
        if (found == names.end()) names.push_back(*key);
      }
      if (names.empty()) return InvalidArgument(datasets[0].path, ": has no columns to load");
    }
    if (i > 0 || !std::ranges::equal(names, reader->columns(), {}, {}, &Column::name)) {
      options.columns = names;
      options.key_column = false;
      auto opened = DatasetReader::Open(*open.file_system, datasets[i].path, options);
      if (!opened.ok()) return i == 0 ? opened.status() : Annotate(opened.status(), StrCat("loader: dataset ", i));
      reader = *std::move(opened);
    }
    for (size_t c = 0; i > 0 && c < names.size(); ++c) {
      const Column& column = reader->columns()[c];
      const Column& first = open.columns[c];
      if (column.type != first.type || column.dtype != first.dtype || column.shape != first.shape ||
          column.fixed_size() != first.fixed_size()) {
        return InvalidArgument(datasets[i].path, ": column \"", column.name, "\" is of another type or shape than in ",
                               datasets[0].path, "; datasets can be mixed only when the columns loaded are alike");
      }
      if (column.nullable) open.columns[c].nullable = true;
    }
    if (i == 0) open.columns = reader->columns();
    SHARDKIT_ASSIGN_OR_RETURN(open.shapes.emplace_back(),
                              ReadShape(reader, datasets[i], datasets.size() == 1, plan, &open.places.emplace_back()));
    open.readers.push_back(std::move(reader));
  }
  return open;
}

}  // namespace shardkit::loader
