#include "shardkit/manifest.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "dataset/bases.h"
#include "dataset/manifest_json.h"
#include "dataset/manifest_text.h"
#include "format/paged_table.h"
#include "format/shard_list.h"

namespace shardkit {
namespace {

constexpr std::string_view kFormatName = "shardkit-dataset";
constexpr uint64_t kManifestVersion = 1;
constexpr std::string_view kBasesFeature = "bases";
constexpr std::string_view kChecksumKey = "\n  \"checksum\": \"";  // on a line of its own

// The checksum, which is right.
absl::StatusOr<uint64_t> CheckChecksum(std::string_view text) {
  const size_t line = text.rfind(kChecksumKey);
  if (line == text.npos) {
    return DataLoss("manifest: has no checksum: it was cut short (shardctl index rebuilds it), or is none of Shardkit");
  }
  const std::string_view end = text.substr(line + kChecksumKey.size());
  const uint64_t checksum = Hash64(text.substr(0, line + 1));
  if (end == StrCat(dataset::Hex64(checksum), "\"\n}\n")) return checksum;
  return DataLoss("manifest checksum is wrong, or bytes follow it: the file was damaged or edited; run shardctl index ",
                  "to rebuild it");
}

absl::Status CheckFeatures(const std::vector<std::string>& features) {
  if (std::ranges::adjacent_find(features, std::greater_equal()) != features.end()) {
    return DataLoss("\"features\" does not ascend");
  }
  for (const std::string& feature : features) {
    if (feature != kBasesFeature) return Unimplemented("feature ", dataset::Quote(feature), " is not known");
  }
  return absl::OkStatus();
}

absl::Status ReadReplaced(JsonReader& json, std::vector<std::string>* names) {
  SHARDKIT_RETURN_IF_ERROR(json.Read(names));
  const auto wrong = std::ranges::find_if_not(*names, &dataset::IsSafeName);
  if (wrong == names->end()) return absl::OkStatus();
  return DataLoss("a replaced shard, ", dataset::Quote(*wrong), ", cannot be in its directory");
}

// *has_shards: it lists the shards.
absl::Status ReadContent(JsonReader& json, std::string* format, Manifest* manifest, bool* has_shards) {
  // What says whether the rest can be understood comes first, wherever it stands.
  uint64_t version = 0;
  std::vector<std::string> features;
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"format", format}}, JsonKeys::kFirst));
  if (*format != kFormatName) return DataLoss("\"format\" is another");
  SHARDKIT_RETURN_IF_ERROR(
      json.Object({{"version", &version, JsonField::kRequired, dataset::kMaxCount}}, JsonKeys::kFirst));
  if (version != kManifestVersion) return Unimplemented("version ", version, " is not known");
  SHARDKIT_RETURN_IF_ERROR(json.Object({{"features", &features}}, JsonKeys::kFirst));
  SHARDKIT_RETURN_IF_ERROR(CheckFeatures(features));

  constexpr auto kRequired = JsonField::kRequired, kOptional = JsonField::kOptional;
  std::vector<Column> columns;
  SHARDKIT_RETURN_IF_ERROR(
      json.Object({{"format", format},
                   {"version", &version},
                   {"features", &features},
                   {"generation", &manifest->generation, kRequired, dataset::kMaxCount},
                   {"operation", JsonInto(&manifest->operation, &dataset::ReadOperation)},
                   {"next_shard", &manifest->next_shard, kOptional, dataset::kMaxCount},
                   {"replaced", [&](JsonReader& names) { return ReadReplaced(names, &manifest->replaced); }, kOptional},
                   {"samples", &manifest->sample_count, kRequired, dataset::kMaxCount},
                   {"bytes", &manifest->bytes, kRequired, dataset::kMaxCount},
                   {"blocks", &manifest->block_count, kRequired, dataset::kMaxCount},
                   {"columns", JsonInto(&columns,
                                        [&](JsonReader& json_column, Column* column) {
                                          return dataset::ReadColumn(json_column, column, &manifest->stored_names);
                                        })},
                   {"dropped",
                    [&](JsonReader& names) {
                      const absl::Status status = names.Read(&manifest->dropped);
                      return status.ok() && manifest->dropped.empty() ? DataLoss("is empty") : status;
                    },
                    kOptional},
                   {"metadata", JsonInto(&manifest->metadata, &dataset::ReadMetadata)},
                   {"bases",
                    [&](JsonReader& list) {
                      const absl::Status status = JsonInto(&manifest->bases, &dataset::ReadBase)(list);
                      return status.ok() && manifest->bases.empty() ? DataLoss("is empty") : status;
                    },
                    kOptional},
                   {"segments", JsonInto(&manifest->segments, &dataset::ReadSegment)},
                   {"column_files",
                    [&](JsonReader& list) {
                      const absl::Status status = JsonInto(&manifest->column_files, &dataset::ReadColumnFile)(list);
                      return status.ok() && manifest->column_files.empty() ? DataLoss("is empty") : status;
                    },
                    kOptional},
                   {"removed", JsonInto(&manifest->removed, &dataset::ReadRemoved), kOptional},
                   {"shards",
                    [&](JsonReader& list) {
                      *has_shards = true;
                      return JsonInto(&manifest->shards, &dataset::ReadShard)(list);
                    },
                    kOptional}}));
  if (manifest->generation == 0) return DataLoss("\"generation\" is 0");
  SHARDKIT_RETURN_IF_ERROR(dataset::CheckBases(*manifest, !features.empty()));
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  if (!schema.ok()) return DataLoss("columns: ", ToStd(schema.status().message()));
  manifest->schema = *std::move(schema);
  return absl::OkStatus();
}

// Each segment's counts are those of its shards, and the segments cover all of them.
absl::Status CheckSegments(const Manifest& manifest) {
  const std::vector<ManifestShard>& shards = manifest.shards;
  size_t shard = 0;
  for (size_t i = 0; i < manifest.segments.size(); ++i) {
    const Segment& segment = manifest.segments[i];
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
  if (shard == shards.size()) return absl::OkStatus();
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

// What the segments say of shards that only they list.
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

bool dataset::IsSafeName(std::string_view name) {
  if (name.size() > format::kMaxShardNameBytes || !ValidUtf8(name)) return false;
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

absl::Status dataset::CheckNames(const std::vector<ManifestShard>& shards, const ManifestSummary& summary) {
  std::vector<std::string_view> names;
  names.reserve(shards.size());
  for (const ManifestShard& shard : shards) names.push_back(shard.name);
  for (const Segment& segment : summary.segments) names.push_back(segment.table.name);
  if (summary.removed) names.push_back(summary.removed->table.name);
  for (const ColumnFile& file : summary.column_files) names.push_back(file.name);
  for (size_t i = 0; i < names.size(); ++i) {
    if (dataset::IsSafeName(names[i])) continue;
    return DataLoss("manifest: ", i < shards.size() ? StrCat("shard ", i) : "a table or column file", ": name ",
                    dataset::Quote(names[i]),
                    " would lead out of the dataset's directory, is not UTF-8, or has over 4096 bytes");
  }
  if (!std::ranges::is_sorted(names)) std::ranges::sort(names);  // writers number them
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return absl::OkStatus();
  return DataLoss("manifest: lists the file ", dataset::Quote(*twice), " twice");
}

void Manifest::BeginGeneration(DatasetOperation made_by) {
  ++generation;
  operation = std::move(made_by);
  std::erase_if(operation.arguments, [](const auto& argument) { return argument.second.empty(); });
}

void Manifest::AddShard(ManifestShard shard) {
  ++shard_count;
  sample_count += shard.samples;
  block_count += shard.blocks;
  bytes += shard.bytes;
  shards.push_back(std::move(shard));
}

void Manifest::SetShards(std::vector<ManifestShard> all) {
  shard_count = sample_count = block_count = bytes = 0;
  shards.clear();
  for (ManifestShard& shard : all) AddShard(std::move(shard));
}

uint64_t HashShards(std::span<const ManifestShard> shards) {
  std::string hashes;
  for (const ManifestShard& shard : shards) AppendLittle(hashes, shard.content_hash);
  return Hash64(hashes);
}

Schema ManifestSummary::StoredSchema() const {
  if (stored_names.empty()) return schema;
  std::vector<Column> columns = schema.columns();
  for (Column& column : columns) column.name = std::string(StoredName(column.name));
  absl::StatusOr<Schema> stored = Schema::Create(std::move(columns));
  return stored.ok() ? *std::move(stored) : Schema();  // which no manifest that was read has
}

std::string NameInGeneration(std::string_view name, uint64_t generation) {
  if (generation == 1) return std::string(name);
  const size_t dot = name.rfind('.');
  return StrCat(name.substr(0, dot), "-", generation, name.substr(dot));
}

std::string FormatManifest(const Manifest& manifest) {
  // Lists of names, of datasets that have some.
  const auto names = [](std::string_view key, const std::vector<std::string>& list) {
    return list.empty() ? "" : StrCat(",\n  \"", key, "\": ", dataset::FormatNames(list));
  };
  std::string out =
      StrCat("{\n  \"format\": \"", kFormatName, "\",\n  \"version\": ", kManifestVersion, ",\n  \"features\": [",
             manifest.bases.empty() ? "" : dataset::Quote(kBasesFeature), "],\n  \"generation\": ", manifest.generation,
             ",\n  \"operation\": ", dataset::FormatOperation(manifest.operation),
             manifest.next_shard > 0 ? StrCat(",\n  \"next_shard\": ", manifest.next_shard) : "",
             names("replaced", manifest.replaced), ",\n  \"samples\": ", manifest.sample_count,
             ",\n  \"bytes\": ", manifest.bytes, ",\n  \"blocks\": ", manifest.block_count, ",\n  \"columns\": [\n");
  const std::vector<Column>& columns = manifest.schema.columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    out += StrCat(dataset::FormatColumn(columns[i], manifest.StoredName(columns[i].name)),
                  i + 1 < columns.size() ? ",\n" : "\n");
  }
  out += StrCat("  ]", names("dropped", manifest.dropped), ",\n  \"metadata\": {");
  bool first = true;
  for (const auto& [name, value] : manifest.metadata) {
    out += StrCat(first ? "\n    " : ",\n    ", dataset::Quote(name), ": ", dataset::Quote(value));
    first = false;
  }
  out += first ? "},\n" : "\n  },\n";
  for (const Base& base : manifest.bases) {
    out += StrCat(&base == &manifest.bases.front() ? StrCat(dataset::kBasesKey.substr(1), "\n") : ",\n",
                  dataset::FormatBase(base));
  }
  out += StrCat(manifest.bases.empty() ? "" : "\n  ],\n", "  \"segments\": [");
  for (size_t i = 0; i < manifest.segments.size(); ++i) {
    out += StrCat(i == 0 ? "\n" : ",\n", dataset::FormatSegment(manifest.segments[i]));
  }
  out += manifest.segments.empty() ? "],\n" : "\n  ],\n";
  for (const ColumnFile& file : manifest.column_files) {
    out += StrCat(&file == &manifest.column_files.front() ? "  \"column_files\": [\n" : ",\n",
                  dataset::FormatColumnFile(file));
  }
  if (!manifest.column_files.empty()) out += "\n  ],\n";
  if (manifest.removed) out += StrCat("  \"removed\": ", dataset::FormatRemoved(*manifest.removed), ",\n");
  const bool lists_shards = manifest.shards.size() <= kMostShardsInManifest;
  if (lists_shards) out += "  \"shards\": [\n";
  for (size_t i = 0; i < manifest.shards.size() && lists_shards; ++i) {
    out += StrCat(dataset::FormatShard(manifest.shards[i]), i + 1 < manifest.shards.size() ? ",\n" : "\n");
  }
  if (lists_shards) out += "  ],\n";
  out += StrCat(kChecksumKey.substr(1), dataset::Hex64(Hash64(out)), "\"\n}\n");
  return out;
}

absl::StatusOr<Manifest> dataset::ParseManifestText(std::string_view text) {
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t checksum, CheckChecksum(text));
  Manifest manifest;
  std::string format;
  bool has_shards = false;
  const absl::Status status = ReadJson(
      text, /*all=*/false, [&](JsonReader& json) { return ReadContent(json, &format, &manifest, &has_shards); });
  if (format != kFormatName) {
    return DataLoss("manifest: \"format\" is not \"", kFormatName, "\": this is no dataset of Shardkit");
  }
  if (absl::IsUnimplemented(status)) {
    return Unimplemented("manifest: ", ToStd(status.message()), " to this version: read the dataset with a newer one");
  }
  if (!status.ok()) return DataLoss("manifest: ", ToStd(status.message()), "; run shardctl index to rebuild it");
  manifest.checksum = checksum;
  SHARDKIT_RETURN_IF_ERROR(dataset::CheckNames(manifest.shards, manifest));
  if (!has_shards) {
    SHARDKIT_RETURN_IF_ERROR(CheckListed(&manifest));
  } else {
    manifest.shard_count = manifest.shards.size();
    SHARDKIT_RETURN_IF_ERROR(CheckTotals(manifest.shards, manifest, "shards"));
    SHARDKIT_RETURN_IF_ERROR(CheckSegments(manifest));
  }
  SHARDKIT_RETURN_IF_ERROR(dataset::CheckColumns(manifest));
  return manifest;
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  absl::StatusOr<Manifest> manifest = dataset::ParseManifestText(text);
  if (manifest.ok() && manifest->shards_in_segments()) {
    return FailedPrecondition("manifest: only its segments list the shards");
  }
  return manifest;
}

absl::StatusOr<std::string> dataset::ReadManifestBytes(ReadableFileSystem& file_system, const std::string& directory) {
  absl::StatusOr<std::string> text =
      file_system.ReadFile(JoinPath(directory, kManifestName), dataset::kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return NotFound(directory, ": is not a dataset: there is no ", kManifestName, " in it");
  }
  return text;
}

absl::StatusOr<Manifest> dataset::ReadManifestText(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(std::string bytes, dataset::ReadManifestBytes(file_system, directory));
  absl::StatusOr<Manifest> manifest = dataset::ParseManifestText(bytes);
  if (absl::IsDataLoss(manifest.status())) {
    // It may have been damaged on its way, or read while another took its place.
    SHARDKIT_ASSIGN_OR_RETURN(bytes, dataset::ReadManifestBytes(file_system, directory));
    manifest = dataset::ParseManifestText(bytes);
  }
  if (!manifest.ok()) return Annotate(manifest.status(), JoinPath(directory, kManifestName));
  SHARDKIT_RETURN_IF_ERROR(dataset::FindBases(directory, &*manifest));
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(ReadableFileSystem& file_system, const std::string& directory) {
  SHARDKIT_ASSIGN_OR_RETURN(Manifest manifest, dataset::ReadManifestText(file_system, directory));
  SHARDKIT_RETURN_IF_ERROR(dataset::ReadListedShards(file_system, directory, &manifest));
  return manifest;
}

}  // namespace shardkit
