#include "operations/sources/dataset_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/manifest_json.h"
#include "dataset/patterns.h"
#include "dataset/read/united_parts.h"
#include "dataset/write/shard_collector.h"
#include "io/publish_file.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

constexpr uint64_t kLostAtOnce = 65536;

// In tars of more samples the keys that come again are not counted: it would take much memory.
constexpr uint64_t kMostTornSamples = uint64_t{1} << 22;

std::string Quoted(const std::vector<std::string>& names) {
  std::string list = names.size() == 1 ? "column " : "columns ";
  for (const std::string& name : names) list += StrCat(&name == names.data() ? "" : ", ", "\"", name, "\"");
  return list;
}

class PieceUnit final : public WorkUnit {
 public:
  size_t part = 0;
  size_t piece = 0;
  uint64_t first_sample = 0;
};

}  // namespace

absl::StatusOr<ConversionInput> OpenConversionInput(ReadableFileSystem& file_system, const std::string& path,
                                                    const ConvertOptions& options) {
  ConversionInput input;
  DatasetOptions dataset_options;
  dataset_options.columns = options.columns;
  dataset_options.max_decompression = options.max_decompression;
  dataset_options.skip_lost_samples = options.pack.skip_errors;
  dataset_options.verify_listed_hashes = options.verify_listed_hashes;
  dataset_options.generation = options.generation;
  dataset_options.mds_as_stored = options.to == Container::kMds;
  // They are read in order, so that few are in use at once. A tar without an index has the places of all its members in
  // memory while it is open.
  dataset_options.max_open_shards =
      std::max<size_t>(32, 2 * static_cast<size_t>(std::max(options.pack.dataset.threads, 1)));
  SHARDKIT_ASSIGN_OR_RETURN(input.dataset, DatasetReader::Open(file_system, path, dataset_options));
  std::optional<Manifest> origin;
  if (input.dataset->container() != "shard") {
    const absl::StatusOr<FileInfo> info = file_system.Stat(path);
    // Of a pattern, tars may be of several origins, or part of one.
    if (!dataset::IsPattern(path, info.status())) {
      if (!info.ok()) return info.status();
      const bool directory = info->type == FileType::kDirectory;
      SHARDKIT_ASSIGN_OR_RETURN(origin, dataset::ReadOrigin(file_system, directory ? path : io::ParentDirectory(path)));
    }
  }
  // The key column is read even when only other columns were chosen.
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<std::string> key, FindKeyColumn(*input.dataset, origin, options));
  if (key && !input.dataset->FindColumn(*key).ok()) {
    dataset_options.columns.insert(dataset_options.columns.begin(), *key);
    SHARDKIT_ASSIGN_OR_RETURN(input.dataset, DatasetReader::Open(file_system, path, dataset_options));
  }
  SHARDKIT_ASSIGN_OR_RETURN(input.plan, PlanConversion(*input.dataset, std::move(origin), options));
  input.some_columns = !options.columns.empty();
  return input;
}

DatasetSource::DatasetSource(std::vector<ConversionInput> inputs, bool skip_errors,
                             const std::map<std::string, Type>& types)
    : skip_errors_(skip_errors), guessed_(/*nullable=*/true, types) {
  for (ConversionInput& input : inputs) parts_.push_back(std::make_unique<Part>(std::move(input)));
}

std::vector<const ConversionInput*> DatasetSource::inputs() const {
  std::vector<const ConversionInput*> inputs;
  for (const auto& part : parts_) inputs.push_back(&part->input);
  return inputs;
}

absl::StatusOr<std::string> DatasetSource::Identity() const {
  std::string text;
  for (const ConversionInput* const input : inputs()) {
    text += StrCat(input->dataset->container(), " ", input->dataset->sample_count(), "\n");
    SHARDKIT_ASSIGN_OR_RETURN(const Manifest manifest, input->dataset->ReadManifest());
    for (const ManifestShard& shard : manifest.shards) {
      text += StrCat(shard.name, " ", shard.bytes, " ", shard.samples, " ", ToHex(shard.content_hash), "\n");
    }
    if (manifest.removed) text += StrCat("removed ", manifest.removed->table.checksum, "\n");
    for (const Column& column : manifest.schema.columns()) {
      text += dataset::FormatColumn(column, manifest.StoredName(column.name));
    }
    for (const ColumnFile& file : manifest.column_files) text += dataset::FormatColumnFile(file);
  }
  return text;
}

std::vector<uint64_t> DatasetSource::ends() const {
  std::vector<uint64_t> ends;
  for (const auto& part : parts_) ends.push_back((ends.empty() ? 0 : ends.back()) + part->positions());
  return ends;
}

std::map<std::string, std::string> DatasetSource::metadata() const {
  Metadata common = input().plan.origin.metadata;
  for (const auto& part : parts_) dataset::IntersectMetadata(part->input.plan.origin.metadata, &common);
  return common;
}

absl::Status DatasetSource::Start() {
  for (const auto& part : parts_) {
    SHARDKIT_RETURN_IF_ERROR(List(*part));
    if (part->input.some_columns) SHARDKIT_RETURN_IF_ERROR(FindShare(*part));
  }
  return absl::OkStatus();
}

// Takes the first shard for all. Containers that store a sample's columns together are read as a whole anyway.
absl::Status DatasetSource::FindShare(Part& part) {
  const DatasetReader& dataset = *part.input.dataset;
  if (dataset.container() != "shard" || dataset.shard_count() == 0 || !dataset.plain()) return absl::OkStatus();
  const auto shard = dataset.OpenShard(0);
  if (absl::IsDataLoss(shard.status())) return absl::OkStatus();  // its samples are reported when they are read
  SHARDKIT_RETURN_IF_ERROR(shard.status());
  const auto statistics = (*shard)->ReadStatistics();
  if (absl::IsDataLoss(statistics.status())) return absl::OkStatus();
  SHARDKIT_RETURN_IF_ERROR(statistics.status());
  double all = 0, chosen = 0;
  for (const BlockInfo& block : (*shard)->blocks()) all += static_cast<double>(block.length);
  for (const ColumnStatistics& column : *statistics) chosen += static_cast<double>(column.stored_bytes);
  if (all > 0) part.share = std::min(chosen / all, 1.0);
  return absl::OkStatus();
}

uint64_t DatasetSource::Part::BytesAt(const Piece& piece, uint64_t number) const {
  if (number + 1 != piece.count) return 0;
  const double listed = static_cast<double>(piece.count) / piece.block.sample_count;
  const double part = share * listed;
  return part == 1 ? piece.block.length : static_cast<uint64_t>(static_cast<double>(piece.block.length) * part);
}

std::vector<uint32_t> DatasetSource::Part::PlacesIn(const Piece& piece) const {
  std::vector<uint32_t> places;
  places.reserve(piece.count);
  for (uint32_t i = 0; i < piece.block.sample_count; ++i) {
    if (!chosen || chosen->Has(piece.block.first_sample + i)) places.push_back(i);
  }
  return places;
}

absl::Status DatasetSource::Choose(const dataset::SampleSet& samples) {
  Part& part = *parts_[0];
  if (part.positions() != samples.samples()) {
    return FailedPrecondition(part.input.dataset->path(), ": has changed while it was read: run this again");
  }
  part.chosen = samples;
  std::vector<Piece> pieces;
  uint64_t position = 0;
  for (Piece& piece : part.pieces) {
    const uint64_t begin = piece.block.first_sample;
    piece.count = static_cast<uint32_t>(samples.CountIn(begin, begin + piece.block.sample_count));
    if (piece.count == 0) continue;
    piece.position = position;
    position += piece.count;
    pieces.push_back(std::move(piece));
  }
  part.pieces = std::move(pieces);
  return absl::OkStatus();
}

absl::Status DatasetSource::List(Part& part) const {
  const DatasetReader& dataset = *part.input.dataset;
  const auto blocks = dataset.ReadBlockDirectory();
  if (blocks.ok()) {
    for (const DatasetBlock& block : *blocks) part.pieces.push_back({block, block.first_sample, "", absl::OkStatus()});
  } else if (skip_errors_ && absl::IsDataLoss(blocks.status())) {
    SHARDKIT_RETURN_IF_ERROR(ListShards(part));
  } else {
    return blocks.status();
  }
  if (dataset.lost_samples().empty()) return absl::OkStatus();
  // Each sample that cannot be read, and the missing end of a tar, takes one position after the tar's samples.
  std::vector<Piece> pieces;
  auto next = part.pieces.begin();
  uint64_t missing = 0;
  for (const LostSample& lost : dataset.lost_samples()) {
    for (; next != part.pieces.end() && next->block.shard <= lost.shard; ++next) {
      next->position += missing;
      pieces.push_back(std::move(*next));
    }
    DatasetBlock end;
    end.sample_count = 1;
    pieces.push_back(
        {end, pieces.empty() ? 0 : pieces.back().position + pieces.back().block.sample_count, lost.key, lost.status});
    ++missing;
  }
  for (; next != part.pieces.end(); ++next) {
    next->position += missing;
    pieces.push_back(std::move(*next));
  }
  part.pieces = std::move(pieces);
  return absl::OkStatus();
}

// Lists shard by shard. When a shard cannot be opened, all its samples fail.
absl::Status DatasetSource::ListShards(Part& part) const {
  const DatasetReader& dataset = *part.input.dataset;
  uint64_t first_sample = 0;
  for (uint32_t shard = 0; shard < dataset.shard_count(); ++shard) {
    SHARDKIT_ASSIGN_OR_RETURN(const ManifestShard listed, dataset.Shard(shard));
    const uint64_t samples = listed.samples;
    const auto opened = dataset.OpenShard(shard);
    if (!opened.ok() && !absl::IsDataLoss(opened.status())) return opened.status();
    absl::Status status = opened.status();
    if (opened.ok() && !dataset.plain()) {
      const SampleRange range{first_sample, samples};
      status = dataset.ForEachBlockOf({&range, 1}, [&](const DatasetBlock& block) {
        part.pieces.push_back({block, block.first_sample, "", absl::OkStatus()});
        return absl::OkStatus();
      });
      if (!status.ok() && !absl::IsDataLoss(status)) return status;
      while (!status.ok() && !part.pieces.empty() && part.pieces.back().block.shard == shard) part.pieces.pop_back();
    } else if (opened.ok()) {
      for (uint32_t i = 0; i < (*opened)->blocks().size(); ++i) {
        const BlockInfo& block = (*opened)->blocks()[i];
        const uint64_t first = first_sample + block.first_sample;
        part.pieces.push_back({{shard, i, first, block.sample_count, block.length}, first, "", absl::OkStatus()});
      }
    }
    for (uint64_t done = 0; !status.ok() && done < samples; done += kLostAtOnce) {
      const auto count = static_cast<uint32_t>(std::min(samples - done, kLostAtOnce));
      part.pieces.push_back({{shard, 0, first_sample + done, count, 0}, first_sample + done, "", status});
    }
    first_sample += samples;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Column>> DatasetSource::InitialColumns() {
  std::vector<Column> merged;
  for (const auto& part : parts_) {
    std::vector<Column> columns = part->input.plan.written;
    if (part->input.plan.form == SampleForm::kGuessed) SHARDKIT_RETURN_IF_ERROR(GuessColumns(*part, &columns));
    if (part == parts_[0]) {
      merged = std::move(columns);
      continue;
    }
    SHARDKIT_ASSIGN_OR_RETURN(const Schema before, Schema::Create(std::move(merged)));
    SHARDKIT_ASSIGN_OR_RETURN(const Schema more, Schema::Create(std::move(columns)));
    const auto both = MergeSchemas(before, dataset::WithCodecsOf(before, more));
    if (!both.ok())
      return Annotate(both.status(), StrCat(part->input.dataset->path(), ": does not fit the datasets before it"));
    merged = both->columns();
  }
  SHARDKIT_RETURN_IF_ERROR(guessed_.CheckTypes());
  return merged;
}

// Guesses a type from the column's first value. Without a value, takes the type asked for or what the name suggests.
absl::Status DatasetSource::GuessColumns(const Part& part, std::vector<Column>* columns) {
  BlockBuffer buffer;
  BlockView view;
  BlockDamage damage;
  for (const Piece& piece : part.pieces) {
    const absl::Status read = ReadPiece(part, piece, &buffer, &view, &damage);
    if (read.ok()) break;
    if (!skip_errors_) return read;
    view = {};
  }
  for (const ConvertedColumn& column : part.input.plan.columns) {
    Type type = guessed_.Asked(column.after.name).value_or(column.after.type);
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      if (damage.Has(i, *column.source)) continue;
      const std::optional<std::string_view> value = view.column(*column.source).value(i);
      if (!value) continue;
      const auto guessed =
          guessed_.TypeOf(column.after.name, Value(*value), LastExtension(StrCat(".", column.after.name)));
      if (!guessed.ok()) continue;  // Load will report it
      type = *guessed;
      break;
    }
    columns->push_back(*guessed_.Find(column.after.name, type));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WorkUnit>> DatasetSource::Next(size_t max_samples) {
  for (; part_ < parts_.size(); ++part_, piece_ = 0, position_ = 0) {
    const std::vector<Piece>& pieces = parts_[part_]->pieces;
    while (piece_ < pieces.size() && pieces[piece_].end() <= position_) ++piece_;
    if (piece_ == pieces.size()) continue;
    const Piece& piece = pieces[piece_];
    auto unit = std::make_unique<PieceUnit>();
    unit->part = part_;
    unit->piece = piece_;
    unit->first_sample = position_ - piece.position;
    unit->sample_count = std::min<uint64_t>(max_samples, piece.end() - position_);
    position_ += unit->sample_count;
    return unit;
  }
  return nullptr;
}

absl::StatusOr<std::vector<uint64_t>> DatasetSource::InputBytes(const WorkUnit& unit) const {
  const PieceUnit& wanted = static_cast<const PieceUnit&>(unit);
  const Part& part = *parts_[wanted.part];
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < wanted.sample_count; ++i) {
    bytes.push_back(part.BytesAt(part.pieces[wanted.piece], wanted.first_sample + i));
  }
  return bytes;
}

absl::StatusOr<std::optional<container::StoredBlock>> DatasetSource::LoadWhole(const WorkUnit& unit,
                                                                               const Schema& columns) {
  const PieceUnit& wanted = static_cast<const PieceUnit&>(unit);
  const Part& part = *parts_[wanted.part];
  const Piece& piece = part.pieces[wanted.piece];
  const DatasetReader& dataset = *part.input.dataset;
  const bool whole = wanted.sample_count == piece.count && piece.count == piece.block.sample_count;
  if (!keep_blocks_ || !whole || !piece.status.ok() || part.input.some_columns || dataset.container() != "shard" ||
      !dataset.summary().shards_have_columns()) {
    return std::nullopt;
  }
  const auto opened = dataset.OpenShard(piece.block.shard);
  // Of a block with removed samples, the others were all chosen.
  if (opened.ok() && (*opened)->blocks()[piece.block.block].sample_count != piece.count) return std::nullopt;
  auto shard = opened.ok() ? std::dynamic_pointer_cast<const container::NativeShardReader>(*opened) : nullptr;
  if (!shard || !container::BlocksCanBeCopied(*shard, columns)) return std::nullopt;
  auto block = whole_blocks_.Read(std::move(shard), piece.block.block);
  if (absl::IsDataLoss(block.status())) return std::nullopt;  // reading its samples says what to do about it
  return block;
}

absl::StatusOr<uint64_t> DatasetSource::Skip(uint64_t count) {
  uint64_t left = count;
  for (; part_ < parts_.size(); ++part_, piece_ = 0, position_ = 0) {
    const uint64_t passed = std::min(left, parts_[part_]->positions() - position_);
    position_ += passed;
    left -= passed;
    if (left == 0) break;
  }
  return count - left;
}

absl::StatusOr<uint64_t> DatasetSource::Count() {
  uint64_t count = 0;
  for (const auto& part : parts_) count += part->positions();
  return count;
}

absl::Status DatasetSource::ReadPiece(const Part& part, const Piece& piece, BlockBuffer* buffer, BlockView* view,
                                      BlockDamage* damage) const {
  SHARDKIT_RETURN_IF_ERROR(piece.status);
  const DatasetReader& dataset = *part.input.dataset;
  return skip_errors_ ? dataset.SalvageBlock(piece.block.shard, piece.block.block, buffer, view, damage)
                      : dataset.ReadBlock(piece.block.shard, piece.block.block, buffer, view);
}

void DatasetSource::Load(WorkUnit& unit, SampleBatch* batch) {
  const PieceUnit& wanted = static_cast<const PieceUnit&>(unit);
  Part& part = *parts_[wanted.part];
  const Piece& piece = part.pieces[wanted.piece];
  const DatasetReader& dataset = *part.input.dataset;
  const std::optional<size_t> key_column = part.input.plan.key;
  batch->Clear();
  if (!batch->block) batch->block = std::make_unique<BlockBuffer>();
  BlockView view;
  BlockDamage damage;
  const absl::Status read = ReadPiece(part, piece, batch->block.get(), &view, &damage);
  std::unique_ptr<SampleMapper> mapper = TakeMapper(part);
  const std::vector<uint32_t> places = part.PlacesIn(piece);
  const auto place = [&](size_t i) { return places[wanted.first_sample + i]; };
  const auto load = [&](size_t i, Sample* sample) -> absl::Status {
    SHARDKIT_RETURN_IF_ERROR(read);
    SHARDKIT_RETURN_IF_ERROR(damage.OfSample(place(i)));
    const uint64_t ordinal = piece.block.first_sample + place(i);
    absl::Status status = mapper->Map(view, place(i), ordinal, &batch->arena, sample);
    return status.ok() ? status : Annotate(status, StrCat(dataset.path(), ": sample ", ordinal));
  };
  const auto key = [&](size_t i, const Sample& sample) -> std::string_view {
    if (!read.ok()) return piece.key;
    if (!key_column || damage.Has(place(i), *key_column)) return sample.key;
    return view.column(*key_column).value(place(i)).value_or(sample.key);
  };
  LoadEach(unit, batch, load, key,
           [&](size_t i, const Sample*) { return part.BytesAt(piece, wanted.first_sample + i); });
  if (name() == "webdataset") {
    unnamed_samples_ += static_cast<uint64_t>(
        std::ranges::count_if(batch->samples, [](const Sample& sample) { return sample.key.ends_with('/'); }));
    if (piece.status.ok()) CountTorn(part, piece, *batch);
  }
  std::lock_guard lock(part.mutex);
  part.idle.push_back(std::move(mapper));
}

void DatasetSource::CountTorn(Part& part, const Piece& piece, const SampleBatch& batch) {
  const DatasetReader& dataset = *part.input.dataset;
  const auto tar = dataset.Shard(piece.block.shard);
  if (!tar.ok() || tar->samples > kMostTornSamples) return;
  std::lock_guard lock(part.mutex);
  Part::TarKeys& keys = part.tars[piece.block.shard];
  for (const Sample& sample : batch.samples) {
    if (!keys.seen.insert(Hash128(sample.key)).second) ++torn_samples_;
  }
  keys.samples += batch.samples.size() + batch.failures.size();
  if (keys.samples >= tar->samples) part.tars.erase(piece.block.shard);
}

std::vector<std::string> DatasetSource::warnings() const {
  std::vector<std::string> warnings;
  for (const auto& part : parts_) std::ranges::move(part->input.dataset->notes(), std::back_inserter(warnings));
  const auto samples = [](uint64_t count) { return StrCat(count, count == 1 ? " sample has" : " samples have"); };
  if (torn_samples_ > 0) {
    warnings.push_back(
        StrCat(samples(torn_samples_),
               " a key that an earlier one of the same tar has, which had ended: the members of a sample "
               "must stand next to each other, else each part of it is a sample (shardctl validate names "
               "them)"));
  }
  if (filled_ > 0) {
    const std::vector<std::string>& columns = input().plan.absent_as_bytes;
    warnings.push_back(StrCat(filled_.load(), filled_ == 1 ? " absent value is" : " absent values are",
                              " stored as empty, for MDS has no absent values",
                              columns.empty() ? "" : StrCat("; encoding bytes takes them in ", Quoted(columns))));
  }
  if (unnamed_samples_ == 0) return warnings;
  warnings.push_back(StrCat(samples(unnamed_samples_),
                            " a key that ends in '/': members whose names begin with a dot, as ._NAME of macOS, make "
                            "samples of their own and tear those between whose members they lie: make the tars without "
                            "them"));
  return warnings;
}

std::unique_ptr<SampleMapper> DatasetSource::TakeMapper(Part& part) {
  std::lock_guard lock(part.mutex);
  if (part.idle.empty()) return SampleMapper::Create(part.input.plan, guessed_, filled_);
  std::unique_ptr<SampleMapper> mapper = std::move(part.idle.back());
  part.idle.pop_back();
  return mapper;
}

}  // namespace shardkit::operations
