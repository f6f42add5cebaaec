#include "dataset/view/seen_dataset.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "container/block_buffer.h"
#include "dataset/schema_mapper.h"
#include "dataset/view/layer_reader.h"
#include "dataset/view/removed_samples.h"
#include "dataset/view/selected_rows.h"

namespace shardkit {
namespace {

constexpr int kOpeningThreads = 8;
constexpr size_t kNone = SIZE_MAX;

// Where a run of a column's values is: in a layer, in the shards (no layer), or nowhere (no column).
struct Run {
  uint64_t end = 0;  // stored samples
  size_t layer = kNone;
  size_t column = kNone;  // in DatasetReader::columns() of the layer, or of the stored dataset

  bool operator==(const Run&) const = default;
};

class SeenDataset final : public DatasetReader {
 public:
  absl::Status Open(ReadableFileSystem& file_system, std::unique_ptr<dataset::StoredDataset> stored,
                    const DatasetOptions& options) {
    stored_ = std::move(stored);
    summary_ = stored_->summary();
    if (summary_.removed) {
      SHARDKIT_ASSIGN_OR_RETURN(
          removed_, dataset::RemovedList::Read(file_system, path(), *summary_.removed, stored_->sample_count()));
      summary_.sample_count -= removed_.size();
    }
    if (!summary_.view) {
      columns_ = stored_->columns();
      for (size_t i = 0; i < columns_.size(); ++i) runs_.push_back({{.end = UINT64_MAX, .column = i}});
      return absl::OkStatus();
    }
    summary_.schema = summary_.view->schema;
    SHARDKIT_ASSIGN_OR_RETURN(columns_, dataset::ChosenColumns(summary_.schema, options, path()));
    return OpenLayers(file_system, options);
  }

  const std::string& path() const override { return stored_->path(); }
  std::string_view container() const override { return stored_->container(); }
  const ManifestSummary& summary() const override { return summary_; }
  const std::vector<Column>& columns() const override { return columns_; }
  std::string fallback_reason() const override { return stored_->fallback_reason(); }
  std::span<const LostSample> lost_samples() const override { return stored_->lost_samples(); }
  std::vector<std::string> notes() const override { return stored_->notes(); }
  absl::StatusOr<Manifest> ReadManifest() const override { return stored_->ReadManifest(); }

  std::string index_problem() const override {
    std::string problem = stored_->index_problem();
    for (size_t i = 0; i < layers_.size() && problem.empty(); ++i) {
      if (layers_[i]) problem = layers_[i]->dataset().index_problem();
    }
    return problem;
  }

  absl::StatusOr<Location> Locate(uint64_t sample) const override {
    SHARDKIT_RETURN_IF_ERROR(CheckSample(sample));
    return stored_->Locate(removed_.Stored(sample));
  }

  absl::StatusOr<std::shared_ptr<const ShardReader>> OpenShard(size_t shard) const override {
    return stored_->OpenShard(shard);
  }

  absl::StatusOr<ManifestShard> Shard(size_t shard) const override {
    SHARDKIT_ASSIGN_OR_RETURN(ManifestShard listed, stored_->Shard(shard));
    if (removed_.size() == 0) return listed;
    SHARDKIT_ASSIGN_OR_RETURN(const dataset::PlacedShard place, stored_->Place(shard));
    listed.samples -= removed_.Within(place.first_sample, place.first_sample + listed.samples).size();
    return listed;
  }

  absl::Status ForEachShard(const std::function<absl::Status(const ManifestShard&)>& take) const override {
    uint64_t first = 0;
    return stored_->ForEachShard([&](const ManifestShard& listed) {
      ManifestShard seen = listed;
      seen.samples -= removed_.Within(first, first + listed.samples).size();
      first += listed.samples;
      return take(seen);
    });
  }

  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, size_t column,
                                                            BlockBuffer* buffer) const override {
    SHARDKIT_ASSIGN_OR_RETURN(const auto found, Find(sample, column));
    const auto& [run, stored] = found;
    if (run.column == kNone) return std::optional<std::string_view>();
    return DatasetOf(run).ReadValue(stored, run.column, buffer);
  }

  absl::Status ReadValues(std::span<const uint64_t> samples, size_t column, BlockBuffer* buffer,
                          std::span<std::string_view> values) const override;

  absl::StatusOr<bool> CopyValue(uint64_t sample, size_t column, const ByteSink& sink) const override {
    SHARDKIT_ASSIGN_OR_RETURN(const auto found, Find(sample, column));
    const auto& [run, stored] = found;
    if (run.column == kNone) return false;
    return DatasetOf(run).CopyValue(stored, run.column, sink);
  }

  absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const override {
    if (!summary_.schema.key_column()) return FailedPrecondition(path(), ": has no key column");
    SHARDKIT_ASSIGN_OR_RETURN(
        const std::optional<uint64_t> stored,
        stored_->FindKeyWhere(key, buffer, [this](uint64_t sample) { return !removed_.Has(sample); }));
    if (!stored) return stored;
    return std::optional<uint64_t>(*stored - removed_.Before(*stored));
  }

  absl::Status ForEachBlock(const std::function<absl::Status(const DatasetBlock&)>& take) const override {
    return stored_->ForEachBlock([&](const DatasetBlock& block) { return TakeSeen(block, take); });
  }

  absl::Status ForEachBlockOf(std::span<const SampleRange> shards,
                              const std::function<absl::Status(const DatasetBlock&)>& take) const override {
    std::vector<SampleRange> whole;
    for (const SampleRange& range : shards) {
      if (range.count == 0) continue;
      SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(range.first));
      SHARDKIT_ASSIGN_OR_RETURN(const dataset::PlacedShard place, stored_->Place(location.shard));
      whole.push_back({place.first_sample, place.shard.samples});
    }
    return stored_->ForEachBlockOf(whole, [&](const DatasetBlock& block) { return TakeSeen(block, take); });
  }

  absl::Status ReadBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view) const override {
    SHARDKIT_RETURN_IF_ERROR(stored_->ReadBlock(shard, block, buffer, view));
    SHARDKIT_ASSIGN_OR_RETURN(const dataset::PlacedShard place, stored_->Place(shard));
    uint64_t first_sample = place.first_sample + view->first_sample();
    return At(Complete(&first_sample, buffer, view, nullptr), {.path = path(), .shard = shard, .block = block});
  }

  absl::Status SalvageBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                            BlockDamage* damage) const override {
    SHARDKIT_RETURN_IF_ERROR(stored_->SalvageBlock(shard, block, buffer, view, damage));
    SHARDKIT_ASSIGN_OR_RETURN(const dataset::PlacedShard place, stored_->Place(shard));
    uint64_t first_sample = place.first_sample + view->first_sample();
    return At(Complete(&first_sample, buffer, view, damage), {.path = path(), .shard = shard, .block = block});
  }

  absl::StatusOr<std::unique_ptr<BlockScanner>> Scan(const ScanOptions& options) const override {
    ScanOptions stored = options;
    stored.first_sample = options.first_sample < sample_count() ? removed_.Stored(options.first_sample) : UINT64_MAX;
    stored.end_sample = options.end_sample < sample_count() ? removed_.Stored(options.end_sample) : UINT64_MAX;
    if (options.samples != nullptr) {
      auto samples = std::make_shared<std::vector<uint64_t>>();
      for (const uint64_t sample : *options.samples) {
        if (sample < sample_count()) samples->push_back(removed_.Stored(sample));
      }
      stored.samples = std::move(samples);
    }
    return stored_->ScanWith(stored, [this](uint64_t* first_sample, BlockBuffer* buffer, BlockView* view) {
      return Complete(first_sample, buffer, view, nullptr);
    });
  }

  absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const override {
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<ColumnStatistics> stored, stored_->ReadStatistics());
    std::vector<std::vector<ColumnStatistics>> of_layers(layers_.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (!layers_[i]) continue;
      SHARDKIT_ASSIGN_OR_RETURN(of_layers[i], layers_[i]->dataset().ReadStatistics());
    }
    std::vector<ColumnStatistics> merged(columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i) {
      std::vector<std::pair<size_t, size_t>> taken;
      for (const Run& run : runs_[i]) {
        const std::pair source(run.layer, run.column);
        if (run.column == kNone || std::ranges::find(taken, source) != taken.end()) continue;
        taken.push_back(source);
        merged[i].Merge((run.layer == kNone ? stored : of_layers[run.layer])[run.column]);
      }
    }
    return merged;
  }

 private:
  absl::Status OpenLayers(ReadableFileSystem& file_system, const DatasetOptions& options);

  absl::Status CheckSample(uint64_t sample) const {
    if (sample < sample_count()) return absl::OkStatus();
    return OutOfRange(path(), ": has ", sample_count(), " samples; there is no sample ", sample);
  }

  // The run of the column that has the stored sample.
  const Run& RunOf(uint64_t stored, size_t column) const {
    return *std::ranges::upper_bound(runs_[column], stored, {}, &Run::end);
  }

  const DatasetReader& DatasetOf(const Run& run) const {
    if (run.layer == kNone) return *stored_;
    return layers_[run.layer]->dataset();
  }

  absl::StatusOr<std::pair<Run, uint64_t>> Find(uint64_t sample, size_t column) const {
    SHARDKIT_RETURN_IF_ERROR(CheckSample(sample));
    if (column >= columns_.size()) return InvalidArgument(path(), ": there is no column ", column);
    const uint64_t stored = removed_.Stored(sample);
    return std::pair(RunOf(stored, column), stored);
  }

  absl::Status TakeSeen(const DatasetBlock& stored,
                        const std::function<absl::Status(const DatasetBlock&)>& take) const {
    DatasetBlock block = stored;
    const uint64_t before = removed_.Before(stored.first_sample);
    block.first_sample -= before;
    block.sample_count -= static_cast<uint32_t>(removed_.Before(stored.first_sample + stored.sample_count) - before);
    return take(block);
  }

  // Makes of a stored block what is seen of it. With `damage`, which tells of the stored block and then of what is
  // seen, a layer that cannot be read is damage, too.
  absl::Status Complete(uint64_t* first_sample, BlockBuffer* buffer, BlockView* view, BlockDamage* damage) const;

  std::unique_ptr<dataset::StoredDataset> stored_;
  ManifestSummary summary_;
  dataset::RemovedList removed_;
  std::vector<Column> columns_;
  std::vector<std::vector<Run>> runs_;                         // of each column; the last one ends at UINT64_MAX
  std::vector<std::unique_ptr<dataset::LayerReader>> layers_;  // null: no column is read from it
  const std::unique_ptr<dataset::LayerCache> cache_ = std::make_unique<dataset::LayerCache>();
};

absl::Status SeenDataset::OpenLayers(ReadableFileSystem& file_system, const DatasetOptions& options) {
  const DatasetView& view = *summary_.view;
  const auto position = [](const std::vector<Column>& columns, std::string_view name) {
    const auto found = std::ranges::find(columns, name, &Column::name);
    return found == columns.end() ? kNone : static_cast<size_t>(found - columns.begin());
  };
  std::vector<std::vector<std::string>> wanted(view.layers.size());
  for (const Column& column : columns_) {
    for (const ColumnSource& source : view.sources[*view.schema.Find(column.name)]) {
      if (source.layer && std::ranges::find(wanted[*source.layer], source.column) == wanted[*source.layer].end()) {
        wanted[*source.layer].push_back(source.column);
      }
    }
  }
  layers_.resize(view.layers.size());
  using Opened = absl::StatusOr<std::unique_ptr<dataset::LayerReader>>;
  const auto count = static_cast<int>(std::ranges::count_if(wanted, [](const auto& names) { return !names.empty(); }));
  {
    ThreadPool pool(std::clamp(count, 1, kOpeningThreads));
    OrderedTasks<Opened, size_t> opening(pool, "opening layers", nullptr, wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].empty()) continue;
      opening.Add(
          [&, i] { return dataset::LayerReader::Open(file_system, path(), view.layers[i], options, wanted[i]); }, i);
    }
    while (!opening.empty()) {
      auto [layer, opened] = opening.Take();
      SHARDKIT_ASSIGN_OR_RETURN(layers_[layer], std::move(opened));
    }
  }
  for (const Column& column : columns_) {
    std::vector<Run>& runs = runs_.emplace_back();
    for (const ColumnSource& source : view.sources[*view.schema.Find(column.name)]) {
      Run run{.end = source.end};
      if (source.layer) {
        const DatasetReader& layer = layers_[*source.layer]->dataset();
        run.layer = *source.layer;
        run.column = position(layer.columns(), source.column);
        const std::string_view difference = dataset::ColumnDifference(layer.columns()[run.column], column);
        if (!difference.empty()) {
          return DataLoss(layer.path(), ": column \"", source.column, "\" of a layer does not fit column \"",
                          column.name, "\" of ", path(), ": its ", difference, " differs");
        }
      } else if (!source.column.empty()) {
        run.column = position(stored_->columns(), source.column);
      }
      runs.push_back(run);
    }
    if (!runs.empty() && runs.back().end == stored_->sample_count()) {
      runs.back().end = UINT64_MAX;
    } else {
      runs.push_back({.end = UINT64_MAX, .column = position(stored_->columns(), column.name)});
    }
  }
  return absl::OkStatus();
}

absl::Status SeenDataset::Complete(uint64_t* first_sample, BlockBuffer* buffer, BlockView* view,
                                   BlockDamage* damage) const {
  const uint64_t first = *first_sample;
  const uint64_t end = first + view->sample_count();
  const std::span<const uint64_t> removed = removed_.Within(first, end);
  *first_sample = first - removed_.Before(first);
  if (removed.empty() && !summary_.view) return absl::OkStatus();
  std::vector<uint32_t> kept;  // empty where all are seen
  if (!removed.empty()) {
    for (uint64_t sample = first, i = 0; sample < end; ++sample) {
      if (i < removed.size() && removed[i] == sample) {
        ++i;
      } else {
        kept.push_back(static_cast<uint32_t>(sample - first));
      }
    }
  }
  const auto count = static_cast<uint32_t>(end - first - removed.size());
  const dataset::SelectedRows rows{count, 0, kept};
  BlockBuffer::State& state = buffer->state();
  state.layers.clear();
  struct Part {
    ColumnView column;
    dataset::SelectedRows rows;
    bool as_it_is = false;
  };
  std::vector<Part> parts(columns_.size());
  std::map<size_t, std::shared_ptr<const dataset::LayerBlock>> blocks;
  BlockDamage found;  // of what is seen
  uint64_t words = 0;
  for (size_t i = 0; i < columns_.size() && count > 0; ++i) {
    const Run& run = RunOf(first, i);
    if (run.end < end) {
      return DataLoss(path(), ": ", kManifestName, ": a source of column \"", columns_[i].name, "\" ends at sample ",
                      run.end, ", within a block");
    }
    Part& part = parts[i];
    part = {ColumnView::Missing(count), rows, true};
    if (run.column == kNone) continue;
    if (run.layer == kNone) {
      part.column = view->column(run.column);
      part.as_it_is = removed.empty();
    } else {
      std::shared_ptr<const dataset::LayerBlock>& block = blocks[run.layer];
      if (!block) {
        auto read = layers_[run.layer]->Read(first, end, *cache_);
        if (!read.ok() && damage != nullptr && absl::IsDataLoss(read.status())) {
          found.columns[i] = read.status();
          continue;
        }
        SHARDKIT_RETURN_IF_ERROR(read.status());
        block = *std::move(read);
        state.layers.push_back(block);
      }
      part.column = block->columns[run.column];
      part.rows.first = static_cast<uint32_t>(first - block->first_sample);
      part.as_it_is = false;
    }
    if (!part.as_it_is) words += dataset::WordsToSelect(part.column, part.rows);
  }
  if (damage != nullptr) {
    for (size_t i = 0; i < columns_.size() && count > 0; ++i) {
      const Run& run = RunOf(first, i);
      if (run.layer != kNone || run.column == kNone) continue;
      if (const auto why = damage->columns.find(run.column); why != damage->columns.end()) {
        found.columns[i] = why->second;
      }
      for (const auto& [place, why] : damage->values) {
        if (place.second != run.column || removed_.Has(first + place.first)) continue;
        const uint64_t before = removed_.Before(first + place.first) - removed_.Before(first);
        found.values[{static_cast<uint32_t>(place.first - before), i}] = why;
      }
    }
    *damage = std::move(found);
  }
  if (state.selected.size() < words) state.selected.resize(words);
  uint64_t* memory = state.selected.data();
  container::BlockAssembler::Reset(view, view->first_sample(), count, columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Part& part = parts[i];
    container::BlockAssembler::Set(view, i,
                                   part.as_it_is ? part.column : dataset::SelectRows(part.column, part.rows, &memory));
  }
  return absl::OkStatus();
}

absl::Status SeenDataset::ReadValues(std::span<const uint64_t> samples, size_t column, BlockBuffer* buffer,
                                     std::span<std::string_view> values) const {
  if (values.size() != samples.size()) return InvalidArgument(path(), ": as many views as samples are needed");
  std::map<std::pair<size_t, size_t>, std::vector<size_t>> by_source;  // layer and column: positions in `samples`
  std::vector<uint64_t> stored(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto found, Find(samples[i], column));
    stored[i] = found.second;
    by_source[{found.first.layer, found.first.column}].push_back(i);
  }
  std::ranges::fill(values, std::string_view());
  if (by_source.size() == 1) {
    const auto [layer, of_source] = by_source.begin()->first;
    if (of_source == kNone) return absl::OkStatus();
    return DatasetOf({.layer = layer}).ReadValues(stored, of_source, buffer, values);
  }
  // The values of one source make room for those of the next.
  std::string gathered;
  std::vector<std::pair<size_t, size_t>> places(samples.size());  // begin and length
  for (const auto& [source, positions] : by_source) {
    const auto [layer, of_source] = source;
    if (of_source == kNone) continue;
    std::vector<uint64_t> part;
    for (const size_t i : positions) part.push_back(stored[i]);
    std::vector<std::string_view> read(part.size());
    SHARDKIT_RETURN_IF_ERROR(DatasetOf({.layer = layer}).ReadValues(part, of_source, buffer, read));
    for (size_t k = 0; k < positions.size(); ++k) {
      values[positions[k]] = read[k].data() == nullptr ? std::string_view() : std::string_view("", 0);
      places[positions[k]] = {gathered.size(), read[k].size()};
      gathered += read[k];
    }
    SHARDKIT_RETURN_IF_ERROR(buffer->CheckMapped());
  }
  std::string& kept = buffer->state().gathered = std::move(gathered);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].data() != nullptr) values[i] = std::string_view(kept).substr(places[i].first, places[i].second);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Column>> dataset::ChosenColumns(const Schema& schema, const DatasetOptions& options,
                                                           const std::string& path) {
  if (options.columns.empty()) return schema.columns();
  std::vector<Column> chosen;
  for (const std::string& name : options.columns) {
    const std::optional<size_t> position = schema.Find(name);
    if (!position) return Annotate(dataset::NoSuchColumn(name, schema.columns()), path);
    chosen.push_back(schema[*position]);
  }
  if (const auto key = schema.key_column(); key && options.key_column) {
    if (std::ranges::find(chosen, schema[*key].name, &Column::name) == chosen.end()) chosen.push_back(schema[*key]);
  }
  return chosen;
}

std::vector<Column> dataset::StoredColumns(const ManifestSummary& summary, const std::vector<Column>& seen) {
  std::vector<Column> stored;
  const auto add = [&](std::string_view name) {
    const std::optional<size_t> position = summary.schema.Find(name);
    if (!position || std::ranges::find(stored, name, &Column::name) != stored.end()) return;
    stored.push_back(summary.schema[*position]);
  };
  for (const Column& column : seen) {
    const std::vector<ColumnSource>& sources = summary.view->sources[*summary.view->schema.Find(column.name)];
    for (const ColumnSource& source : sources) {
      if (!source.layer && !source.column.empty()) add(source.column);
    }
    if (sources.empty() || sources.back().end < summary.sample_count) add(column.name);
  }
  return stored;
}

absl::StatusOr<std::unique_ptr<DatasetReader>> DatasetReader::Open(ReadableFileSystem& file_system,
                                                                   const std::string& path,
                                                                   const DatasetOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<dataset::StoredDataset> stored,
                            dataset::StoredDataset::Open(file_system, path, options));
  if (stored->plain()) return stored;
  auto seen = std::make_unique<SeenDataset>();
  SHARDKIT_RETURN_IF_ERROR(At(seen->Open(file_system, std::move(stored), options), {.path = path}));
  return seen;
}

}  // namespace shardkit
