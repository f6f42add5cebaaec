#include "unit/golden/twin.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/escaping.h"
#include "base/endian.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/manifest_json.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit {
namespace {

using nlohmann::json;

constexpr size_t kPrintedBytes = 1024;

json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

double Half(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * fraction / 16777216.0;
  return sign * std::pow(2.0, exponent - 15) * (1 + fraction / 1024.0);
}

// The values of f8e4m3 as the OCP specification gives them: sign, exponent with a bias of 7, three bits of mantissa.
double E4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const double sign = bits >= 128 ? -1 : 1;
  if ((bits & 127) == 127) return NAN;
  return exponent == 0 ? sign * fraction / 512.0 : sign * std::pow(2.0, exponent - 7) * (1 + fraction / 8.0);
}

json Scalar(Type type, const char* from) {
  switch (type) {
    case Type::kI8:
      return LoadLittle<int8_t>(from);
    case Type::kI16:
      return LoadLittle<int16_t>(from);
    case Type::kI32:
      return LoadLittle<int32_t>(from);
    case Type::kI64:
    case Type::kTimestampS:
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return LoadLittle<int64_t>(from);
    case Type::kU8:
      return LoadLittle<uint8_t>(from);
    case Type::kU16:
      return LoadLittle<uint16_t>(from);
    case Type::kU32:
      return LoadLittle<uint32_t>(from);
    case Type::kU64:
      return LoadLittle<uint64_t>(from);
    case Type::kF16:
      return Number(Half(LoadLittle<uint16_t>(from)));
    case Type::kBf16:
      return Number(std::bit_cast<float>(uint32_t{LoadLittle<uint16_t>(from)} << 16));
    case Type::kF32:
      return Number(LoadLittle<float>(from));
    case Type::kF64:
      return Number(LoadLittle<double>(from));
    case Type::kF8E4M3:
      return Number(E4m3(LoadLittle<uint8_t>(from)));
    case Type::kF8E5M2:
      return Number(Half(static_cast<uint16_t>(LoadLittle<uint8_t>(from) << 8)));
    case Type::kComplex64:
      return {Number(LoadLittle<float>(from)), Number(LoadLittle<float>(from + 4))};
    case Type::kComplex128:
      return {Number(LoadLittle<double>(from)), Number(LoadLittle<double>(from + 8))};
    case Type::kBool:
      return *from != 0;
    default:
      return "not a scalar";
  }
}

std::string Hex(uint64_t value) {
  char digits[17];
  snprintf(digits, sizeof digits, "%016lx", static_cast<unsigned long>(value));
  return digits;
}

json Masks(std::string_view value) {
  RleList masks;
  if (absl::Status status = ParseRleValue(value, &masks); !status.ok()) return status.ToString();
  json out = json::array();
  for (size_t i = 0; i < masks.size(); ++i) {
    const RleView mask = masks[i];
    out.push_back(
        {{"size", {mask.height, mask.width}}, {"counts", std::vector<uint32_t>(mask.runs.begin(), mask.runs.end())}});
  }
  return out;
}

json Array(const Column& column, std::string_view value) {
  const auto view = ParseNdarray(column, value);
  if (!view.ok()) return view.status().ToString();
  json data = json::array();
  for (uint64_t i = 0; i < view->element_count(); ++i) {
    data.push_back(Scalar(view->dtype, view->data.data() + i * ScalarSize(view->dtype)));
  }
  return {{"dtype", std::string(TypeName(view->dtype))}, {"shape", view->shape}, {"data", data}};
}

// The number and, where there is one, the name.
void SetType(json& column, const std::string& key, Type type) {
  if (IsKnownType(type)) column[key] = TypeName(type);
  column[key + "_number"] = static_cast<int>(type);
}

json Columns(const std::vector<Column>& columns) {
  json out = json::array();
  for (const Column& column : columns) {
    json one = {{"name", column.name},
                {"codec_number", static_cast<int>(column.codec)},
                {"nullable", column.nullable},
                {"key", column.is_key}};
    SetType(one, "type", column.type);
    if (IsKnownCodec(column.codec)) one["codec"] = CodecName(column.codec);
    if (column.fixed_size()) one["value_size"] = *column.fixed_size();
    if (!column.metadata.empty()) one["metadata"] = json(column.metadata);
    if (column.type == Type::kNdarray || !IsKnownType(column.type)) {
      SetType(one, "dtype", column.dtype);
      one["shape"] = column.shape ? json(*column.shape) : json();
    }
    out.push_back(one);
  }
  return out;
}

json Range(RangeKind kind, uint64_t bits) {
  switch (kind) {
    case RangeKind::kI64:
      return static_cast<int64_t>(bits);
    case RangeKind::kU64:
      return bits;
    case RangeKind::kF64:
      return Number(std::bit_cast<double>(bits));
    default:
      return nullptr;
  }
}

json StatisticsTwin(const ColumnStatistics& statistics) {
  json histogram = json::object();
  for (size_t k = 0; k < statistics.length_histogram.size(); ++k) {
    if (statistics.length_histogram[k] != 0) histogram[std::to_string(k)] = statistics.length_histogram[k];
  }
  return {{"present_count", statistics.present_count},
          {"value_bytes", statistics.value_bytes},
          {"stored_bytes", statistics.stored_bytes},
          {"min_length", statistics.min_length},
          {"max_length", statistics.max_length},
          {"minimum", Range(statistics.range_kind, statistics.minimum)},
          {"maximum", Range(statistics.range_kind, statistics.maximum)},
          {"length_histogram", histogram}};
}

// Null when the shard has no ranges.
absl::StatusOr<json> RangesTwin(const container::NativeShardReader& shard) {
  const auto ranges = shard.ReadBlockRanges();
  if (absl::IsNotFound(ranges.status())) return json();
  if (!ranges.ok()) return ranges.status();
  json blocks = json::array();
  for (size_t k = 0; k < shard.blocks().size(); ++k) {
    json block = json::object();
    for (const size_t column : ranges->columns) {
      const BlockRange& range = *ranges->Find(k, column);
      block[shard.schema()[column].name] = {{"present_count", range.present_count},
                                            {"minimum", Range(range.range_kind, range.minimum)},
                                            {"maximum", Range(range.range_kind, range.maximum)}};
    }
    blocks.push_back(block);
  }
  return blocks;
}

json ListedTwin(const ManifestShard& shard) {
  return {{"name", shard.name},
          {"bytes", shard.bytes},
          {"samples", shard.samples},
          {"blocks", shard.blocks},
          {"content_hash", ToHex(shard.content_hash)},
          {"sha256", shard.sha256 ? json(ToHex(*shard.sha256)) : json()}};
}

json SampleTwin(const std::vector<Column>& columns, const BlockView& view, uint32_t i) {
  json sample = json::object();
  for (size_t c = 0; c < columns.size(); ++c) {
    if (IsKnownCodec(columns[c].codec)) sample[columns[c].name] = ValueTwin(columns[c], view.column(c).value(i));
  }
  return sample;
}

}  // namespace

std::string GoldenFolder() { return SHARDKIT_GOLDEN_FOLDER; }

std::vector<size_t> ReadableColumns(const Schema& schema) {
  std::vector<size_t> columns;
  for (size_t c = 0; c < schema.size(); ++c) {
    if (IsKnownCodec(schema[c].codec)) columns.push_back(c);
  }
  return columns.size() == schema.size() ? std::vector<size_t>() : columns;
}

std::vector<std::string> GoldenNames(std::string_view kind, std::string_view suffix) {
  std::vector<std::string> names;
  const auto entries = PosixFileSystem()->List(JoinPath(GoldenFolder(), kind));
  if (!entries.ok()) return names;
  for (const DirectoryEntry& entry : *entries) {
    if (entry.name.ends_with(suffix)) names.push_back(entry.name.substr(0, entry.name.size() - suffix.size()));
  }
  std::ranges::sort(names);
  return names;
}

json ParseFile(const std::string& path) {
  const auto text = PosixFileSystem()->ReadFile(path, uint64_t{1} << 30);
  return text.ok() ? json::parse(*text) : json(text.status().ToString());
}

json ParseTwin(const std::string& name) {
  json twin = ParseFile(JoinPath(GoldenFolder(), "valid/" + name + ".json"));
  json samples = json::array();
  for (const json& sample : twin["samples"]) {
    if (!sample.is_number()) {
      samples.push_back(sample);
      continue;
    }
    const json before = samples.back();
    for (int64_t more = sample; more > 0; --more) samples.push_back(before);
  }
  twin["samples"] = std::move(samples);
  return twin;
}

json ValueTwin(const Column& column, std::optional<std::string_view> value) {
  if (!value) return nullptr;
  if (value->size() > kPrintedBytes) return {{"length", value->size()}, {"xxh3_64", Hex(Hash64(*value))}};
  if (!column.has_known_type()) return {{"base64", absl::Base64Escape(ToAbsl(*value))}};
  switch (column.type) {
    case Type::kBytes:
    case Type::kJpeg:
    case Type::kPng:
    case Type::kImage:
      return {{"base64", absl::Base64Escape(ToAbsl(*value))}};
    case Type::kUtf8:
    case Type::kJson:
      return std::string(*value);
    case Type::kNdarray:
      return Array(column, *value);
    case Type::kRle:
      return Masks(*value);
    default:
      return Scalar(column.type, value->data());
  }
}

absl::StatusOr<json> ShardTwin(const container::NativeShardReader& shard) {
  const std::vector<Column>& columns = shard.schema().columns();
  json twin;
  twin["format"] = {{"major", 1},
                    {"minor", shard.header().minor},
                    {"alignment", shard.alignment()},
                    {"compatible_flags", shard.header().compatible_flags}};
  twin["sample_count"] = shard.sample_count();
  twin["file_length"] = shard.file_length();
  twin["content_hash"] = ToHex(shard.content_hash());
  twin["columns"] = Columns(columns);
  twin["dictionaries"] = json::object();
  for (const format::Dictionary& dictionary : shard.header().dictionaries) {
    twin["dictionaries"][columns[dictionary.column].name] = dictionary.bytes.size();
  }
  SHARDKIT_ASSIGN_OR_RETURN(const Metadata metadata, shard.ReadMetadata());
  twin["metadata"] = json(metadata);
  SHARDKIT_ASSIGN_OR_RETURN(const auto statistics, shard.ReadStatistics());
  for (size_t i = 0; i < columns.size(); ++i) twin["statistics"][columns[i].name] = StatisticsTwin(statistics[i]);
  SHARDKIT_ASSIGN_OR_RETURN(twin["block_ranges"], RangesTwin(shard));
  twin["blocks"] = json::array();
  twin["samples"] = json::array();
  BlockBuffer buffer;
  BlockView view;
  for (size_t k = 0; k < shard.blocks().size(); ++k) {
    const BlockInfo& block = shard.blocks()[k];
    twin["blocks"].push_back({{"offset", block.offset},
                              {"block_length", block.length},
                              {"front_length", block.front_length},
                              {"first_sample", block.first_sample},
                              {"sample_count", block.sample_count}});
    SHARDKIT_RETURN_IF_ERROR(shard.ReadBlock(k, ReadableColumns(shard.schema()), &buffer, &view));
    for (uint32_t i = 0; i < view.sample_count(); ++i) twin["samples"].push_back(SampleTwin(columns, view, i));
  }
  return twin;
}

absl::StatusOr<json> DatasetTwin(const DatasetReader& dataset) {
  SHARDKIT_ASSIGN_OR_RETURN(const Manifest manifest, dataset.ReadManifest());
  json twin = {{"format", "shardkit-dataset"},
               {"version", 1},
               {"sample_count", dataset.sample_count()},
               {"bytes", manifest.bytes},
               {"blocks", manifest.block_count},
               {"columns", Columns(dataset.columns())},
               {"metadata", json(manifest.metadata)},
               {"generation", manifest.generation},
               {"segments", json::array()},
               {"shards", json::array()}};
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    const std::string& name = dataset.columns()[i].name;
    if (manifest.StoredName(name) != name) twin["columns"][i]["stored"] = manifest.StoredName(name);
  }
  if (!manifest.dropped.empty()) twin["dropped"] = manifest.dropped;
  for (const Base& base : manifest.bases) {
    twin["bases"].push_back({{"name", base.name},
                             {"location", base.location},
                             {"generation", base.generation},
                             {"checksum", dataset::Hex64(base.checksum)}});
  }
  for (const ColumnFile& file : manifest.column_files) {
    json& entry = twin["column_files"].emplace_back(ListedTwin(file));
    entry["columns"] = file.columns;
    for (const ColumnRun& run : file.runs) {
      entry["runs"].push_back({{"sample", run.sample}, {"samples", run.samples}, {"begin", run.begin}});
    }
  }
  if (manifest.removed) twin["removed"] = manifest.removed->samples;
  for (const Segment& segment : manifest.segments) {
    twin["segments"].push_back({{"shards", segment.shards},
                                {"samples", segment.samples},
                                {"blocks", segment.blocks},
                                {"table", segment.table.name}});
  }
  for (const ManifestShard& shard : manifest.shards) twin["shards"].push_back(ListedTwin(shard));
  twin["samples"] = json::array();
  SHARDKIT_ASSIGN_OR_RETURN(const auto scanner, dataset.Scan());
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto block, scanner->Next());
    if (block == nullptr) return twin;
    for (uint32_t i = 0; i < block->view().sample_count(); ++i) {
      twin["samples"].push_back(SampleTwin(dataset.columns(), block->view(), i));
    }
  }
}

}  // namespace shardkit
