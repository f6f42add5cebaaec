#include "loader/open_datasets.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "loader/columns/token_rows.h"
#include "shardkit/job.h"
#include "shardkit/select.h"

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

namespace {

// Which value of a column each sample has, as numbers that count the values.
struct Values {
  static constexpr uint32_t kAbsent = UINT32_MAX;
  std::vector<uint32_t> of_samples;
  uint32_t count = 0;
};

absl::StatusOr<Values> ReadValues(ReadableFileSystem& file_system, const DatasetReader& dataset,
                                  const LoaderDataset& wish, const ReadOptions& read) {
  DatasetOptions options;
  static_cast<ReadOptions&>(options) = read;
  options.columns = {wish.balance};
  options.generation = wish.generation;
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(file_system, wish.path, options));
  const Type type = reader->columns()[0].type;
  if (const RangeKind kind = RangeKindOf(type);
      type != Type::kUtf8 && kind != RangeKind::kI64 && kind != RangeKind::kU64) {
    return InvalidArgument(dataset.path(), ": column \"", wish.balance, "\" of type ", TypeName(type),
                           " cannot be balanced, only integers, bools and texts");
  }
  Values values;
  values.of_samples.reserve(reader->sample_count());
  absl::flat_hash_map<std::string, uint32_t> known;
  SHARDKIT_ASSIGN_OR_RETURN(const auto scanner, reader->Scan({.threads = ScanThreads(wish.path)}));
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto block, scanner->Next());
    if (block == nullptr) break;
    for (uint32_t i = 0; i < block->view().sample_count(); ++i) {
      const std::optional<std::string_view> value = block->view().column(0).value(i);
      const auto found = value ? known.try_emplace(std::string(*value), values.count).first : known.end();
      values.of_samples.push_back(value ? found->second : Values::kAbsent);
      values.count = static_cast<uint32_t>(known.size());
    }
    SHARDKIT_RETURN_IF_ERROR(block->CheckMapped());
  }
  if (values.of_samples.size() != dataset.sample_count()) {
    return FailedPrecondition(dataset.path(), ": has changed while it was read");
  }
  return values;
}

// Weights of the chosen samples by which all values come equally often.
absl::StatusOr<std::vector<double>> BalancedWeights(ReadableFileSystem& file_system, const DatasetReader& dataset,
                                                    const LoaderDataset& wish, const ReadOptions& read,
                                                    const std::vector<uint64_t>* selected, std::string* note) {
  SHARDKIT_ASSIGN_OR_RETURN(const Values values, ReadValues(file_system, dataset, wish, read));
  const uint64_t samples = selected != nullptr ? selected->size() : values.of_samples.size();
  const auto value_of = [&](uint64_t i) { return values.of_samples[selected != nullptr ? (*selected)[i] : i]; };
  std::vector<uint64_t> counts(values.count);
  uint64_t absent = 0;
  for (uint64_t i = 0; i < samples; ++i) ++(value_of(i) == Values::kAbsent ? absent : counts[value_of(i)]);
  std::vector<double> weights(samples);
  for (uint64_t i = 0; i < samples; ++i) {
    if (value_of(i) != Values::kAbsent) weights[i] = 1 / static_cast<double>(counts[value_of(i)]);
  }
  std::erase(counts, 0);
  if (counts.empty()) {
    return InvalidArgument(dataset.path(), ": no sample has a value of column \"", wish.balance, "\" to balance");
  }
  const auto [least, most] = std::ranges::minmax(counts);
  *note = StrCat(dataset.path(), ": ", counts.size(), " values of column \"", wish.balance, "\", of ", least, " to ",
                 most, " samples each");
  if (absent > 0) *note += StrCat("; ", absent, " samples without one are left out");
  return weights;
}

// Whether epochs take other samples than each once; then says which.
absl::StatusOr<bool> ChooseSamples(ReadableFileSystem& file_system, const DatasetReader& reader,
                                   const LoaderDataset& wish, const ReadOptions& read, Shape* shape) {
  const SampleSelection& selection = wish.selection;
  const bool all = selection.where.empty() && !selection.keys && selection.ranges.empty() && selection.share == 1;
  std::shared_ptr<const std::vector<uint64_t>> selected;
  if (!all) {
    SelectionOptions options;
    static_cast<InputOptions&>(options) = read;
    options.threads = ScanThreads(wish.path);
    options.generation = wish.generation;
    SHARDKIT_ASSIGN_OR_RETURN(FoundSamples found, FindSamples(file_system, wish.path, selection, options));
    // With a condition, the keys may be of samples that it leaves out.
    if (found.report.keys_missing > 0 && selection.where.empty() && selection.ranges.empty()) {
      return InvalidArgument(reader.path(), ": ", found.report.keys_missing, " of the keys chosen are of no sample");
    }
    if (found.report.samples != reader.sample_count()) {
      return FailedPrecondition(reader.path(), ": has changed while it was read");
    }
    if (found.ordinals.empty()) return InvalidArgument(reader.path(), ": no sample is chosen");
    selected = std::make_shared<const std::vector<uint64_t>>(std::move(found.ordinals));
    shape->dataset.selected = selected;
  }
  shape->dataset.replacement = wish.replacement;
  if (!wish.balance.empty()) {
    if (wish.weights != nullptr) {
      return InvalidArgument(reader.path(), ": balance makes weights of its own; give one of the two");
    }
    SHARDKIT_ASSIGN_OR_RETURN(auto weights,
                              BalancedWeights(file_system, reader, wish, read, selected.get(), &shape->balance_note));
    shape->dataset.weights = std::make_shared<const std::vector<double>>(std::move(weights));
  } else if (wish.weights != nullptr) {
    if (wish.weights->size() != reader.sample_count()) {
      return InvalidArgument(reader.path(), ": ", wish.weights->size(), " weights for ", reader.sample_count(),
                             " samples; give one for each");
    }
    shape->dataset.weights = wish.weights;
    if (selected != nullptr) {
      auto weights = std::make_shared<std::vector<double>>();
      for (const uint64_t ordinal : *selected) weights->push_back((*wish.weights)[ordinal]);
      shape->dataset.weights = std::move(weights);
    }
  } else if (!wish.replacement) {
    return InvalidArgument(reader.path(), ": replacement is about weights and balance, and there are none");
  }
  return shape->dataset.selected != nullptr || shape->dataset.weights != nullptr;
}

}  // namespace

int ScanThreads(const std::string& path) {
  constexpr int kLeastOfUrls = 16;
  return std::max(AvailableProcessors(), IsUrl(path) ? kLeastOfUrls : 1);
}

absl::StatusOr<Shape> ReadShape(ReadableFileSystem& file_system, std::shared_ptr<const DatasetReader> reader,
                                const LoaderDataset& dataset, bool alone, const PlanOptions& options,
                                const ReadOptions& read, BlockPlaces* places, const LoaderColumn* tokens,
                                BadSamples bad_samples) {
  Shape made;
  PlanDataset& shape = made.dataset;
  shape = {
      .proportion = dataset.proportion, .repeat = dataset.repeat, .choose = dataset.choose, .changes = dataset.changes};
  // Segments distinguish datasets that have generations from what opens as one.
  if (!reader->summary().segments.empty()) shape.generation = reader->summary().generation;
  SHARDKIT_ASSIGN_OR_RETURN(const bool chosen, ChooseSamples(file_system, *reader, dataset, read, &made));
  if (alone && !chosen && tokens == nullptr && reader->container() == "shard" &&
      reader->summary().block_count > options.section_blocks) {
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
    return made;
  }
  SHARDKIT_RETURN_IF_ERROR(reader->ForEachBlock([&](const DatasetBlock& block) {
    shape.blocks.push_back({block.first_sample, block.sample_count, block.length});
    if (places != nullptr) places->Add(block);
    return absl::OkStatus();
  }));
  shape.blocks.shrink_to_fit();
  if (tokens != nullptr) {
    SHARDKIT_ASSIGN_OR_RETURN(const size_t position, reader->FindColumn(SourceOf(*tokens)));
    SHARDKIT_ASSIGN_OR_RETURN(made.rows, TokenRows::Create(file_system, dataset, reader->columns()[position], *tokens,
                                                           options, read, bad_samples, &shape));
  }
  return made;
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

// The columns to read, by name.
struct Wanted {
  std::vector<std::string> names;
  std::optional<size_t> key;  // the key column of all datasets

  bool Has(std::string_view name) const { return std::ranges::find(names, name) != names.end(); }

  // All but the dataset's own key.
  void AddAll(const Schema& schema, bool with_key) {
    for (size_t i = 0; i < schema.size(); ++i) {
      if ((with_key || schema.key_column() != i) && !Has(schema[i].name)) names.push_back(schema[i].name);
    }
  }
};

// `first` is the first dataset, which decides what is read where no columns are named.
absl::StatusOr<Wanted> WantedColumns(ReadableFileSystem& file_system, std::span<const LoaderDataset> datasets,
                                     std::span<const std::string> named, const LoaderOptions& options,
                                     const DatasetReader& first) {
  Wanted wanted{{named.begin(), named.end()}, {}};
  const Schema& schema = first.summary().schema;
  DatasetOptions open;
  static_cast<ReadOptions&>(open) = options.read;
  std::optional<std::string> key;
  if (options.keys && schema.key_column()) {
    SHARDKIT_ASSIGN_OR_RETURN(key,
                              CommonKey(file_system, datasets.subspan(1), schema[*schema.key_column()].name, open));
  }
  if (named.empty()) wanted.AddAll(schema, key.has_value());
  for (size_t i = 1; named.empty() && options.missing == MissingColumns::kAbsent && i < datasets.size(); ++i) {
    open.generation = datasets[i].generation;
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(file_system, datasets[i].path, open));
    wanted.AddAll(reader->summary().schema, key.has_value());
  }
  if (key) {
    const auto found = std::ranges::find(wanted.names, *key);
    wanted.key = static_cast<size_t>(found - wanted.names.begin());
    if (found == wanted.names.end()) wanted.names.push_back(*key);
  }
  if (wanted.names.empty()) return InvalidArgument(datasets[0].path, ": has no columns to load");
  return wanted;
}

// Opens a dataset with those of the columns that it has. Others that cannot be read do not matter.
absl::StatusOr<std::unique_ptr<DatasetReader>> OpenWithOwn(ReadableFileSystem& file_system, const std::string& path,
                                                           DatasetOptions open, std::span<const std::string> names) {
  open.columns.assign(names.begin(), names.end());
  auto all = DatasetReader::Open(file_system, path, open);
  if (all.ok() || !absl::IsOutOfRange(all.status())) return all;
  open.columns.clear();
  for (const std::string& name : names) {
    DatasetOptions one = open;
    one.columns = {name};
    one.key_column = false;
    const absl::Status status = DatasetReader::Open(file_system, path, one).status();
    if (status.ok()) {
      open.columns.push_back(name);
    } else if (!absl::IsOutOfRange(status)) {
      return status;
    }
  }
  if (!open.columns.empty()) return DatasetReader::Open(file_system, path, open);
  return InvalidArgument(path, ": has none of the columns to load; leave it out, or name one that it has");
}

// What the datasets before it have in common.
struct Joined {
  std::vector<std::optional<Column>> columns;  // of the wanted ones
  std::vector<std::string> origins;            // the dataset that first had each
};

// Adds the columns of a dataset.
absl::Status JoinColumns(const DatasetReader& reader, std::span<const std::string> names, Joined* all) {
  for (const Column& column : reader.columns()) {
    const auto c = static_cast<size_t>(std::ranges::find(names, column.name) - names.begin());
    std::optional<Column>& known = all->columns[c];
    if (!known) {
      known = column;
      all->origins[c] = reader.path();
    }
    if (column.type != known->type || column.dtype != known->dtype || column.shape != known->shape ||
        column.fixed_size() != known->fixed_size()) {
      return InvalidArgument(reader.path(), ": column \"", column.name, "\" is of another type or shape than in ",
                             all->origins[c], "; datasets can be mixed only when the columns loaded are alike");
    }
    if (column.nullable) known->nullable = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenDatasets> OpenAll(ReadableFileSystem& file_system, std::span<const LoaderDataset> datasets,
                                     std::span<const std::string> named, const LoaderOptions& options,
                                     const LoaderColumn* tokens) {
  if (datasets.empty()) return InvalidArgument("loader: no dataset was given");
  const bool absent = options.missing == MissingColumns::kAbsent && datasets.size() > 1;
  OpenDatasets made;
  made.file_system = std::make_unique<TimedFileSystem>(file_system);
  made.numbered = options.keys;
  Wanted wanted;
  Joined joined;
  for (size_t i = 0; i < datasets.size(); ++i) {
    DatasetOptions open;
    static_cast<ReadOptions&>(open) = options.read;
    open.generation = datasets[i].generation;
    const auto named_error = [&](const absl::Status& status) {
      return i == 0 ? status : Annotate(status, StrCat("loader: dataset ", i));
    };
    std::shared_ptr<const DatasetReader> reader;
    if (i == 0 || absent) {
      open.key_column = options.keys;
      if (!absent) open.columns.assign(named.begin(), named.end());
      auto opened = absent ? OpenWithOwn(*made.file_system, datasets[i].path, open, named)
                           : DatasetReader::Open(*made.file_system, datasets[i].path, open);
      if (!opened.ok()) return named_error(opened.status());
      reader = *std::move(opened);
      open.key_column = false;
    }
    if (i == 0) {
      SHARDKIT_ASSIGN_OR_RETURN(wanted, WantedColumns(*made.file_system, datasets, named, options, *reader));
      joined.columns.resize(wanted.names.size());
      joined.origins.resize(wanted.names.size());
    }
    std::vector<size_t>& missing = made.missing.emplace_back();
    open.columns.clear();
    for (size_t c = 0; c < wanted.names.size(); ++c) {
      if (absent && !reader->summary().schema.Find(wanted.names[c])) {
        missing.push_back(c);
      } else {
        open.columns.push_back(wanted.names[c]);
      }
    }
    if (reader == nullptr || !std::ranges::equal(open.columns, reader->columns(), {}, {}, &Column::name)) {
      auto opened = DatasetReader::Open(*made.file_system, datasets[i].path, open);
      if (!opened.ok()) return named_error(opened.status());
      reader = *std::move(opened);
    }
    SHARDKIT_RETURN_IF_ERROR(JoinColumns(*reader, wanted.names, &joined));
    if (reader->summary().schema.key_column()) made.numbered = false;
    SHARDKIT_ASSIGN_OR_RETURN(
        Shape shape, ReadShape(*made.file_system, reader, datasets[i], datasets.size() == 1, options.plan, options.read,
                               &made.places.emplace_back(), tokens, options.bad_samples));
    made.shapes.push_back(std::move(shape.dataset));
    made.rows.push_back(std::move(shape.rows));
    if (!shape.balance_note.empty()) made.balance_notes.push_back(std::move(shape.balance_note));
    made.readers.push_back(std::move(reader));
  }
  for (size_t c = 0; c < wanted.names.size(); ++c) {
    if (!joined.columns[c]) {
      return absl::OutOfRangeError(
          StrCat("loader: none of the ", datasets.size(), " datasets has a column \"", wanted.names[c], "\""));
    }
    made.columns.push_back(*std::move(joined.columns[c]));
  }
  for (const std::vector<size_t>& missing : made.missing) {
    for (const size_t column : missing) made.columns[column].nullable = true;
  }
  made.key_column = wanted.key;
  return made;
}

namespace {

using Clock = std::chrono::steady_clock;

class Measurement {
 public:
  Measurement(TimedFileSystem::Figures& figures, uint64_t requests, uint64_t bytes)
      : figures_(figures), scope_(figures.requests, requests, bytes) {
    io::sent_for_read.reset();  // of a read that nobody counted
  }

  ~Measurement() {
    if (const auto sent = std::exchange(io::sent_for_read, std::nullopt)) scope_.Correct(*sent);
    const int64_t ticks = (Clock::now() - begin_).count();
    figures_.read_ticks += ticks;
    for (int64_t least = figures_.least_ticks;
         ticks < least && !figures_.least_ticks.compare_exchange_weak(least, ticks);) {
    }
  }

 private:
  TimedFileSystem::Figures& figures_;
  io::RequestCounter::Scope scope_;
  const Clock::time_point begin_ = Clock::now();
};

class TimedFile final : public ForwardingFile {
 public:
  TimedFile(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<TimedFileSystem::Figures> figures)
      : ForwardingFile(std::move(base)), figures_(std::move(figures)) {
    const std::lock_guard lock(figures_->mutex);
    figures_->open.insert(this);
    if (figures_->cancelled) CancelReads();
  }
  ~TimedFile() override {
    const std::lock_guard lock(figures_->mutex);
    figures_->open.erase(this);
  }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    return Measure(1, buffer.size(), [&] { return ForwardingFile::ReadAt(offset, buffer); });
  }
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return Measure(requests.size(), BytesOf(requests), [&] { return ForwardingFile::ReadBatch(requests); });
  }
  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    const auto measurement =
        std::make_shared<std::optional<Measurement>>(std::in_place, *figures_, requests.size(), BytesOf(requests));
    base().StartRead(requests, [measurement, done = std::move(done)](absl::Status status) mutable {
      measurement->reset();
      done(std::move(status));
    });
  }
  // Costs little more than the copy, and is neither measured nor counted.
  bool ReadCached(uint64_t offset, std::span<const std::span<char>> buffers) const override {
    return base().ReadCached(offset, buffers);
  }

 private:
  uint64_t BytesOf(std::span<const ReadRequest> requests) const {
    uint64_t bytes = 0;
    for (const ReadRequest& request : requests) {
      bytes += request.buffer.size();
      figures_->bridged_bytes += request.bridged_bytes;
    }
    return bytes;
  }

  template <typename Read>
  absl::Status Measure(uint64_t requests, uint64_t bytes, const Read& read) const {
    const Measurement measurement(*figures_, requests, bytes);
    return read();
  }

  const std::shared_ptr<TimedFileSystem::Figures> figures_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> TimedFileSystem::OpenForReading(const std::string& path,
                                                                                  ReadMode mode,
                                                                                  std::optional<uint64_t> size) {
  std::optional<io::RequestCounter::Scope> scope;
  if (!size) scope.emplace(figures_->requests, 1, 0);
  SHARDKIT_ASSIGN_OR_RETURN(auto file, base().OpenForReading(path, mode, size));
  return std::make_unique<TimedFile>(std::move(file), figures_);
}

void TimedFileSystem::CancelReads() {
  const std::lock_guard lock(figures_->mutex);
  figures_->cancelled = true;
  for (const RandomAccessFile* file : figures_->open) file->CancelReads();
}

absl::StatusOr<FileInfo> TimedFileSystem::Stat(const std::string& path, bool follow) {
  const io::RequestCounter::Scope scope(figures_->requests, 1, 0);
  return base().Stat(path, follow);
}

absl::Status TimedFileSystem::ForEachEntry(const std::string& path, const TakeEntry& take) {
  const io::RequestCounter::Scope scope(figures_->requests, 1, 0);
  return base().ForEachEntry(path, take);
}

absl::StatusOr<std::string> TimedFileSystem::ReadFile(const std::string& path, uint64_t limit) {
  const io::RequestCounter::Scope scope(figures_->requests, 1, 0);
  absl::StatusOr<std::string> content = base().ReadFile(path, limit);
  if (content.ok()) figures_->requests.AddBytes(content->size());
  return content;
}

}  // namespace shardkit::loader
