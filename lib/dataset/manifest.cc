#include "shardkit/manifest.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace shardkit {
namespace {

constexpr std::string_view kFormatName = "shardkit-dataset";
constexpr uint64_t kManifestVersion = 1;
constexpr uint64_t kMaxManifestBytes = uint64_t{2} << 30;
constexpr std::string_view kChecksumKey = "\n  \"checksum\": \"";  // on a line of its own

std::string Quote(std::string_view text) { return JsonValue(text).Format(); }

std::string Hex64(uint64_t value) {
  std::string out(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
  return out;
}

bool FromHex(std::string_view text, ContentHash* hash) {
  if (text.size() != 32) return false;
  for (size_t i = 0; i < 32; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    (*hash)[i / 2] = static_cast<uint8_t>((*hash)[i / 2] << 4 | digit);
  }
  return true;
}

std::string FormatColumn(const Column& column) {
  std::string out =
      StrCat("    {\"name\": ", Quote(column.name), ", \"type\": \"", TypeName(column.type), "\", \"codec\": \"",
             CodecName(column.codec), "\", \"nullable\": ", column.nullable ? "true" : "false",
             ", \"key\": ", column.is_key ? "true" : "false");
  if (column.type == Type::kNdarray) {
    out += StrCat(", \"dtype\": \"", TypeName(column.dtype), "\", \"shape\": ");
    if (column.shape) {
      out += '[';
      for (size_t i = 0; i < column.shape->size(); ++i) out += StrCat(i == 0 ? "" : ", ", (*column.shape)[i]);
      out += ']';
    } else {
      out += "null";
    }
  }
  out += '}';
  return out;
}

// The parsing functions below throw simdjson_error. ParseManifest turns it into DataLoss.
using simdjson::ondemand::object;
using simdjson::ondemand::value;

std::string_view ToString(simdjson::simdjson_result<value> element) { return element.get_string().value(); }

// Sets *newer to an error when the column has a type or codec that this version does not know.
Column ParseColumn(object fields, absl::Status* newer) {
  Column column;
  std::string type, dtype, codec;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key().value();
    if (key == "name") {
      column.name = std::string(ToString(field.value()));
    } else if (key == "type") {
      type = std::string(ToString(field.value()));
    } else if (key == "codec") {
      codec = std::string(ToString(field.value()));
    } else if (key == "nullable") {
      column.nullable = field.value().get_bool().value();
    } else if (key == "key") {
      column.is_key = field.value().get_bool().value();
    } else if (key == "dtype") {
      dtype = std::string(ToString(field.value()));
    } else if (key == "shape" && !field.value().is_null()) {
      column.shape.emplace();
      for (auto dimension : field.value().get_array()) column.shape->push_back(dimension.get_uint64().value());
    }
  }
  if (type.empty() || codec.empty()) throw simdjson::simdjson_error(simdjson::NO_SUCH_FIELD);
  const std::optional<Type> known = TypeFromName(type);
  const bool known_codec = codec == "none" || codec == "zstd";
  if (!known || !known_codec) {
    newer->Update(Unimplemented("manifest: column ", Quote(column.name), " has unknown ", known ? "codec " : "type ",
                                Quote(known ? codec : type), "; a newer version of Shardkit may read it"));
    return column;
  }
  column.type = *known;
  if (column.type == Type::kNdarray) {
    const std::optional<Type> element = TypeFromName(dtype);
    if (!element) throw simdjson::simdjson_error(simdjson::INCORRECT_TYPE);
    column.dtype = *element;
  }
  column.codec = codec == "zstd" ? Codec::kZstd : Codec::kNone;
  return column;
}

ManifestShard ParseShard(object fields) {
  ManifestShard shard;
  bool has_hash = false;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key().value();
    if (key == "name") {
      shard.name = std::string(ToString(field.value()));
    } else if (key == "bytes") {
      shard.bytes = field.value().get_uint64().value();
    } else if (key == "samples") {
      shard.samples = field.value().get_uint64().value();
    } else if (key == "blocks") {
      shard.blocks = field.value().get_uint64().value();
    } else if (key == "content_hash") {
      has_hash = FromHex(ToString(field.value()), &shard.content_hash);
    }
  }
  if (!has_hash) throw simdjson::simdjson_error(simdjson::INCORRECT_TYPE);
  return shard;
}

// Whether `name` is a relative path that stays inside the dataset's directory.
bool IsSafeName(std::string_view name) {
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

absl::Status CheckChecksum(std::string_view text) {
  const size_t line = text.rfind(kChecksumKey);
  if (line == text.npos)
    return DataLoss("manifest: has no checksum: it is cut short, or this is no dataset of Shardkit");
  const std::string_view end = text.substr(line + kChecksumKey.size());
  if (end == StrCat(Hex64(Hash64(text.substr(0, line + 1))), "\"\n}\n")) return absl::OkStatus();
  return DataLoss("manifest checksum is wrong, or bytes follow it: the file was damaged or edited; run shardctl index ",
                  "to make it anew");
}

}  // namespace

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

uint64_t Manifest::dataset_hash() const {
  std::string hashes;
  for (const ManifestShard& shard : shards) AppendLittle(hashes, shard.content_hash);
  return Hash64(hashes);
}

std::string FormatManifest(const Manifest& manifest) {
  std::string out = StrCat("{\n  \"format\": \"", kFormatName, "\",\n  \"version\": ", kManifestVersion,
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
  out += first ? "},\n  \"shards\": [\n" : "\n  },\n  \"shards\": [\n";
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    const ManifestShard& shard = manifest.shards[i];
    out += StrCat("    {\"name\": ", Quote(shard.name), ", \"bytes\": ", shard.bytes, ", \"samples\": ", shard.samples,
                  ", \"blocks\": ", shard.blocks, ", \"content_hash\": \"", ToHex(shard.content_hash), "\"}",
                  i + 1 < manifest.shards.size() ? ",\n" : "\n");
  }
  out += "  ],\n";
  out += StrCat(kChecksumKey.substr(1), Hex64(Hash64(out)), "\"\n}\n");
  return out;
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  Manifest manifest;
  std::vector<Column> columns;
  absl::Status newer;
  uint64_t version = 0, samples = 0, bytes = 0, blocks = 0;
  bool is_dataset = false;
  // First, so that a damaged version number or name is damage, not a newer format.
  SHARDKIT_RETURN_IF_ERROR(CheckChecksum(text));
  try {
    // On-demand parsing looks at each byte once and builds no tree: a manifest of 100,000 shards opens in milliseconds.
    simdjson::ondemand::parser parser;
    const simdjson::padded_string padded(text.data(), text.size());
    simdjson::ondemand::document document = parser.iterate(padded);
    for (auto field : document.get_object()) {
      const std::string_view key = field.unescaped_key().value();
      if (key == "format") {
        is_dataset = ToString(field.value()) == kFormatName;
      } else if (key == "version") {
        version = field.value().get_uint64().value();
        if (version != kManifestVersion) break;
      } else if (key == "samples") {
        samples = field.value().get_uint64().value();
      } else if (key == "bytes") {
        bytes = field.value().get_uint64().value();
      } else if (key == "blocks") {
        blocks = field.value().get_uint64().value();
      } else if (key == "columns") {
        for (auto element : field.value().get_array()) columns.push_back(ParseColumn(element.get_object(), &newer));
      } else if (key == "metadata") {
        for (auto entry : field.value().get_object()) {
          std::string name(entry.unescaped_key().value());
          manifest.metadata[std::move(name)] = std::string(ToString(entry.value()));
        }
      } else if (key == "shards") {
        for (auto element : field.value().get_array()) manifest.shards.push_back(ParseShard(element.get_object()));
      }
    }
    if (version == kManifestVersion && document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
      return DataLoss("manifest: bytes follow its end");
    }
  } catch (const simdjson::simdjson_error& error) {
    return DataLoss("manifest: is not as it should be (", error.what(), "); run shardctl index to make it anew");
  }
  if (!is_dataset) return DataLoss("manifest: \"format\" is not \"", kFormatName, "\": this is no dataset of Shardkit");
  if (version != kManifestVersion) {
    return Unimplemented("manifest: version ", version, " is not supported (this version reads 1)");
  }
  SHARDKIT_RETURN_IF_ERROR(newer);
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  if (!schema.ok()) return DataLoss("manifest: columns: ", ToStd(schema.status().message()));
  manifest.schema = *std::move(schema);
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    if (!IsSafeName(manifest.shards[i].name)) {
      return DataLoss("manifest: shard ", i, ": name ", Quote(manifest.shards[i].name),
                      " would lead out of the dataset's directory");
    }
  }
  if (manifest.samples() != samples || manifest.bytes() != bytes || manifest.blocks() != blocks) {
    return DataLoss("manifest: samples, bytes or blocks are not the sums over its shards");
  }
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(FileSystem& file_system, const std::string& directory) {
  const std::string path = JoinPath(directory, kManifestName);
  absl::StatusOr<std::string> text = file_system.ReadFile(path, kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return NotFound(directory, ": is not a dataset: there is no ", kManifestName, " in it");
  }
  if (!text.ok()) return text.status();
  absl::StatusOr<Manifest> manifest = ParseManifest(*text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  return manifest;
}

}  // namespace shardkit
