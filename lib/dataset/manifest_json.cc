#include "dataset/manifest_json.h"

#include <array>
#include <optional>

#include "base/endian.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "dataset/schema_mapper.h"
#include "format/paged_table.h"
#include "format/shard_list.h"

namespace shardkit::dataset {
namespace {

constexpr auto kRequired = JsonField::kRequired, kOptional = JsonField::kOptional;

// Whether a column of this type has dtype and shape: also those of types that are not known are kept.
bool HasShape(Type type) { return type == Type::kNdarray || !IsKnownType(type); }

// The name, where there is one, and the number, which counts.
std::string FormatNumbered(std::string_view key, bool is_known, std::string_view name, unsigned number) {
  return StrCat(is_known ? StrCat(", \"", key, "\": ", Quote(name)) : "", ", \"", key, "_number\": ", number);
}

std::string FormatType(std::string_view key, Type type) {
  return FormatNumbered(key, IsKnownType(type), TypeName(type), static_cast<uint16_t>(type));
}

// Without the bracket that ends it.
std::string BeginColumn(const Column& column) {
  std::string out = StrCat(
      "{\"name\": ", Quote(column.name), FormatType("type", column.type),
      FormatNumbered("codec", IsKnownCodec(column.codec), CodecName(column.codec), static_cast<uint8_t>(column.codec)),
      ", \"nullable\": ", column.nullable ? "true" : "false", ", \"key\": ", column.is_key ? "true" : "false");
  if (const auto size = column.fixed_size()) out += StrCat(", \"value_size\": ", *size);
  if (HasShape(column.type)) {
    out += StrCat(FormatType("dtype", column.dtype), ", \"shape\": ");
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

// What has a number and, where the writer knows one, a name.
struct Numbered {
  std::string name;
  std::optional<uint64_t> number;
};

// Sets *value to the number. DataLoss unless a number that is known has its name. `key` is that of the name.
template <typename T>
absl::Status Take(const Numbered& read, std::string_view key, bool (*is_known)(T), std::string (*name_of)(T),
                  T* value) {
  if (!read.number) return DataLoss("lacks the key \"", key, "_number\"");
  *value = static_cast<T>(*read.number);
  if (!is_known(*value) || read.name == name_of(*value)) return absl::OkStatus();
  return DataLoss("its ", key, "_number ", *read.number, " is ", name_of(*value), ", and not ", Quote(read.name));
}

absl::Status ReadChecksum(JsonReader& json, uint64_t* checksum) {
  std::array<uint8_t, 8> bytes;
  SHARDKIT_RETURN_IF_ERROR(json.Read(bytes));
  for (const uint8_t byte : bytes) *checksum = *checksum << 8 | byte;
  return absl::OkStatus();
}

absl::Status ReadSource(JsonReader& json, ColumnSource* source) {
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"end", &source->end, kRequired, kMaxCount},
                                        {"layer", &source->layer, kOptional, kMaxCount},
                                        {"column",
                                         [&](JsonReader& name) -> absl::Status {
                                           SHARDKIT_RETURN_IF_ERROR(name.Read(&source->column));
                                           return source->column.empty() ? DataLoss("is no name") : absl::OkStatus();
                                         },
                                         kOptional}}));
  if (source->layer && source->column.empty()) return DataLoss("lacks the key \"column\"");
  return absl::OkStatus();
}

absl::Status ReadReference(JsonReader& json, TableReference* table) {
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"name", &table->name},
                                        {"bytes", &table->bytes, kRequired, kMaxCount},
                                        {"root", &table->root, kRequired, kMaxCount},
                                        {"checksum", JsonInto(&table->checksum, &ReadChecksum)}}));
  if (table->root >= format::kTableTailBytes && table->root <= table->bytes) return absl::OkStatus();
  return DataLoss("a table of ", table->bytes, " bytes cannot have a root of ", table->root);
}

absl::Status ReadLayer(JsonReader& json, Layer* layer) {
  return json.Object({{"name", &layer->name},
                      {"checksum", JsonInto(&layer->checksum, &ReadChecksum)},
                      {"samples", &layer->samples, kRequired, kMaxCount}});
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

std::string Hex64(uint64_t value) { return StrCat(absl::Hex(value, absl::kZeroPad16)); }

absl::Status ReadMetadata(JsonReader& json, Metadata* metadata) {
  return json.Members([&](std::string_view name, JsonReader& value) -> absl::Status {
    if (!CheckName(name, "").ok()) return DataLoss("a name of metadata has a NUL or a line feed");
    return value.Read(&(*metadata)[std::string(name)]);
  });
}

absl::Status ReadOperation(JsonReader& json, DatasetOperation* operation) {
  return json.Object({{"name", &operation->name}, {"arguments", [&](JsonReader& arguments) {
                                                     return arguments.Members(
                                                         [&](std::string_view name, JsonReader& values) {
                                                           return values.Read(&operation->arguments[std::string(name)]);
                                                         });
                                                   }}});
}

std::string FormatOperation(const DatasetOperation& operation) {
  std::string arguments;
  for (const auto& [name, values] : operation.arguments) {
    std::string list;
    for (const std::string& value : values) list += StrCat(list.empty() ? "" : ", ", Quote(value));
    arguments += StrCat(arguments.empty() ? "" : ", ", Quote(name), ": [", list, "]");
  }
  return StrCat("{\"name\": ", Quote(operation.name), ", \"arguments\": {", arguments, "}}");
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

absl::Status ReadColumn(JsonReader& json, Column* column, std::vector<ColumnSource>* sources) {
  std::optional<uint64_t> size;
  Numbered type, codec, dtype;
  bool has_dtype = false, has_shape = false;
  SHARDKIT_RETURN_IF_ERROR(json.Object(
      {{"name", &column->name},
       {"type", &type.name, kOptional},
       {"type_number", &type.number, kOptional, UINT16_MAX},
       {"codec", &codec.name, kOptional},
       {"codec_number", &codec.number, kOptional, UINT8_MAX},
       {"nullable", &column->nullable},
       {"key", &column->is_key},
       {"value_size", &size, kOptional, kMaxCount},
       {"dtype",
        [&](JsonReader& name) {
          has_dtype = true;
          return name.Read(&dtype.name);
        },
        kOptional},
       {"dtype_number", &dtype.number, kOptional, UINT16_MAX},
       {"shape",
        [&](JsonReader& shape) {
          has_shape = true;
          return shape.Read(&column->shape);
        },
        kOptional},
       {"metadata", JsonInto(&column->metadata, &ReadMetadata), kOptional},
       {"sources",
        [&](JsonReader& list) { return sources == nullptr ? absl::OkStatus() : JsonInto(sources, &ReadSource)(list); },
        kOptional}}));
  SHARDKIT_RETURN_IF_ERROR(Take(type, "type", &IsKnownType, &TypeName, &column->type));
  SHARDKIT_RETURN_IF_ERROR(Take(codec, "codec", &IsKnownCodec, &CodecName, &column->codec));
  if (!HasShape(column->type)) {
    if (has_dtype || dtype.number || has_shape) return DataLoss("has a dtype or a shape, though its type has none");
    column->dtype = Column().dtype;
  } else {
    SHARDKIT_RETURN_IF_ERROR(Take(dtype, "dtype", &IsKnownType, &TypeName, &column->dtype));
    if (!has_shape) return DataLoss("lacks the key \"shape\"");
  }
  // The storage of other columns is a matter of each shard. The schema of a dataset has what the codec suggests.
  column->storage = size ? Storage::kFixed : column->codec == Codec::kNone ? Storage::kBlob : Storage::kInline;
  column->value_size = size.value_or(0);
  return absl::OkStatus();
}

absl::Status ReadShard(JsonReader& json, ManifestShard* shard) {
  SHARDKIT_RETURN_IF_ERROR(
      json.Object({{"name", &shard->name},
                   {"bytes", &shard->bytes, kRequired, kMaxCount},
                   {"samples", &shard->samples, kRequired, kMaxCount},
                   {"blocks", &shard->blocks, kRequired, kMaxCount},
                   {"content_hash", shard->content_hash},
                   {"sha256", [&](JsonReader& digits) { return digits.Read(shard->sha256.emplace()); }, kOptional}}));
  if (format::CountsAllowed(shard->samples, shard->blocks)) return absl::OkStatus();
  return DataLoss(shard->samples, " samples cannot be in ", shard->blocks, " blocks");
}

absl::Status ReadSegment(JsonReader& json, Segment* segment) {
  return json.Object({{"shards", &segment->shards, kRequired, kMaxCount},
                      {"samples", &segment->samples, kRequired, kMaxCount},
                      {"blocks", &segment->blocks, kRequired, kMaxCount},
                      {"index", JsonInto(&segment->index, &ReadReference)},
                      {"keys", JsonInto(&segment->keys, &ReadReference), kOptional},
                      {"list", JsonInto(&segment->list, &ReadReference), kOptional}});
}

absl::Status ReadRemoved(JsonReader& json, RemovedSamples* removed) {
  return json.Object(
      {{"samples", &removed->samples, kRequired, kMaxCount}, {"table", JsonInto(&removed->table, &ReadReference)}});
}

absl::Status ReadView(JsonReader& json, DatasetView* view) {
  std::vector<Column> columns;
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"columns", JsonInto(&columns,
                                                             [&](JsonReader& column, Column* place) {
                                                               return ReadColumn(column, place,
                                                                                 &view->sources.emplace_back());
                                                             })},
                                        {"layers", JsonInto(&view->layers, &ReadLayer)}}));
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  if (!schema.ok()) return DataLoss("columns: ", ToStd(schema.status().message()));
  view->schema = *std::move(schema);
  return absl::OkStatus();
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
