#include "operations/copy/sample_mapper.h"

#include <string>
#include <string_view>

#include "base/errors.h"
#include "base/status_macros.h"
#include "dataset/sample_number.h"
#include "foreign/webdataset/webdataset_names.h"
#include "operations/sa1b/sa1b.h"
#include "operations/sa1b/sa1b_columns.h"
#include "operations/sources/source_names.h"

namespace shardkit::operations {
namespace {

absl::StatusOr<std::string_view> KeyOf(const ColumnMapping& plan, const BlockView& block, uint32_t i, uint64_t ordinal,
                                       ByteArena* arena) {
  if (plan.key) {
    const std::optional<std::string_view> key = block.column(*plan.key).value(i);
    if (!key) return InvalidArgument("the value that is to be the key is absent: choose another column (--key)");
    return plan.escape_keys ? arena->Copy(foreign::EscapeWebDatasetKey(*key)) : *key;
  }
  return arena->Copy(dataset::NumberAsKey(ordinal));
}

class ColumnMapper final : public SampleMapper {
 public:
  ColumnMapper(const ColumnMapping& plan, ColumnTable& guessed, std::atomic<uint64_t>& filled)
      : plan_(plan), guessed_(guessed), filled_(filled) {}

  absl::Status Map(const BlockView& block, uint32_t i, uint64_t ordinal, ByteArena* arena, Sample* sample) override {
    SHARDKIT_ASSIGN_OR_RETURN(sample->key, KeyOf(plan_, block, i, ordinal, arena));
    sample->fields.clear();
    for (const ConvertedColumn& column : plan_.columns) {
      const std::optional<std::string_view> value =
          column.source ? block.column(*column.source).value(i) : std::nullopt;
      if (!value || (value->empty() && column.empty_is_absent)) {
        SHARDKIT_RETURN_IF_ERROR(AddAbsent(column.after, sample));
        continue;
      }
      absl::Status status = Add(column, *value, arena, sample);
      if (!status.ok()) return Annotate(status, StrCat("column \"", column.after.name, "\""));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddAbsent(const Column& column, Sample* sample) {
    if (plan_.may_be_absent) return absl::OkStatus();
    const bool can_be_empty = IsByteString(column);
    if (!plan_.fill_absent || !can_be_empty) {
      return InvalidArgument("column \"", column.name, "\": is absent, and MDS has no absent values; ",
                             can_be_empty ? "--lossy stores an empty one" : "choose other columns (--columns)");
    }
    ++filled_;
    sample->fields.push_back({&column, Value(std::string_view(""))});
    return absl::OkStatus();
  }

  absl::Status Add(const ConvertedColumn& column, std::string_view value, ByteArena* arena, Sample* sample) {
    if (plan_.form == SampleForm::kGuessed) {
      SHARDKIT_ASSIGN_OR_RETURN(const Type type, guessed_.TypeOf(column.after.name, Value(value),
                                                                 LastExtension(StrCat(".", column.after.name))));
      sample->fields.push_back({guessed_.Find(column.after.name, type), Value(value)});
      return absl::OkStatus();
    }
    if (column.first != ValueConversion::kNone) {
      SHARDKIT_ASSIGN_OR_RETURN(value, ConvertValue(column.before, column.first, value, arena));
    }
    if (column.second != ValueConversion::kNone) {
      SHARDKIT_ASSIGN_OR_RETURN(value, ConvertValue(column.between, column.second, value, arena));
    }
    sample->fields.push_back({&column.after, Value(value)});
    return absl::OkStatus();
  }

  const ColumnMapping& plan_;
  ColumnTable& guessed_;
  std::atomic<uint64_t>& filled_;
};

// Makes the image and the annotation file from SA-1B's columns.
class Sa1bFilesMapper final : public SampleMapper {
 public:
  explicit Sa1bFilesMapper(const ColumnMapping& plan) : plan_(plan) {
    for (size_t i = 0; i < kSa1bColumnCount; ++i) positions_[i] = *plan.origin.schema.Find(Sa1bColumns()[i].name);
  }

  absl::Status Map(const BlockView& block, uint32_t i, uint64_t /*ordinal*/, ByteArena* arena,
                   Sample* sample) override {
    const auto value = [&](Sa1bColumn column) {
      return block.column(positions_[column]).value(i).value_or(std::string_view());
    };
    const Sa1bValues values = Sa1bValuesOf(block, positions_, i);
    sample->key = value(kSa1bKey);
    SHARDKIT_RETURN_IF_ERROR(RegenerateSa1bJson(values, &json_));
    sample->fields = {{&plan_.written[1], Value(value(kSa1bImage))}, {&plan_.written[2], Value(arena->Copy(json_))}};
    return absl::OkStatus();
  }

 private:
  const ColumnMapping& plan_;
  Sa1bPositions positions_;
  std::string json_;
};

class Sa1bColumnsMapper final : public SampleMapper {
 public:
  explicit Sa1bColumnsMapper(const ColumnMapping& plan) : plan_(plan) {}

  absl::Status Map(const BlockView& block, uint32_t i, uint64_t /*ordinal*/, ByteArena* arena,
                   Sample* sample) override {
    const auto image = block.column(*plan_.columns[0].source).value(i);
    const auto json = block.column(*plan_.columns[1].source).value(i);
    if (!image || !json) return DataLoss("has no ", image ? "annotations" : "image");
    sample->key = block.column(*plan_.key).value(i).value_or(std::string_view());
    sample->fields.clear();
    sample->fields.push_back({&plan_.columns[0].after, Value(*image)});
    return converter_.Convert(*json, arena, &sample->fields);
  }

 private:
  const ColumnMapping& plan_;
  Sa1bConverter converter_;
};

}  // namespace

std::unique_ptr<SampleMapper> SampleMapper::Create(const ColumnMapping& plan, ColumnTable& guessed,
                                                   std::atomic<uint64_t>& filled) {
  switch (plan.form) {
    case SampleForm::kSa1bFiles:
      return std::make_unique<Sa1bFilesMapper>(plan);
    case SampleForm::kSa1bColumns:
      return std::make_unique<Sa1bColumnsMapper>(plan);
    case SampleForm::kColumns:
    case SampleForm::kGuessed:
      break;
  }
  return std::make_unique<ColumnMapper>(plan, guessed, filled);
}

}  // namespace shardkit::operations
