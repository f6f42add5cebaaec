#include "convert/dataset_source.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "convert/source_names.h"

namespace shardkit {
namespace {

class BlockUnit final : public WorkUnit {
 public:
  DatasetBlock block;
  uint64_t first_sample = 0;
};

}  // namespace

absl::Status DatasetSource::Start() {
  SHARDKIT_ASSIGN_OR_RETURN(blocks_, dataset_.ReadBlockDirectory());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Column>> DatasetSource::InitialColumns() {
  std::vector<Column> columns = plan_.written;
  if (plan_.form == SampleForm::kGuessed) SHARDKIT_RETURN_IF_ERROR(GuessColumns(&columns));
  return columns;
}

// By the first values; what the names promise where none is among them.
absl::Status DatasetSource::GuessColumns(std::vector<Column>* columns) {
  BlockBuffer buffer;
  BlockView view;
  if (!blocks_.empty()) SHARDKIT_RETURN_IF_ERROR(dataset_.ReadBlock(blocks_[0].shard, blocks_[0].block, &buffer, &view));
  for (const ConvertedColumn& column : plan_.columns) {
    Type type = column.after.type;
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      const std::optional<std::string_view> value = view.column(column.source).value(i);
      if (!value) continue;
      SHARDKIT_ASSIGN_OR_RETURN(type, TypeOfValue(Value(*value), LastExtension(StrCat(".", column.after.name))));
      break;
    }
    columns->push_back(ByteStringColumn(column.after.name, type, /*nullable=*/true));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WorkUnit>> DatasetSource::Next(size_t max_samples) {
  while (block_ < blocks_.size() && blocks_[block_].first_sample + blocks_[block_].sample_count <= position_) ++block_;
  if (block_ == blocks_.size()) return nullptr;
  const DatasetBlock& block = blocks_[block_];
  auto unit = std::make_unique<BlockUnit>();
  unit->block = block;
  unit->first_sample = position_;
  unit->sample_count = std::min<uint64_t>(max_samples, block.first_sample + block.sample_count - position_);
  position_ += unit->sample_count;
  return unit;
}

absl::StatusOr<uint64_t> DatasetSource::Skip(uint64_t count) {
  const uint64_t skipped = std::min(count, dataset_.sample_count() - position_);
  position_ += skipped;
  return skipped;
}

void DatasetSource::Load(WorkUnit& unit, SampleBatch* batch) {
  const BlockUnit& wanted = static_cast<const BlockUnit&>(unit);
  batch->Clear();
  if (!batch->block) batch->block = std::make_unique<BlockBuffer>();
  BlockView view;
  const absl::Status read = dataset_.ReadBlock(wanted.block.shard, wanted.block.block, batch->block.get(), &view);
  std::unique_ptr<SampleMapper> mapper = TakeMapper();
  for (size_t i = 0; i < unit.sample_count; ++i) {
    const uint64_t ordinal = wanted.first_sample + i;
    absl::Status status = read;
    if (status.ok()) {
      Sample sample;
      const uint32_t place = static_cast<uint32_t>(ordinal - wanted.block.first_sample);
      status = mapper->Map(view, place, ordinal, &batch->arena, &sample);
      if (status.ok()) {
        batch->samples.push_back(std::move(sample));
        batch->indexes.push_back(i);
        continue;
      }
      status = Annotate(status, StrCat(dataset_.path(), ": sample ", ordinal));
    }
    AddFailure(i, StrCat(ordinal), std::move(status), batch);
  }
  ReturnMapper(std::move(mapper));
}

std::unique_ptr<SampleMapper> DatasetSource::TakeMapper() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return SampleMapper::Create(plan_, guessed_);
  std::unique_ptr<SampleMapper> mapper = std::move(idle_.back());
  idle_.pop_back();
  return mapper;
}

void DatasetSource::ReturnMapper(std::unique_ptr<SampleMapper> mapper) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(mapper));
}

}  // namespace shardkit
