#include "dataset/write/schema_mapper.h"

#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::dataset {
namespace {

void ReplaceCodec(const std::map<std::string, Codec>& codecs, Column& column) {
  const auto codec = codecs.find(column.name);
  // Also without another codec: the storage is chosen again for each shard.
  column.SetCodec(codec == codecs.end() ? column.codec : codec->second);
}

}  // namespace

absl::Status NoSuchColumn(std::string_view name, const std::vector<Column>& columns) {
  std::string list;
  for (const Column& column : columns) list += StrCat(list.empty() ? "" : ", ", column.name);
  return OutOfRange("there is no column \"", name, "\"; there are: ", list.empty() ? "none" : list);
}

std::string_view ColumnDifference(const Column& stored, const Column& seen) {
  if (CommonType(stored.type, seen.type) != seen.type) return "type";
  if (stored.codec != seen.codec) return "codec";
  if (stored.is_key != seen.is_key) return "key";
  if (stored.dtype != seen.dtype) return "dtype";
  if (stored.shape != seen.shape) return "shape";
  if (stored.fixed_size() != seen.fixed_size()) return "value_size";
  return stored.nullable && !seen.nullable ? "nullable" : "";
}

absl::Status SchemaMapper::Start(const Schema& schema, const std::map<std::string, Codec>& codecs) {
  codecs_ = codecs;
  std::vector<Column> columns = schema.columns();
  for (Column& column : columns) ReplaceCodec(codecs_, column);
  SHARDKIT_ASSIGN_OR_RETURN(schema_, Schema::Create(std::move(columns)));
  known_.clear();
  return absl::OkStatus();
}

absl::StatusOr<SchemaMapper::Target> SchemaMapper::Find(const Column& column) const {
  const std::optional<size_t> position = schema_.Find(column.name);
  if (!position) return Target{};
  const Column& present = schema_[*position];
  const std::optional<Type> common = CommonType(present.type, column.type);
  if (!common || present.dtype != column.dtype || present.shape != column.shape || present.is_key ||
      present.fixed_size() != column.fixed_size()) {
    return InvalidArgument("field \"", column.name, "\" of type ", TypeName(column.type),
                           " does not fit the column of that name, of type ", TypeName(present.type));
  }
  return Target{*position, *common == present.type};
}

absl::StatusOr<bool> SchemaMapper::Map(const Sample& sample, std::vector<std::optional<Value>>* values) {
  values->assign(schema_.size(), std::nullopt);
  if (const auto key = schema_.key_column()) (*values)[*key] = Value(sample.key);
  for (const Field& field : sample.fields) {
    auto known = known_.find(field.column);
    if (known == known_.end() || known->second.column != *field.column) {
      SHARDKIT_ASSIGN_OR_RETURN(const Target target, Find(*field.column));
      if (!target.fits) return false;
      known = known_.insert_or_assign(field.column, Known{*field.column, target.position}).first;
    }
    std::optional<Value>& value = (*values)[known->second.position];
    if (value) return InvalidArgument("field \"", field.column->name, "\" occurs twice in the sample");
    value = field.value;
  }
  return true;
}

absl::Status SchemaMapper::Widen(const Sample& sample) {
  std::vector<Column> columns = schema_.columns();
  for (const Field& field : sample.fields) {
    SHARDKIT_RETURN_IF_ERROR(Find(*field.column).status());
    const std::optional<size_t> position = schema_.Find(field.column->name);
    if (position) {
      columns[*position].type = *CommonType(columns[*position].type, field.column->type);
    } else {
      columns.push_back(*field.column);
      columns.back().nullable = true;
      ReplaceCodec(codecs_, columns.back());
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(schema_, Schema::Create(std::move(columns)));
  known_.clear();
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
