#include "shardkit/manifest.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "dataset/manifest_text.h"
#include "format/paged_table.h"

namespace shardkit {
namespace {

constexpr std::string_view kFormatName = "shardkit-dataset";
constexpr uint64_t kManifestVersion = 1;
constexpr uint64_t kMaxCount = uint64_t{1} << 62;  // spec.md, section 10
// What "features" may hold: names of additions without which a dataset would be read wrong.
constexpr std::string_view kShardPages = "shard-pages";  // the shards stand in lists beside the manifest
constexpr std::array<std::string_view, 1> kKnownFeatures = {kShardPages};
constexpr std::string_view kChecksumKey = "\n  \"checksum\": \"";  // on a line of its own

std::string Quote(std::string_view text) { return JsonValue(text).Format(); }

std::string Hex64(uint64_t value) {
  std::string out(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
  return out;
}

// Whether a column of this type has dtype and shape: also those of types that are not known are kept.
bool HasShape(Type type) { return type == Type::kNdarray || !IsKnownType(type); }

// The names of numbers that are not known are the numbers.
std::string FormatType(Type type) {
  return IsKnownType(type) ? Quote(TypeName(type)) : StrCat(static_cast<uint16_t>(type));
}

std::string FormatColumn(const Column& column) {
  std::string out =
      StrCat("    {\"name\": ", Quote(column.name), ", \"type\": ", FormatType(column.type), ", \"codec\": ",
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
  out += column.metadata.empty() ? "}" : "}}";
  return out;
}

std::string FormatReference(std::string_view key, const TableReference& reference) {
  return StrCat(", \"", key, "\": {\"name\": ", Quote(reference.name), ", \"bytes\": ", reference.bytes,
                ", \"root\": ", reference.root, ", \"checksum\": \"", Hex64(reference.checksum), "\"}");
}

std::string FormatSegment(const Segment& segment) {
  std::string out = StrCat("    {\"shards\": ", segment.shards, ", \"samples\": ", segment.samples,
                           ", \"blocks\": ", segment.blocks, FormatReference("index", segment.index));
  if (segment.keys) out += FormatReference("keys", *segment.keys);
  if (segment.list) out += FormatReference("list", *segment.list);
  return out + "}";
}

// The parsing functions below throw simdjson_error or Malformed, which ParseManifest turns into DataLoss, or Newer,
// which it turns into Unimplemented.
using simdjson::ondemand::document;
using simdjson::ondemand::object;
using simdjson::ondemand::value;

struct Malformed {
  std::string what;
};

struct Newer {
  std::string what;
};

std::string_view ToString(simdjson::simdjson_result<value> element) { return element.get_string().value(); }

// The keys of an object. The views must be valid until this is destroyed.
class Keys {
 public:
  std::string_view Note(std::string_view key) { return keys_.emplace_back(key); }

  // Call after the last key. Two readers could take different ones of two equal keys, so these are refused.
  void Check(std::initializer_list<std::string_view> required) {
    if (std::ranges::equal(keys_, required)) return;  // as writers have them
    std::ranges::sort(keys_);
    const auto twice = std::ranges::adjacent_find(keys_);
    if (twice != keys_.end()) throw Malformed{StrCat("the key ", Quote(*twice), " stands twice in an object")};
    for (const std::string_view key : required) {
      if (!std::ranges::binary_search(keys_, key)) throw Malformed{StrCat("an object lacks the key ", Quote(key))};
    }
  }

 private:
  absl::InlinedVector<std::string_view, 8> keys_;
};

uint64_t ToCount(simdjson::simdjson_result<value> element) {
  const uint64_t count = element.get_uint64().value();
  if (count > kMaxCount) throw Malformed{StrCat("a count of ", count, " is over the limit of 2^62")};
  return count;
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

Column ParseColumn(object fields) {
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
      std::array<uint8_t, 8> digits;
      if (!FromHexDigits(ToString(field.value()), digits)) {
        throw Malformed{"a table's checksum is not 16 lower-case hexadecimal digits"};
      }
      for (const uint8_t digit : digits) reference.checksum = reference.checksum << 8 | digit;
    }
  }
  keys.Check({"name", "bytes", "root", "checksum"});
  if (reference.root < format::kTableTailBytes || reference.root > reference.bytes) {
    throw Malformed{StrCat("a table of ", reference.bytes, " bytes cannot have a root of ", reference.root)};
  }
  return reference;
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

absl::Status CheckChecksum(std::string_view text) {
  const size_t line = text.rfind(kChecksumKey);
  if (line == text.npos) {
    return DataLoss(
        "manifest: has no checksum: it was cut short (shardctl index makes it anew), or is none of Shardkit");
  }
  const std::string_view end = text.substr(line + kChecksumKey.size());
  if (end == StrCat(Hex64(Hash64(text.substr(0, line + 1))), "\"\n}\n")) return absl::OkStatus();
  return DataLoss("manifest checksum is wrong, or bytes follow it: the file was damaged or edited; run shardctl index ",
                  "to make it anew");
}

// The value of a key of the manifest, wherever the key stands. The keys that say whether the others can be understood
// are looked for first.
template <typename Take>
void FindKey(document& json, std::string_view name, Take take) {
  json.rewind();
  for (auto field : json.get_object()) {
    if (field.unescaped_key().value() == name) return take(field.value());
  }
  throw Malformed{StrCat("an object lacks the key ", Quote(name))};
}

// Whether the shards stand in lists.
bool CheckFeatures(document& json) {
  std::vector<std::string> features;
  FindKey(json, "features", [&](simdjson::simdjson_result<value> list) {
    for (auto feature : list.get_array()) features.emplace_back(ToString(feature));
  });
  if (std::ranges::adjacent_find(features, std::greater_equal()) != features.end()) {
    throw Malformed{"\"features\" does not ascend"};
  }
  for (const std::string& feature : features) {
    if (std::ranges::find(kKnownFeatures, feature) == kKnownFeatures.end()) {
      throw Newer{StrCat("feature ", Quote(feature), " is not known")};
    }
  }
  return std::ranges::find(features, kShardPages) != features.end();
}

// Everything but "format", "version" and "features".
ManifestText ParseContent(document& json, bool lists) {
  ManifestText manifest;
  ManifestSummary& summary = manifest.summary;
  summary.generation = 0;
  std::vector<Column> columns;
  Keys keys;
  json.rewind();
  for (auto field : json.get_object()) {
    const std::string_view key = keys.Note(field.unescaped_key().value());
    if (key == "generation") {
      summary.generation = ToCount(field.value());
    } else if (key == "samples") {
      summary.sample_count = ToCount(field.value());
    } else if (key == "bytes") {
      summary.bytes = ToCount(field.value());
    } else if (key == "blocks") {
      summary.block_count = ToCount(field.value());
    } else if (key == "columns") {
      for (auto element : field.value().get_array()) columns.push_back(ParseColumn(element.get_object()));
    } else if (key == "metadata") {
      summary.metadata = ToMetadata(field.value().get_object());
    } else if (key == "segments") {
      for (auto element : field.value().get_array()) summary.segments.push_back(ParseSegment(element.get_object()));
    } else if (key == "shards") {
      if (lists) throw Malformed{StrCat("has \"shards\", though its feature ", Quote(kShardPages), " says otherwise")};
      for (auto element : field.value().get_array()) manifest.shards.push_back(ParseShard(element.get_object()));
    }
  }
  if (json.current_location().error() != simdjson::OUT_OF_BOUNDS) throw Malformed{"bytes follow its end"};
  keys.Check({"generation", "samples", "bytes", "blocks", "columns", "metadata", "segments"});
  if (!lists) keys.Check({"shards"});
  if (summary.generation == 0) throw Malformed{"\"generation\" is 0"};
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  if (!schema.ok()) throw Malformed{StrCat("columns: ", ToStd(schema.status().message()))};
  summary.schema = *std::move(schema);
  const auto has_list = [](const Segment& segment) { return segment.list.has_value(); };
  if (lists && (summary.segments.empty() || !std::ranges::all_of(summary.segments, has_list))) {
    throw Malformed{StrCat("not every segment has a \"list\", though the feature ", Quote(kShardPages), " is there")};
  }
  if (!lists && std::ranges::any_of(summary.segments, has_list)) {
    throw Malformed{StrCat("a segment has a \"list\" without the feature ", Quote(kShardPages))};
  }
  return manifest;
}

// Each segment's counts are those of its shards, and the segments cover all of them.
absl::Status CheckSegments(const ManifestText& manifest) {
  const std::vector<ManifestShard>& shards = manifest.shards;
  size_t shard = 0;
  for (size_t i = 0; i < manifest.summary.segments.size(); ++i) {
    const Segment& segment = manifest.summary.segments[i];
    if (segment.shards == 0 || segment.shards > shards.size() - shard) {
      return DataLoss("manifest: segment ", i, ": ", segment.shards, " shards are not as many as there can be");
    }
    uint64_t samples = 0, blocks = 0;
    for (const size_t end = shard + segment.shards; shard < end; ++shard) {
      samples += shards[shard].samples;
      blocks += shards[shard].blocks;
    }
    if (samples != segment.samples || blocks != segment.blocks) {
      return DataLoss("manifest: segment ", i, ": samples or blocks are not the sums over its shards");
    }
  }
  if (shard == shards.size() || manifest.summary.segments.empty()) return absl::OkStatus();
  return DataLoss("manifest: the segments leave out the shards from ", shard, " on");
}

// The totals are the sums over `parts`, shards or segments.
template <typename Part>
absl::Status CheckTotals(const std::vector<Part>& parts, const ManifestSummary& listed, std::string_view of) {
  uint64_t samples = 0, blocks = 0, bytes = 0;
  bool fits = true;
  for (const Part& part : parts) {
    fits = fits && CheckedAdd(samples, part.samples, &samples) && CheckedAdd(blocks, part.blocks, &blocks);
    if constexpr (std::is_same_v<Part, ManifestShard>) fits = fits && CheckedAdd(bytes, part.bytes, &bytes);
  }
  if constexpr (!std::is_same_v<Part, ManifestShard>) bytes = listed.bytes;  // only the lists tell
  if (fits && samples == listed.sample_count && blocks == listed.block_count && bytes == listed.bytes) {
    return absl::OkStatus();
  }
  return DataLoss("manifest: samples, bytes or blocks are not the sums over its ", of);
}

// What the segments say of shards that stand in lists.
absl::Status CheckListed(ManifestSummary* summary) {
  SHARDKIT_RETURN_IF_ERROR(CheckTotals(summary->segments, *summary, "segments"));
  for (const Segment& segment : summary->segments) {
    if (segment.shards == 0 || !CheckedAdd(summary->shard_count, segment.shards, &summary->shard_count)) {
      return DataLoss("manifest: a segment of ", segment.shards, " shards cannot be");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<const TableReference*> Segment::tables() const {
  std::vector<const TableReference*> tables = {&index};
  if (keys) tables.push_back(&*keys);
  if (list) tables.push_back(&*list);
  return tables;
}

bool IsSafeName(std::string_view name) {
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

absl::Status CheckNames(const std::vector<ManifestShard>& shards, const std::vector<Segment>& segments) {
  std::vector<std::string_view> names;
  names.reserve(shards.size());
  for (const ManifestShard& shard : shards) names.push_back(shard.name);
  for (const Segment& segment : segments) {
    for (const TableReference* table : segment.tables()) names.push_back(table->name);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (IsSafeName(names[i])) continue;
    return DataLoss("manifest: ", i < shards.size() ? StrCat("shard ", i) : "a table", ": name ", Quote(names[i]),
                    " would lead out of the dataset's directory");
  }
  if (!std::ranges::is_sorted(names)) std::ranges::sort(names);  // writers number them
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return absl::OkStatus();
  return DataLoss("manifest: lists the file ", Quote(*twice), " twice");
}

uint64_t Manifest::samples() const {
  uint64_t sum = 0;
  for (const ManifestShard& shard : shards) sum += shard.samples;
  return sum;
}

uint64_t Manifest::bytes() const {
  uint64_t sum = 0;
  for (const ManifestShard& shard : shards) sum += shard.bytes;
  return sum;
}

uint64_t Manifest::blocks() const {
  uint64_t sum = 0;
  for (const ManifestShard& shard : shards) sum += shard.blocks;
  return sum;
}

ManifestSummary Manifest::Summary() const {
  return {schema, metadata, segments, generation, shards.size(), samples(), blocks(), bytes()};
}

Manifest MakeManifest(ManifestSummary summary, std::vector<ManifestShard> shards) {
  return {std::move(summary.schema), std::move(summary.metadata), std::move(shards), std::move(summary.segments),
          summary.generation};
}

uint64_t Manifest::dataset_hash() const { return HashShards(shards); }

uint64_t HashShards(std::span<const ManifestShard> shards) {
  std::string hashes;
  for (const ManifestShard& shard : shards) AppendLittle(hashes, shard.content_hash);
  return Hash64(hashes);
}

std::string NameInGeneration(std::string_view name, uint64_t generation) {
  if (generation == 1) return std::string(name);
  const size_t dot = name.rfind('.');
  return StrCat(name.substr(0, dot), "-", generation, name.substr(dot));
}

std::string FormatManifest(const Manifest& manifest) {
  const bool lists = !manifest.segments.empty() && manifest.segments[0].list.has_value();
  std::string out =
      StrCat("{\n  \"format\": \"", kFormatName, "\",\n  \"version\": ", kManifestVersion, ",\n  \"features\": [",
             lists ? StrCat("\n    ", Quote(kShardPages), "\n  ") : "", "],\n  \"generation\": ", manifest.generation,
             ",\n  \"samples\": ", manifest.samples(), ",\n  \"bytes\": ", manifest.bytes(),
             ",\n  \"blocks\": ", manifest.blocks(), ",\n  \"columns\": [\n");
  const std::vector<Column>& columns = manifest.schema.columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    out += StrCat(FormatColumn(columns[i]), i + 1 < columns.size() ? ",\n" : "\n");
  }
  out += "  ],\n  \"metadata\": {";
  bool first = true;
  for (const auto& [name, value] : manifest.metadata) {
    out += StrCat(first ? "\n    " : ",\n    ", Quote(name), ": ", Quote(value));
    first = false;
  }
  out += first ? "},\n  \"segments\": [" : "\n  },\n  \"segments\": [";
  for (size_t i = 0; i < manifest.segments.size(); ++i) {
    out += StrCat(i == 0 ? "\n" : ",\n", FormatSegment(manifest.segments[i]));
  }
  out += manifest.segments.empty() ? "],\n" : "\n  ],\n";
  if (!lists) out += "  \"shards\": [\n";
  for (size_t i = 0; i < manifest.shards.size() && !lists; ++i) {
    const ManifestShard& shard = manifest.shards[i];
    out += StrCat("    {\"name\": ", Quote(shard.name), ", \"bytes\": ", shard.bytes, ", \"samples\": ", shard.samples,
                  ", \"blocks\": ", shard.blocks, ", \"content_hash\": \"", ToHex(shard.content_hash), "\"");
    if (shard.sha256) out += StrCat(", \"sha256\": \"", ToHex(*shard.sha256), "\"");
    out += i + 1 < manifest.shards.size() ? "},\n" : "}\n";
  }
  if (!lists) out += "  ],\n";
  out += StrCat(kChecksumKey.substr(1), Hex64(Hash64(out)), "\"\n}\n");
  return out;
}

absl::StatusOr<ManifestText> ParseManifestText(std::string_view text) {
  SHARDKIT_RETURN_IF_ERROR(CheckChecksum(text));
  ManifestText manifest;
  try {
    // On-demand parsing builds no tree: a manifest of 100,000 shards opens in milliseconds.
    simdjson::ondemand::parser parser;
    const simdjson::padded_string padded(text.data(), text.size());
    document json = parser.iterate(padded);
    bool is_dataset = false;
    FindKey(json, "format", [&](auto format) { is_dataset = ToString(format) == kFormatName; });
    if (!is_dataset)
      return DataLoss("manifest: \"format\" is not \"", kFormatName, "\": this is no dataset of Shardkit");
    uint64_t version = 0;
    FindKey(json, "version", [&](auto number) { version = ToCount(number); });
    if (version != kManifestVersion) throw Newer{StrCat("version ", version, " is not known")};
    const bool lists = CheckFeatures(json);
    manifest = ParseContent(json, lists);
  } catch (const simdjson::simdjson_error& error) {
    return DataLoss("manifest: is not as it should be (", error.what(), "); run shardctl index to make it anew");
  } catch (const Malformed& malformed) {
    return DataLoss("manifest: ", malformed.what, "; run shardctl index to make it anew");
  } catch (const Newer& newer) {
    return Unimplemented("manifest: ", newer.what, " to this version: read the dataset with a newer one");
  }
  SHARDKIT_RETURN_IF_ERROR(CheckNames(manifest.shards, manifest.summary.segments));
  if (manifest.has_lists()) {
    SHARDKIT_RETURN_IF_ERROR(CheckListed(&manifest.summary));
    return manifest;
  }
  manifest.summary.shard_count = manifest.shards.size();
  SHARDKIT_RETURN_IF_ERROR(CheckTotals(manifest.shards, manifest.summary, "shards"));
  SHARDKIT_RETURN_IF_ERROR(CheckSegments(manifest));
  return manifest;
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  SHARDKIT_ASSIGN_OR_RETURN(ManifestText parsed, ParseManifestText(text));
  if (parsed.has_lists()) return FailedPrecondition("manifest: its shards stand in lists beside it");
  return MakeManifest(std::move(parsed.summary), std::move(parsed.shards));
}

absl::StatusOr<std::string> ReadManifestBytes(ReadableFileSystem& file_system, const std::string& directory) {
  absl::StatusOr<std::string> text = file_system.ReadFile(JoinPath(directory, kManifestName), kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return NotFound(directory, ": is not a dataset: there is no ", kManifestName, " in it");
  }
  return text;
}

absl::StatusOr<ManifestText> ReadManifestText(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(std::string bytes, ReadManifestBytes(file_system, directory));
  absl::StatusOr<ManifestText> text = ParseManifestText(bytes);
  if (absl::IsDataLoss(text.status())) {
    // It may have been damaged on its way, or read while another took its place.
    SHARDKIT_ASSIGN_OR_RETURN(bytes, ReadManifestBytes(file_system, directory));
    text = ParseManifestText(bytes);
  }
  if (!text.ok()) return Annotate(text.status(), JoinPath(directory, kManifestName));
  return text;
}

absl::StatusOr<Manifest> ReadManifest(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(ManifestText text, ReadManifestText(file_system, directory));
  return CompleteManifest(file_system, directory, std::move(text));
}

}  // namespace shardkit
