#include "dataset/manifest_json.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "base/endian.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "dataset/schema_mapper.h"
#include "format/paged_table.h"

namespace shardkit::dataset {
namespace {

using simdjson::ondemand::object;
using simdjson::ondemand::value;

constexpr uint64_t kMaxCount = uint64_t{1} << 62;  // spec.md, section 10

// Whether a column of this type has dtype and shape: also those of types that are not known are kept.
bool HasShape(Type type) { return type == Type::kNdarray || !IsKnownType(type); }

// The names of numbers that are not known are the numbers.
std::string FormatType(Type type) {
  return IsKnownType(type) ? Quote(TypeName(type)) : StrCat(static_cast<uint16_t>(type));
}

// Without the bracket that ends it.
std::string BeginColumn(const Column& column) {
  std::string out =
      StrCat("{\"name\": ", Quote(column.name), ", \"type\": ", FormatType(column.type), ", \"codec\": ",
             IsKnownCodec(column.codec) ? Quote(CodecName(column.codec)) : StrCat(static_cast<int>(column.codec)),
             ", \"nullable\": ", column.nullable ? "true" : "false", ", \"key\": ", column.is_key ? "true" : "false");
  if (const auto size = column.fixed_size()) out += StrCat(", \"value_size\": ", *size);
  if (HasShape(column.type)) {
    out += StrCat(", \"dtype\": ", FormatType(column.dtype), ", \"shape\": ");
    if (column.shape) {
      out += '[';
      for (size_t i = 0; i < column.shape->size(); ++i) out += StrCat(i == 0 ? "" : ", ", (*column.shape)[i]);
      out += ']';
    } else {
      out += "null";
    }
  }
  for (const auto& [name, value] : column.metadata) {
    out += StrCat(name == column.metadata.begin()->first ? ", \"metadata\": {" : ", ", Quote(name), ": ", Quote(value));
  }
  if (!column.metadata.empty()) out += '}';
  return out;
}

std::string FormatReference(std::string_view key, const TableReference& reference) {
  return StrCat(", \"", key, "\": {\"name\": ", Quote(reference.name), ", \"bytes\": ", reference.bytes,
                ", \"root\": ", reference.root, ", \"checksum\": \"", Hex64(reference.checksum), "\"}");
}

std::string FormatSource(const ColumnSource& source) {
  std::string out = StrCat("{\"end\": ", source.end);
  if (source.layer) out += StrCat(", \"layer\": ", *source.layer);
  if (!source.column.empty()) out += StrCat(", \"column\": ", Quote(source.column));
  return out + "}";
}

// A type, or its number where it is not known. A name that is not known is put into *unknown.
Type ToType(simdjson::simdjson_result<value> element, std::string* unknown) {
  if (element.type().value() == simdjson::ondemand::json_type::string) {
    const std::string_view name = ToString(element);
    const std::optional<Type> found = TypeFromName(name);
    if (!found) *unknown = StrCat("type ", Quote(name));
    return found.value_or(Type{});
  }
  const uint64_t number = element.get_uint64().value();
  if (number > UINT16_MAX || IsKnownType(static_cast<Type>(number))) {
    throw Malformed{StrCat("the type of a column is the number ", number, ", which is none or has a name")};
  }
  return static_cast<Type>(number);
}

Codec ToCodec(simdjson::simdjson_result<value> element, std::string* unknown) {
  if (element.type().value() == simdjson::ondemand::json_type::string) {
    const std::string_view name = ToString(element);
    if (name != "none" && name != "zstd") *unknown = StrCat("codec ", Quote(name));
    return name == "zstd" ? Codec::kZstd : Codec::kNone;
  }
  const uint64_t number = element.get_uint64().value();
  if (number > UINT8_MAX || IsKnownCodec(static_cast<Codec>(number))) {
    throw Malformed{StrCat("the codec of a column is the number ", number, ", which is none or has a name")};
  }
  return static_cast<Codec>(number);
}

uint64_t ToChecksum(simdjson::simdjson_result<value> element) {
  std::array<uint8_t, 8> digits;
  if (!FromHexDigits(ToString(element), digits)) {
    throw Malformed{"a checksum is not 16 lower-case hexadecimal digits"};
  }
  uint64_t checksum = 0;
  for (const uint8_t digit : digits) checksum = checksum << 8 | digit;
  return checksum;
}

ColumnSource ParseSource(object fields) {
  ColumnSource source;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "end") {
      source.end = ToCount(field.value());
    } else if (key == "layer") {
      source.layer = ToCount(field.value());
    } else if (key == "column") {
      source.column = std::string(ToString(field.value()));
      if (source.column.empty()) throw Malformed{"a source's column has no name"};
    }
  }
  keys.Check({"end"});
  if (source.layer) keys.Check({"column"});
  return source;
}

// `sources` may be null.
Column ParseColumn(object fields, std::vector<ColumnSource>* sources) {
  Column column;
  std::optional<uint64_t> size;
  std::string unknown;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "name") {
      column.name = std::string(ToString(field.value()));
    } else if (key == "type") {
      column.type = ToType(field.value(), &unknown);
    } else if (key == "codec") {
      column.codec = ToCodec(field.value(), &unknown);
    } else if (key == "nullable") {
      column.nullable = field.value().get_bool().value();
    } else if (key == "key") {
      column.is_key = field.value().get_bool().value();
    } else if (key == "dtype") {
      column.dtype = ToType(field.value(), &unknown);
    } else if (key == "value_size") {
      size = ToCount(field.value());
    } else if (key == "metadata") {
      column.metadata = ToMetadata(field.value().get_object());
    } else if (key == "sources" && sources != nullptr) {
      for (auto element : field.value().get_array()) sources->push_back(ParseSource(element.get_object()));
    } else if (key == "shape" && !field.value().is_null()) {
      column.shape.emplace();
      for (auto dimension : field.value().get_array()) column.shape->push_back(dimension.get_uint64().value());
    }
  }
  keys.Check({"name", "type", "codec", "nullable", "key"});
  if (!unknown.empty()) throw Newer{StrCat("column ", Quote(column.name), ": ", unknown, " is not known")};
  if (HasShape(column.type)) {
    keys.Check({"dtype", "shape"});
  } else {
    column.dtype = Column().dtype;
    column.shape.reset();
  }
  // The storage of other columns is a matter of each shard. The schema of a dataset has what the codec suggests.
  column.storage = size ? Storage::kFixed : column.codec == Codec::kNone ? Storage::kBlob : Storage::kInline;
  column.value_size = size.value_or(0);
  return column;
}

TableReference ParseReference(object fields) {
  TableReference reference;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "name") {
      reference.name = std::string(ToString(field.value()));
    } else if (key == "bytes") {
      reference.bytes = ToCount(field.value());
    } else if (key == "root") {
      reference.root = ToCount(field.value());
    } else if (key == "checksum") {
      reference.checksum = ToChecksum(field.value());
    }
  }
  keys.Check({"name", "bytes", "root", "checksum"});
  if (reference.root < format::kTableTailBytes || reference.root > reference.bytes) {
    throw Malformed{StrCat("a table of ", reference.bytes, " bytes cannot have a root of ", reference.root)};
  }
  return reference;
}

Layer ParseLayer(object fields) {
  Layer layer;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "name") {
      layer.name = std::string(ToString(field.value()));
    } else if (key == "checksum") {
      layer.checksum = ToChecksum(field.value());
    } else if (key == "samples") {
      layer.samples = ToCount(field.value());
    }
  }
  keys.Check({"name", "checksum", "samples"});
  return layer;
}

// Where the values come from, for messages.
absl::Status CheckSources(const ManifestSummary& summary, const Column& column,
                          const std::vector<ColumnSource>& sources) {
  const DatasetView& view = *summary.view;
  const auto wrong = [&](std::string_view what) {
    return DataLoss("manifest: view: column ", Quote(column.name), ": ", what);
  };
  bool absent = false;
  const auto check_stored = [&](std::string_view name) -> absl::Status {
    const std::optional<size_t> stored = summary.schema.Find(name);
    if (!stored) {
      absent = true;
      return absl::OkStatus();
    }
    const std::string_view difference = ColumnDifference(summary.schema[*stored], column);
    if (difference.empty()) return absl::OkStatus();
    return wrong(StrCat("does not fit the shards' column ", Quote(name), ": ", difference, " differs"));
  };
  uint64_t end = 0;
  for (const ColumnSource& source : sources) {
    if (source.end <= end || source.end > summary.sample_count) return wrong("the ends of its sources are wrong");
    end = source.end;
    if (source.layer) {
      if (*source.layer >= view.layers.size()) return wrong(StrCat("there is no layer ", *source.layer));
      if (view.layers[*source.layer].samples < end) return wrong("a source ends behind its layer");
      if (column.is_key) return wrong("the key comes from the shards, not from a layer");
      continue;
    }
    if (source.column.empty()) {
      absent = true;
      continue;
    }
    if (!summary.schema.Find(source.column)) return wrong(StrCat("the shards have no column ", Quote(source.column)));
    SHARDKIT_RETURN_IF_ERROR(check_stored(source.column));
  }
  if (end < summary.sample_count || sources.empty()) SHARDKIT_RETURN_IF_ERROR(check_stored(column.name));
  if (absent && !column.nullable) return wrong("is not nullable, but some samples have no value");
  return absl::OkStatus();
}

}  // namespace

std::string Quote(std::string_view text) { return JsonValue(text).Format(); }

std::string Hex64(uint64_t value) {
  std::string out(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
  return out;
}

void Keys::Check(std::initializer_list<std::string_view> required) {
  if (std::ranges::equal(keys_, required)) return;  // as writers have them
  std::ranges::sort(keys_);
  const auto twice = std::ranges::adjacent_find(keys_);
  if (twice != keys_.end()) throw Malformed{StrCat("the key ", Quote(*twice), " stands twice in an object")};
  for (const std::string_view key : required) {
    if (!std::ranges::binary_search(keys_, key)) throw Malformed{StrCat("an object lacks the key ", Quote(key))};
  }
}

std::string_view ToString(simdjson::simdjson_result<value> element) { return element.get_string().value(); }

uint64_t ToCount(simdjson::simdjson_result<value> element) {
  const uint64_t count = element.get_uint64().value();
  if (count > kMaxCount) throw Malformed{StrCat("a count of ", count, " is over the limit of 2^62")};
  return count;
}

Metadata ToMetadata(object entries) {
  Metadata metadata;
  Keys names;
  for (auto entry : entries) {
    const std::string_view name = names.Note(entry.unescaped_key().value());
    if (!CheckName(name, "").ok()) throw Malformed{"a name of metadata has a NUL or a line feed"};
    metadata[std::string(name)] = std::string(ToString(entry.value()));
  }
  names.Check({});
  return metadata;
}

std::string FormatColumn(const Column& column) { return StrCat("    ", BeginColumn(column), "}"); }

std::string FormatSegment(const Segment& segment) {
  std::string out = StrCat("    {\"shards\": ", segment.shards, ", \"samples\": ", segment.samples,
                           ", \"blocks\": ", segment.blocks, FormatReference("index", segment.index));
  if (segment.keys) out += FormatReference("keys", *segment.keys);
  if (segment.list) out += FormatReference("list", *segment.list);
  return out + "}";
}

std::string FormatShard(const ManifestShard& shard) {
  std::string out =
      StrCat("    {\"name\": ", Quote(shard.name), ", \"bytes\": ", shard.bytes, ", \"samples\": ", shard.samples,
             ", \"blocks\": ", shard.blocks, ", \"content_hash\": \"", ToHex(shard.content_hash), "\"");
  if (shard.sha256) out += StrCat(", \"sha256\": \"", ToHex(*shard.sha256), "\"");
  return out + "}";
}

std::string FormatView(const DatasetView& view) {
  std::string out = "{\n    \"columns\": [";
  for (size_t i = 0; i < view.schema.size(); ++i) {
    out += StrCat(i == 0 ? "\n      " : ",\n      ", BeginColumn(view.schema[i]));
    for (size_t k = 0; k < view.sources[i].size(); ++k) {
      out += StrCat(k == 0 ? ", \"sources\": [" : ", ", FormatSource(view.sources[i][k]));
    }
    out += view.sources[i].empty() ? "}" : "]}";
  }
  out += view.schema.size() == 0 ? "],\n    \"layers\": [" : "\n    ],\n    \"layers\": [";
  for (size_t i = 0; i < view.layers.size(); ++i) {
    const Layer& layer = view.layers[i];
    out += StrCat(i == 0 ? "\n      " : ",\n      ", "{\"name\": ", Quote(layer.name), ", \"checksum\": \"",
                  Hex64(layer.checksum), "\", \"samples\": ", layer.samples, "}");
  }
  return out + (view.layers.empty() ? "]\n  }" : "\n    ]\n  }");
}

std::string FormatRemoved(const RemovedSamples& removed) {
  return StrCat("{\"samples\": ", removed.samples, FormatReference("table", removed.table), "}");
}

Column ParseColumn(object fields) { return ParseColumn(fields, nullptr); }

ManifestShard ParseShard(object fields) {
  ManifestShard shard;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "name") {
      shard.name = std::string(ToString(field.value()));
    } else if (key == "bytes") {
      shard.bytes = ToCount(field.value());
    } else if (key == "samples") {
      shard.samples = ToCount(field.value());
    } else if (key == "blocks") {
      shard.blocks = ToCount(field.value());
    } else if (key == "content_hash" && !FromHexDigits(ToString(field.value()), shard.content_hash)) {
      throw Malformed{"a shard's content_hash is not 32 lower-case hexadecimal digits"};
    } else if (key == "sha256" && !FromHexDigits(ToString(field.value()), shard.sha256.emplace())) {
      throw Malformed{"a shard's sha256 is not 64 lower-case hexadecimal digits"};
    }
  }
  keys.Check({"name", "bytes", "samples", "blocks", "content_hash"});
  return shard;
}

Segment ParseSegment(object fields) {
  Segment segment;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "shards") {
      segment.shards = ToCount(field.value());
    } else if (key == "samples") {
      segment.samples = ToCount(field.value());
    } else if (key == "blocks") {
      segment.blocks = ToCount(field.value());
    } else if (key == "index") {
      segment.index = ParseReference(field.value().get_object());
    } else if (key == "keys") {
      segment.keys = ParseReference(field.value().get_object());
    } else if (key == "list") {
      segment.list = ParseReference(field.value().get_object());
    }
  }
  keys.Check({"shards", "samples", "blocks", "index"});
  return segment;
}

RemovedSamples ParseRemoved(object fields) {
  RemovedSamples removed;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "samples") {
      removed.samples = ToCount(field.value());
    } else if (key == "table") {
      removed.table = ParseReference(field.value().get_object());
    }
  }
  keys.Check({"samples", "table"});
  return removed;
}

DatasetView ParseView(object fields) {
  DatasetView view;
  std::vector<Column> columns;
  Keys keys;
  for (auto field : fields) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "columns") {
      for (auto element : field.value().get_array()) {
        columns.push_back(ParseColumn(element.get_object(), &view.sources.emplace_back()));
      }
    } else if (key == "layers") {
      for (auto element : field.value().get_array()) view.layers.push_back(ParseLayer(element.get_object()));
    }
  }
  keys.Check({"columns", "layers"});
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  if (!schema.ok()) throw Malformed{StrCat("view: columns: ", ToStd(schema.status().message()))};
  view.schema = *std::move(schema);
  return view;
}

absl::Status CheckView(const ManifestSummary& summary) {
  if (summary.removed) {
    if (summary.removed->samples == 0 || summary.removed->samples > summary.sample_count) {
      return DataLoss("manifest: removed: ", summary.removed->samples, " samples cannot be removed of ",
                      summary.sample_count);
    }
  }
  if (!summary.view) return absl::OkStatus();
  for (size_t i = 0; i < summary.view->layers.size(); ++i) {
    const Layer& layer = summary.view->layers[i];
    if (layer.samples == 0 || layer.samples > summary.sample_count) {
      return DataLoss("manifest: view: layer ", i, ": has ", layer.samples, " samples, but the shards ",
                      summary.sample_count);
    }
  }
  for (size_t i = 0; i < summary.view->schema.size(); ++i) {
    SHARDKIT_RETURN_IF_ERROR(CheckSources(summary, summary.view->schema[i], summary.view->sources[i]));
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
