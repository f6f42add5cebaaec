#include "convert/sources/dataset_source.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/sources/source_names.h"
#include "io/publish_file.h"

namespace shardkit {
namespace {

constexpr uint64_t kMaxOriginBytes = uint64_t{16} << 20;

absl::StatusOr<std::optional<Manifest>> ReadOrigin(FileSystem& file_system, const DatasetReader& dataset) {
  if (dataset.container() == "shard") return std::nullopt;
  SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(dataset.path()));
  const bool is_directory = info.type == FileType::kDirectory;
  const std::string path = JoinPath(is_directory ? dataset.path() : ParentDirectory(dataset.path()), kOriginName);
  const auto text = file_system.ReadFile(path, kMaxOriginBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  auto origin = ParseManifest(*text);
  if (!origin.ok()) return Annotate(origin.status(), StrCat(path, " (remove it to convert without what it says)"));
  return *std::move(origin);
}

class BlockUnit final : public WorkUnit {
 public:
  size_t part = 0;
  DatasetBlock block;
  uint64_t first_sample = 0;
};

}  // namespace

absl::StatusOr<ConversionInput> OpenConversionInput(FileSystem& file_system, const std::string& path,
                                                    const ConvertOptions& options) {
  ConversionInput input;
  DatasetOptions dataset_options;
  dataset_options.columns = options.columns;
  dataset_options.max_decompression = options.max_decompression;
  dataset_options.verify_listed_hashes = options.verify_listed_hashes;
  SHARDKIT_ASSIGN_OR_RETURN(input.dataset, DatasetReader::Open(file_system, path, dataset_options));
  SHARDKIT_ASSIGN_OR_RETURN(std::optional<Manifest> origin, ReadOrigin(file_system, *input.dataset));
  // Chosen columns are read with the key.
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<std::string> key, FindKeyColumn(*input.dataset, origin, options));
  if (key && !input.dataset->FindColumn(*key).ok()) {
    dataset_options.columns.insert(dataset_options.columns.begin(), *key);
    SHARDKIT_ASSIGN_OR_RETURN(input.dataset, DatasetReader::Open(file_system, path, dataset_options));
  }
  SHARDKIT_ASSIGN_OR_RETURN(input.plan, PlanConversion(*input.dataset, std::move(origin), options));
  return input;
}

DatasetSource::DatasetSource(std::vector<ConversionInput> inputs) {
  for (ConversionInput& input : inputs) parts_.push_back(std::make_unique<Part>(std::move(input)));
}

absl::Status DatasetSource::Start() {
  for (const auto& part : parts_) {
    SHARDKIT_ASSIGN_OR_RETURN(part->blocks, part->input.dataset->ReadBlockDirectory());
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
    const auto both = MergeSchemas(before, more);
    if (!both.ok())
      return Annotate(both.status(), StrCat(part->input.dataset->path(), ": does not fit the datasets before it"));
    merged = both->columns();
  }
  return merged;
}

// By the first values; what the names promise where none is among them.
absl::Status DatasetSource::GuessColumns(const Part& part, std::vector<Column>* columns) const {
  BlockBuffer buffer;
  BlockView view;
  if (!part.blocks.empty()) {
    SHARDKIT_RETURN_IF_ERROR(part.input.dataset->ReadBlock(part.blocks[0].shard, part.blocks[0].block, &buffer, &view));
  }
  for (const ConvertedColumn& column : part.input.plan.columns) {
    Type type = column.after.type;
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      const std::optional<std::string_view> value = view.column(*column.source).value(i);
      if (!value) continue;
      SHARDKIT_ASSIGN_OR_RETURN(type, TypeOfValue(Value(*value), LastExtension(StrCat(".", column.after.name))));
      break;
    }
    columns->push_back(ByteStringColumn(column.after.name, type, /*nullable=*/true));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WorkUnit>> DatasetSource::Next(size_t max_samples) {
  for (; part_ < parts_.size(); ++part_, block_ = 0, position_ = 0) {
    const std::vector<DatasetBlock>& blocks = parts_[part_]->blocks;
    while (block_ < blocks.size() && blocks[block_].first_sample + blocks[block_].sample_count <= position_) ++block_;
    if (block_ == blocks.size()) continue;
    const DatasetBlock& block = blocks[block_];
    auto unit = std::make_unique<BlockUnit>();
    unit->part = part_;
    unit->block = block;
    unit->first_sample = position_;
    unit->sample_count = std::min<uint64_t>(max_samples, block.first_sample + block.sample_count - position_);
    position_ += unit->sample_count;
    return unit;
  }
  return nullptr;
}

absl::StatusOr<uint64_t> DatasetSource::Skip(uint64_t count) {
  uint64_t left = count;
  for (; part_ < parts_.size(); ++part_, block_ = 0, position_ = 0) {
    const uint64_t passed = std::min(left, parts_[part_]->input.dataset->sample_count() - position_);
    position_ += passed;
    left -= passed;
    if (left == 0) break;
  }
  return count - left;
}

absl::StatusOr<uint64_t> DatasetSource::Count() {
  uint64_t count = 0;
  for (const auto& part : parts_) count += part->input.dataset->sample_count();
  return count;
}

void DatasetSource::Load(WorkUnit& unit, SampleBatch* batch) {
  const BlockUnit& wanted = static_cast<const BlockUnit&>(unit);
  Part& part = *parts_[wanted.part];
  const DatasetReader& dataset = *part.input.dataset;
  batch->Clear();
  if (!batch->block) batch->block = std::make_unique<BlockBuffer>();
  BlockView view;
  const absl::Status read = dataset.ReadBlock(wanted.block.shard, wanted.block.block, batch->block.get(), &view);
  std::unique_ptr<SampleMapper> mapper = TakeMapper(part);
  for (size_t i = 0; i < unit.sample_count; ++i) {
    const uint64_t ordinal = wanted.first_sample + i;
    absl::Status status = read;
    std::string key = StrCat(ordinal);
    if (status.ok()) {
      Sample sample;
      const uint32_t place = static_cast<uint32_t>(ordinal - wanted.block.first_sample);
      status = mapper->Map(view, place, ordinal, &batch->arena, &sample);
      if (status.ok()) {
        batch->samples.push_back(std::move(sample));
        batch->indexes.push_back(i);
        continue;
      }
      if (!sample.key.empty()) key = sample.key;
      status = Annotate(status, StrCat(dataset.path(), ": sample ", ordinal));
    }
    AddFailure(i, key, std::move(status), batch);
  }
  std::lock_guard lock(part.mutex);
  part.idle.push_back(std::move(mapper));
}

std::unique_ptr<SampleMapper> DatasetSource::TakeMapper(Part& part) {
  std::lock_guard lock(part.mutex);
  if (part.idle.empty()) return SampleMapper::Create(part.input.plan, guessed_);
  std::unique_ptr<SampleMapper> mapper = std::move(part.idle.back());
  part.idle.pop_back();
  return mapper;
}

}  // namespace shardkit
