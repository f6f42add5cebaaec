#include "foreign/mds/mds_text.h"

#include <cstdio>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {
namespace {

constexpr int kMdsVersion = 2;

// Names of scalars and of elements of arrays.
std::string_view NumberName(Type type) {
  switch (type) {
    case Type::kI8:
      return "int8";
    case Type::kI16:
      return "int16";
    case Type::kI32:
      return "int32";
    case Type::kI64:
      return "int64";
    case Type::kU8:
      return "uint8";
    case Type::kU16:
      return "uint16";
    case Type::kU32:
      return "uint32";
    case Type::kU64:
      return "uint64";
    case Type::kF16:
      return "float16";
    case Type::kF32:
      return "float32";
    case Type::kF64:
      return "float64";
    default:
      return "";
  }
}

absl::Status NoEncoding(const Column& column, std::string_view why) {
  return InvalidArgument("column \"", column.name, "\": MDS has no ", why);
}

absl::StatusOr<std::string> ArrayEncoding(const Column& column) {
  const std::string_view element = NumberName(column.dtype);
  if (element.empty()) return NoEncoding(column, StrCat("arrays of ", TypeName(column.dtype)));
  std::string encoding = StrCat("ndarray:", element);
  if (!column.shape) return encoding;
  if (column.shape->empty()) return NoEncoding(column, "arrays without dimensions");
  for (size_t i = 0; i < column.shape->size(); ++i) {
    if ((*column.shape)[i] == 0) return NoEncoding(column, "arrays without elements");
    encoding += StrCat(i == 0 ? ":" : ",", (*column.shape)[i]);
  }
  return encoding;
}

// The members that a shard's header and its entry in the index have in common.
JsonValue Settings(const MdsSettings& settings) {
  JsonValue names = JsonValue::Array(), encodings = JsonValue::Array(), sizes = JsonValue::Array();
  for (const MdsColumn& column : settings.columns) {
    names.Add(column.name);
    encodings.Add(column.encoding);
    sizes.Add(column.size ? JsonValue(*column.size) : JsonValue());
  }
  JsonValue hashes = JsonValue::Array();
  for (const std::string& hash : settings.hashes) hashes.Add(hash);
  JsonValue object = JsonValue::Object();
  object.Set("column_encodings", std::move(encodings)).Set("column_names", std::move(names));
  object.Set("column_sizes", std::move(sizes));
  object.Set("compression", settings.compression.empty() ? JsonValue() : JsonValue(settings.compression));
  object.Set("format", "mds").Set("hashes", std::move(hashes));
  object.Set("size_limit", settings.size_limit ? JsonValue(*settings.size_limit) : JsonValue());
  object.Set("version", kMdsVersion);
  return object;
}

JsonValue File(const MdsFile& file) {
  JsonValue hashes = JsonValue::Object();
  for (const auto& [name, digits] : file.hashes) hashes.Set(name, digits);
  JsonValue object = JsonValue::Object();
  object.Set("basename", file.name).Set("bytes", file.bytes).Set("hashes", std::move(hashes));
  return object;
}

}  // namespace

absl::StatusOr<std::string> MdsEncodingOf(const Column& column) {
  switch (column.type) {
    case Type::kBytes:
    case Type::kImage:
      return "bytes";
    case Type::kUtf8:
      return "str";
    case Type::kJson:
      return "json";
    case Type::kJpeg:
      return "jpeg";
    case Type::kPng:
      return "png";
    case Type::kNdarray:
      return ArrayEncoding(column);
    case Type::kRle:
      return NoEncoding(column, "masks as run lengths");
    default:
      break;
  }
  const std::string_view name = NumberName(column.type);
  if (name.empty()) return NoEncoding(column, StrCat("type ", TypeName(column.type)));
  return std::string(name);
}

absl::StatusOr<MdsColumn> MakeMdsColumn(const Column& column, std::string_view encoding) {
  MdsColumn out;
  out.name = column.name;
  out.encoding = encoding;
  out.how = DescribeMdsEncoding(encoding);
  out.size = out.how.size;
  const auto refuse = [&](std::string_view why) {
    return InvalidArgument("column \"", column.name, "\" of type ", TypeName(column.type), ": encoding ", encoding, " ",
                           why);
  };
  if (!out.how.known) return refuse("is not one of MDS");
  if (!out.how.refusal.empty()) return refuse("is pickled, which is never written");
  // Values of byte-string columns are stored as they are under any encoding without a fixed size, array encodings
  // included; but not what reading has made of pixels.
  if (IsByteString(column.type) && !out.size) {
    const bool pixels = out.how.form == MdsForm::kPixels && column.type == Type::kImage;
    if (!pixels && out.how.form != MdsForm::kPixelsList) out.how.form = MdsForm::kPlain;
    return out;
  }
  if (out.how.form == MdsForm::kTypedArray && column.type == Type::kNdarray &&
      MdsElementType(NumberName(column.dtype))) {
    out.how.type = Type::kNdarray;
    out.how.dtype = column.dtype;
  }
  const Column read = ColumnOf(out);
  if (read.type != column.type || read.dtype != column.dtype || read.shape != column.shape) {
    return refuse("stores values of another type");
  }
  return out;
}

std::string FormatMdsHeader(const MdsSettings& settings) { return Settings(settings).FormatLikePython(); }

std::string FormatMdsIndex(const MdsSettings& settings, std::span<const MdsShard> shards) {
  JsonValue entries = JsonValue::Array();
  for (const MdsShard& shard : shards) {
    JsonValue entry = Settings(settings);
    entry.Set("samples", shard.samples).Set("raw_data", File(shard.raw));
    entry.Set("zip_data", shard.zip ? File(*shard.zip) : JsonValue());
    entries.Add(std::move(entry));
  }
  return JsonValue::Object().Set("version", kMdsVersion).Set("shards", std::move(entries)).FormatLikePython();
}

std::string MdsShardName(uint64_t number) {
  char name[48];
  std::snprintf(name, sizeof(name), "shard.%05llu.mds", static_cast<unsigned long long>(number));
  return name;
}

}  // namespace shardkit::foreign
