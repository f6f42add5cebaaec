#include "shardkit/schema.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace shardkit {
namespace {

constexpr uint64_t kMaxFixedSize = uint64_t{1} << 40;

struct TypeEntry {
  Type type;
  std::string_view name;
  uint32_t scalar_size;
};

constexpr std::array<TypeEntry, 29> kTypes{{
    {Type::kBytes, "bytes", 0},
    {Type::kUtf8, "utf8", 0},
    {Type::kJson, "json", 0},
    {Type::kJpeg, "jpeg", 0},
    {Type::kPng, "png", 0},
    {Type::kImage, "image", 0},
    {Type::kI8, "i8", 1},
    {Type::kI16, "i16", 2},
    {Type::kI32, "i32", 4},
    {Type::kI64, "i64", 8},
    {Type::kU8, "u8", 1},
    {Type::kU16, "u16", 2},
    {Type::kU32, "u32", 4},
    {Type::kU64, "u64", 8},
    {Type::kF16, "f16", 2},
    {Type::kBf16, "bf16", 2},
    {Type::kF32, "f32", 4},
    {Type::kF64, "f64", 8},
    {Type::kBool, "bool", 1},
    {Type::kNdarray, "ndarray", 0},
    {Type::kRle, "rle", 0},
    {Type::kF8E4M3, "f8e4m3", 1},
    {Type::kF8E5M2, "f8e5m2", 1},
    {Type::kComplex64, "complex64", 8},
    {Type::kComplex128, "complex128", 16},
    {Type::kTimestampS, "timestamp_s", 8},
    {Type::kTimestampMs, "timestamp_ms", 8},
    {Type::kTimestampUs, "timestamp_us", 8},
    {Type::kTimestampNs, "timestamp_ns", 8},
}};

const TypeEntry* FindType(Type type) {
  const auto entry = std::ranges::find(kTypes, type, &TypeEntry::type);
  return entry == kTypes.end() ? nullptr : &*entry;
}

// Bytes of each value, or empty when type and shape do not say: values of variable size, types that are not known.
std::optional<uint64_t> SizeOfType(const Column& column) {
  if (column.type != Type::kNdarray) {
    const uint32_t size = ScalarSize(column.type);
    return size != 0 ? std::optional<uint64_t>(size) : std::nullopt;
  }
  if (!column.shape.has_value() || !IsKnownType(column.dtype)) return std::nullopt;
  uint64_t size = ScalarSize(column.dtype);
  for (const uint64_t dimension : *column.shape) size *= dimension;
  return size;
}

// Whether all values have one size though only value_size can tell which.
bool SizeIsStated(const Column& column) {
  if (!IsKnownType(column.type)) return column.storage == Storage::kFixed;
  return column.type == Type::kNdarray && column.shape.has_value() && !IsKnownType(column.dtype);
}

Storage StorageOf(const Column& column) {
  if (SizeOfType(column).has_value() || SizeIsStated(column)) return Storage::kFixed;
  return column.codec == Codec::kNone ? Storage::kBlob : Storage::kInline;
}

// Of an ndarray with a shape: a dimension of zero does not hide others that no program could count to.
bool ShapeAllowed(const Column& column) {
  uint64_t size = ScalarSize(column.dtype);
  for (const uint64_t dimension : *column.shape) {
    if (dimension != 0 && (!CheckedMultiply(size, dimension, &size) || size > kMaxFixedSize)) return false;
  }
  return true;
}

absl::Status CheckStorage(Column& column) {
  const auto refuse = [&](std::string_view why) { return InvalidArgument("column \"", column.name, "\": ", why); };
  const std::optional<uint64_t> size = SizeOfType(column);
  if (column.storage == Storage::kDerived) {
    if (!IsKnownType(column.type) || SizeIsStated(column)) {
      return refuse("a column whose type or dtype is not known needs a storage");
    }
    column.storage = StorageOf(column);
    column.value_size = size.value_or(0);
  }
  const bool fixed = column.storage == Storage::kFixed;
  if (column.storage > Storage::kPaged) return refuse("unknown storage");
  if (IsKnownType(column.type) && fixed != (StorageOf(column) == Storage::kFixed)) {
    return refuse(fixed ? "storage fixed, though the values differ in size"
                        : "all values have one size, but the storage is not fixed");
  }
  if (size.has_value() && column.value_size != *size) {
    return refuse(StrCat("a value_size of ", column.value_size, " bytes, not the ", *size, " of its type"));
  }
  if (column.value_size > kMaxFixedSize) return refuse("its values pass 2^40 bytes");
  if (!fixed && column.value_size != 0) return refuse("only columns of storage fixed have a value_size");
  if (column.has_values_chunk() && IsKnownCodec(column.codec) && column.codec != Codec::kNone) {
    return refuse("only columns of codec none have storage blob or paged");
  }
  if (column.storage == Storage::kInline && column.codec == Codec::kNone) {
    return refuse("columns of codec none have no storage inline");
  }
  return absl::OkStatus();
}

// Sets the storage, too.
absl::Status CheckColumn(Column& column) {
  SHARDKIT_RETURN_IF_ERROR(CheckColumnName(column.name));
  const auto refuse = [&](std::string_view why) { return InvalidArgument("column \"", column.name, "\": ", why); };
  if (column.is_key && (column.type != Type::kUtf8 || column.nullable)) {
    return refuse("a key column is of type utf8 and not nullable");
  }
  if (column.shape.has_value()) {
    if (IsKnownType(column.type) && column.type != Type::kNdarray) return refuse("only ndarray columns have a shape");
    if (column.shape->size() > kMaxRank) return refuse("an ndarray has at most 8 dimensions");
  }
  if (column.type == Type::kNdarray && column.dtype == Type{}) return refuse("an ndarray has a dtype");
  if (column.type == Type::kNdarray && IsKnownType(column.dtype)) {
    if (ScalarSize(column.dtype) == 0) return refuse("the dtype of an ndarray is a scalar type");
    if (column.shape.has_value() && !ShapeAllowed(column)) {
      return refuse("its values pass 2^40 bytes, or would without the dimensions that are 0");
    }
  }
  for (const auto& [name, value] : column.metadata) {
    if (absl::Status status = CheckName(name, "metadata name"); !status.ok()) return refuse(ToStd(status.message()));
    if (!ValidUtf8(value)) return refuse("a metadata value is not valid UTF-8");
  }
  return CheckStorage(column);
}

}  // namespace

bool IsKnownType(Type type) { return FindType(type) != nullptr; }

bool IsKnownCodec(Codec codec) { return codec == Codec::kNone || codec == Codec::kZstd; }

std::string TypeName(Type type) {
  const TypeEntry* entry = FindType(type);
  return entry ? std::string(entry->name) : StrCat("type ", static_cast<uint16_t>(type));
}

std::string CodecName(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kZstd:
      return "zstd";
  }
  return StrCat("codec ", static_cast<int>(codec));
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

bool IsByteString(const Column& column) { return IsByteString(column.type) || !column.has_known_type(); }

bool IsImage(Type type) { return type >= Type::kJpeg && type <= Type::kImage; }

bool Column::operator==(const Column& other) const {
  const auto fields = [](const Column& column) {
    return std::tie(column.name, column.type, column.codec, column.nullable, column.is_key, column.dtype, column.shape,
                    column.metadata);
  };
  if (fields(*this) != fields(other)) return false;
  if (storage == other.storage && value_size == other.value_size) return true;
  return is_blob() == other.is_blob() && is_paged() == other.is_paged() && fixed_size() == other.fixed_size();
}

bool Column::has_known_type() const { return IsKnownType(type) && (type != Type::kNdarray || IsKnownType(dtype)); }

std::optional<uint64_t> Column::fixed_size() const {
  if (storage == Storage::kDerived) return SizeOfType(*this);
  return storage == Storage::kFixed ? std::optional<uint64_t>(value_size) : std::nullopt;
}

bool Column::is_blob() const {
  return storage == Storage::kBlob || (storage == Storage::kDerived && StorageOf(*this) == Storage::kBlob);
}

void Column::SetCodec(Codec to) {
  codec = to;
  if (storage != Storage::kDerived && storage != Storage::kFixed) storage = StorageOf(*this);
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
      return InvalidArgument("column name \"", columns[i].name, "\" occurs twice");
    }
    if (columns[i].is_key) {
      if (schema.key_column_.has_value()) return InvalidArgument("a schema has at most one key column");
      schema.key_column_ = i;
    }
    if (columns[i].is_blob()) schema.blob_columns_.push_back(i);
  }
  schema.values_columns_ = schema.blob_columns_;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].is_paged()) schema.values_columns_.push_back(i);
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

bool IsTextList(const Column& column) {
  if (column.type != Type::kJson) return false;
  const auto found = column.metadata.find(kItems);
  return found != column.metadata.end() && found->second == TypeName(Type::kUtf8);
}

absl::StatusOr<std::vector<std::string>> ClassNames(const Column& column) {
  std::vector<std::string> names;
  const auto found = column.metadata.find(kClassNames);
  if (found == column.metadata.end()) return names;
  if (ReadJson(found->second, /*all=*/true, [&](JsonReader& json) { return json.Read(&names); }).ok()) return names;
  return InvalidArgument("column \"", column.name, "\": ", kClassNames,
                         " is a JSON array of texts, as [\"cat\", \"dog\"]: value i means class i");
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
    const bool shaped = *type == Type::kNdarray || !IsKnownType(*type);
    if (shaped && column.dtype != other.dtype) return refuse("dtype", TypeName(column.dtype), TypeName(other.dtype));
    if (column.shape != other.shape || column.fixed_size() != other.fixed_size()) {
      return InvalidArgument("column \"", column.name, "\" has differing shapes or sizes in its schemas");
    }
    column.type = *type;
    column.nullable = column.nullable || other.nullable;
    std::erase_if(column.metadata, [&](const auto& entry) {
      const auto found = other.metadata.find(entry.first);
      return found == other.metadata.end() || found->second != entry.second;
    });
  }
  for (const Column& column : b.columns()) {
    if (a.Find(column.name).has_value()) continue;
    merged.push_back(column);
    merged.back().nullable = true;
  }
  // Of values of variable size each shard chooses the storage for itself.
  for (Column& column : merged) column.SetCodec(column.codec);
  for (const Column& column : merged) {
    if (column.is_key && column.nullable) {
      return InvalidArgument("key column \"", column.name, "\" is missing in one of the schemas");
    }
  }
  return Schema::Create(std::move(merged));
}

}  // namespace shardkit
