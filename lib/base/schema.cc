#include "shardkit/schema.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/utf8.h"

namespace shardkit {
namespace {

constexpr uint64_t kMaxFixedSize = uint64_t{1} << 40;

struct TypeEntry {
  Type type;
  std::string_view name;
  uint32_t scalar_size;
};

constexpr std::array<TypeEntry, 21> kTypes{{
    {Type::kBytes, "bytes", 0}, {Type::kUtf8, "utf8", 0},   {Type::kJson, "json", 0}, {Type::kJpeg, "jpeg", 0},
    {Type::kPng, "png", 0},     {Type::kImage, "image", 0}, {Type::kI8, "i8", 1},     {Type::kI16, "i16", 2},
    {Type::kI32, "i32", 4},     {Type::kI64, "i64", 8},     {Type::kU8, "u8", 1},     {Type::kU16, "u16", 2},
    {Type::kU32, "u32", 4},     {Type::kU64, "u64", 8},     {Type::kF16, "f16", 2},   {Type::kBf16, "bf16", 2},
    {Type::kF32, "f32", 4},     {Type::kF64, "f64", 8},     {Type::kBool, "bool", 1}, {Type::kNdarray, "ndarray", 0},
    {Type::kRle, "rle", 0},
}};

const TypeEntry* FindType(Type type) {
  const auto entry = std::ranges::find(kTypes, type, &TypeEntry::type);
  return entry == kTypes.end() ? nullptr : &*entry;
}

absl::Status CheckColumn(const Column& column) {
  if (column.name.empty() || column.name.size() > kMaxColumnNameBytes) {
    return InvalidArgument("column name \"", column.name, "\" has ", column.name.size(), " bytes; 1 to ",
                           kMaxColumnNameBytes, " are allowed");
  }
  if (!ValidUtf8(column.name)) return InvalidArgument("a column name is not valid UTF-8");
  const auto refuse = [&](std::string_view why) { return InvalidArgument("column \"", column.name, "\": ", why); };
  if (FindType(column.type) == nullptr) return refuse("unknown type");
  if (column.codec != Codec::kNone && column.codec != Codec::kZstd) return refuse("unknown codec");
  if (column.is_key && (column.type != Type::kUtf8 || column.nullable)) {
    return refuse("a key column is of type utf8 and not nullable");
  }
  if (column.type != Type::kNdarray) {
    if (column.shape.has_value()) return refuse("only ndarray columns have a shape");
    return absl::OkStatus();
  }
  if (ScalarSize(column.dtype) == 0) return refuse("the dtype of an ndarray is a scalar type");
  if (!column.shape.has_value()) return absl::OkStatus();
  if (column.shape->size() > kMaxRank) return refuse("an ndarray has at most 8 dimensions");
  uint64_t size = ScalarSize(column.dtype);
  for (const uint64_t dimension : *column.shape) {
    if (!CheckedMultiply(size, dimension, &size)) return refuse("its values pass 2^40 bytes");
  }
  if (size > kMaxFixedSize) return refuse("its values pass 2^40 bytes");
  return absl::OkStatus();
}

}  // namespace

std::string_view TypeName(Type type) {
  const TypeEntry* entry = FindType(type);
  return entry ? entry->name : "?";
}

std::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kZstd:
      return "zstd";
  }
  return "?";
}

std::optional<Type> TypeFromName(std::string_view name) {
  const auto entry = std::ranges::find(kTypes, name, &TypeEntry::name);
  if (entry == kTypes.end()) return std::nullopt;
  return entry->type;
}

uint32_t ScalarSize(Type type) {
  const TypeEntry* entry = FindType(type);
  return entry ? entry->scalar_size : 0;
}

bool IsByteString(Type type) { return type >= Type::kBytes && type <= Type::kImage; }

bool IsImage(Type type) { return type >= Type::kJpeg && type <= Type::kImage; }

std::optional<uint64_t> Column::fixed_size() const {
  if (const uint32_t size = ScalarSize(type); size != 0) return size;
  if (type != Type::kNdarray || !shape.has_value()) return std::nullopt;
  uint64_t size = ScalarSize(dtype);
  for (const uint64_t dimension : *shape) size *= dimension;
  return size;
}

absl::StatusOr<Schema> Schema::Create(std::vector<Column> columns) {
  if (columns.empty()) return InvalidArgument("a schema has at least one column");
  if (columns.size() > kMaxColumns) {
    return InvalidArgument("a schema has at most ", kMaxColumns, " columns, not ", columns.size());
  }
  Schema schema;
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (absl::Status status = CheckColumn(columns[i]); !status.ok()) return status;
    if (!names.insert(columns[i].name).second) {
      return InvalidArgument("column name \"", columns[i].name, "\" stands twice");
    }
    if (columns[i].is_key) {
      if (schema.key_column_.has_value()) return InvalidArgument("a schema has at most one key column");
      schema.key_column_ = i;
    }
    if (columns[i].is_blob()) schema.blob_columns_.push_back(i);
  }
  schema.columns_ = std::move(columns);
  return schema;
}

std::optional<size_t> Schema::Find(std::string_view name) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == name) return i;
  }
  return std::nullopt;
}

std::optional<Type> CommonType(Type a, Type b) {
  if (a == b) return a;
  if (!IsByteString(a) || !IsByteString(b)) return std::nullopt;
  if (IsImage(a) && IsImage(b)) return Type::kImage;
  const auto is_text = [](Type type) { return type == Type::kUtf8 || type == Type::kJson; };
  return is_text(a) && is_text(b) ? Type::kUtf8 : Type::kBytes;
}

absl::StatusOr<Schema> MergeSchemas(const Schema& a, const Schema& b) {
  std::vector<Column> merged = a.columns();
  for (Column& column : merged) {
    const std::optional<size_t> other_index = b.Find(column.name);
    if (!other_index.has_value()) {
      column.nullable = true;
      continue;
    }
    const Column& other = b[*other_index];
    const std::optional<Type> type = CommonType(column.type, other.type);
    const auto refuse = [&](std::string_view what, std::string_view left, std::string_view right) {
      return InvalidArgument("column \"", column.name, "\" has ", what, " ", left, " here and ", right, " there");
    };
    if (!type.has_value()) return refuse("type", TypeName(column.type), TypeName(other.type));
    if (column.codec != other.codec) return refuse("codec", CodecName(column.codec), CodecName(other.codec));
    if (column.is_key != other.is_key) return InvalidArgument("column \"", column.name, "\" is the key only in one");
    if (*type == Type::kNdarray && column.dtype != other.dtype) {
      return refuse("dtype", TypeName(column.dtype), TypeName(other.dtype));
    }
    if (column.shape != other.shape) {
      return InvalidArgument("column \"", column.name, "\" has differing shapes in its schemas");
    }
    column.type = *type;
    column.nullable = column.nullable || other.nullable;
  }
  for (const Column& column : b.columns()) {
    if (a.Find(column.name).has_value()) continue;
    merged.push_back(column);
    merged.back().nullable = true;
  }
  for (const Column& column : merged) {
    if (column.is_key && column.nullable) {
      return InvalidArgument("key column \"", column.name, "\" is missing in one of the schemas");
    }
  }
  return Schema::Create(std::move(merged));
}

}  // namespace shardkit
