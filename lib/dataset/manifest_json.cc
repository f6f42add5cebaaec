#include "dataset/manifest_json.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
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
std::string BeginColumn(const Column& column, std::string_view stored_name) {
  std::string out = StrCat(
      "{\"name\": ", Quote(column.name), stored_name == column.name ? "" : StrCat(", \"stored\": ", Quote(stored_name)),
      FormatType("type", column.type),
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

absl::Status ReadReference(JsonReader& json, TableReference* table) {
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"name", &table->name},
                                        {"bytes", &table->bytes, kRequired, kMaxCount},
                                        {"root", &table->root, kRequired, kMaxCount},
                                        {"checksum", JsonInto(&table->checksum, &ReadChecksum)}}));
  if (table->root >= format::kTableTailBytes && table->root <= table->bytes) return absl::OkStatus();
  return DataLoss("a table of ", table->bytes, " bytes cannot have a root of ", table->root);
}

// Without the bracket that ends it.
std::string BeginShard(const ManifestShard& shard) {
  std::string out =
      StrCat("    {\"name\": ", Quote(shard.name), ", \"bytes\": ", shard.bytes, ", \"samples\": ", shard.samples,
             ", \"blocks\": ", shard.blocks, ", \"content_hash\": \"", ToHex(shard.content_hash), "\"");
  if (shard.sha256) out += StrCat(", \"sha256\": \"", ToHex(*shard.sha256), "\"");
  return out;
}

absl::Status ReadRun(JsonReader& json, ColumnRun* run) {
  return json.Object({{"sample", &run->sample, kRequired, kMaxCount},
                      {"samples", &run->samples, kRequired, kMaxCount},
                      {"begin", &run->begin, kRequired, kMaxCount}});
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
    arguments += StrCat(arguments.empty() ? "" : ", ", Quote(name), ": ", FormatNames(values));
  }
  return StrCat("{\"name\": ", Quote(operation.name), ", \"arguments\": {", arguments, "}}");
}

std::string FormatNames(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += StrCat(list.empty() ? "" : ", ", Quote(name));
  return StrCat("[", list, "]");
}

std::string FormatColumn(const Column& column, std::string_view stored_name) {
  return StrCat("    ", BeginColumn(column, stored_name), "}");
}

std::string FormatBase(const Base& base) {
  return StrCat("    {\"name\": ", Quote(base.name), ", \"location\": ", Quote(base.location),
                ", \"generation\": ", base.generation, ", \"checksum\": \"", Hex64(base.checksum), "\"}");
}

std::string FormatSegment(const Segment& segment) {
  std::string out = StrCat("    {\"shards\": ", segment.shards, ", \"samples\": ", segment.samples,
                           ", \"blocks\": ", segment.blocks, FormatReference("table", segment.table));
  return out + "}";
}

std::string FormatShard(const ManifestShard& shard) { return StrCat(BeginShard(shard), "}"); }

std::string FormatColumnFile(const ColumnFile& file) {
  std::string runs;
  for (const ColumnRun& run : file.runs) {
    runs += StrCat(runs.empty() ? "" : ", ", "{\"sample\": ", run.sample, ", \"samples\": ", run.samples,
                   ", \"begin\": ", run.begin, "}");
  }
  return StrCat(BeginShard(file), ", \"columns\": ", FormatNames(file.columns), ", \"runs\": [", runs, "]}");
}

std::string FormatRemoved(const RemovedSamples& removed) {
  return StrCat("{\"samples\": ", removed.samples, FormatReference("table", removed.table), "}");
}

absl::Status ReadColumn(JsonReader& json, Column* column,
                        std::map<std::string, std::string, std::less<>>* stored_names) {
  std::optional<uint64_t> size;
  std::optional<std::string> stored;
  Numbered type, codec, dtype;
  bool has_dtype = false, has_shape = false;
  SHARDKIT_RETURN_IF_ERROR(
      json.Object({{"name", &column->name},
                   {"stored", [&](JsonReader& name) { return name.Read(&stored.emplace()); }, kOptional},
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
                   {"metadata", JsonInto(&column->metadata, &ReadMetadata), kOptional}}));
  if (stored == column->name) return DataLoss("\"stored\" is its name");
  if (stored) stored_names->emplace(column->name, *std::move(stored));
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

namespace {

// `file` is null where it is a shard of samples, which has no such keys.
absl::Status ReadFile(JsonReader& json, ManifestShard* shard, ColumnFile* file) {
  const auto of_file = file == nullptr ? kOptional : kRequired;
  SHARDKIT_RETURN_IF_ERROR(json.Object(
      {{"name", &shard->name},
       {"bytes", &shard->bytes, kRequired, kMaxCount},
       {"samples", &shard->samples, kRequired, kMaxCount},
       {"blocks", &shard->blocks, kRequired, kMaxCount},
       {"content_hash", shard->content_hash},
       {"sha256", [&](JsonReader& digits) { return digits.Read(shard->sha256.emplace()); }, kOptional},
       {"columns", [&](JsonReader& names) { return file ? names.Read(&file->columns) : absl::OkStatus(); }, of_file},
       {"runs", [&](JsonReader& list) { return file ? JsonInto(&file->runs, &ReadRun)(list) : absl::OkStatus(); },
        of_file}}));
  if (format::CountsAllowed(shard->samples, shard->blocks)) return absl::OkStatus();
  return DataLoss(shard->samples, " samples cannot be in ", shard->blocks, " blocks");
}

}  // namespace

absl::Status ReadShard(JsonReader& json, ManifestShard* shard) { return ReadFile(json, shard, nullptr); }

absl::Status ReadColumnFile(JsonReader& json, ColumnFile* file) { return ReadFile(json, file, file); }

absl::Status ReadBase(JsonReader& json, Base* base) {
  return json.Object({{"name", &base->name},
                      {"location", &base->location},
                      {"generation", &base->generation, kRequired, kMaxCount},
                      {"checksum", JsonInto(&base->checksum, &ReadChecksum)}});
}

absl::Status ReadSegment(JsonReader& json, Segment* segment) {
  return json.Object({{"shards", &segment->shards, kRequired, kMaxCount},
                      {"samples", &segment->samples, kRequired, kMaxCount},
                      {"blocks", &segment->blocks, kRequired, kMaxCount},
                      {"table", JsonInto(&segment->table, &ReadReference)}});
}

absl::Status ReadRemoved(JsonReader& json, RemovedSamples* removed) {
  return json.Object(
      {{"samples", &removed->samples, kRequired, kMaxCount}, {"table", JsonInto(&removed->table, &ReadReference)}});
}

absl::Status CheckColumns(const ManifestSummary& summary) {
  const auto wrong = [](const auto&... what) { return DataLoss("manifest: ", what...); };
  if (summary.removed && (summary.removed->samples == 0 || summary.removed->samples > summary.sample_count)) {
    return wrong("removed: ", summary.removed->samples, " samples cannot be removed of ", summary.sample_count);
  }
  std::set<std::string_view> names;
  for (const Column& column : summary.schema.columns()) {
    const std::string_view name = summary.StoredName(column.name);
    if (!CheckColumnName(name).ok()) return wrong("columns: ", Quote(name), " is no name of a stored column");
    if (!names.insert(name).second) return wrong("columns: two are stored as ", Quote(name));
  }
  if (std::ranges::adjacent_find(summary.dropped, std::greater_equal()) != summary.dropped.end()) {
    return wrong("\"dropped\" does not ascend");
  }
  for (const std::string& name : summary.dropped) {
    if (!CheckColumnName(name).ok()) return wrong("dropped: ", Quote(name), " is no name of a column");
    if (!names.insert(name).second) return wrong("dropped: ", Quote(name), " is the stored name of a column");
  }
  const std::optional<size_t> key = summary.schema.key_column();
  if (key) names.erase(summary.StoredName(summary.schema[*key].name));
  std::map<std::string_view, std::vector<std::pair<uint64_t, uint64_t>>> served;  // by stored name: runs of samples
  for (size_t i = 0; i < summary.column_files.size(); ++i) {
    const ColumnFile& file = summary.column_files[i];
    const auto in_file = [&](const auto&... what) { return wrong("column file ", i, ": ", what...); };
    if (file.columns.empty()) return in_file("has no columns");
    if (file.runs.empty()) return in_file("has no runs");
    uint64_t end = 0;
    for (const ColumnRun& run : file.runs) {
      if (run.samples == 0) return in_file("a run has no samples");
      if (run.sample < end || run.samples > summary.sample_count || run.sample > summary.sample_count - run.samples) {
        return in_file("its runs overlap, or one ends behind the samples of the dataset");
      }
      if (run.samples > file.samples || run.begin > file.samples - run.samples) {
        return in_file("a run ends behind the samples of the file");
      }
      end = run.sample + run.samples;
    }
    for (size_t k = 0; k < file.columns.size(); ++k) {
      const std::string& name = file.columns[k];
      if (!names.contains(name)) return in_file(Quote(name), " is no stored column that a file could have");
      if (std::ranges::find(file.columns.begin(), file.columns.begin() + static_cast<std::ptrdiff_t>(k), name) !=
          file.columns.begin() + static_cast<std::ptrdiff_t>(k)) {
        return in_file("has ", Quote(name), " twice");
      }
      for (const ColumnRun& run : file.runs) served[name].emplace_back(run.sample, run.sample + run.samples);
    }
  }
  for (auto& [name, runs] : served) {
    std::ranges::sort(runs);
    for (size_t i = 0; i + 1 < runs.size(); ++i) {
      if (runs[i].second > runs[i + 1].first) {
        return wrong("two column files have values of column ", Quote(name), " for sample ", runs[i + 1].first);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
