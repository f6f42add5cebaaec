#include "foreign/mds/mds_index.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace shardkit::foreign {
namespace {

constexpr uint64_t kMdsIndexVersion = 2;
constexpr uint64_t kMaxHashes = 64;

constexpr auto kOptional = JsonField::kOptional, kOrNull = JsonField::kOrNull;

absl::Status ReadFile(JsonReader& json, MdsFile* file) {
  const auto read_hashes = [&](JsonReader& hashes) {
    return hashes.Members([&](std::string_view name, JsonReader& digits) -> absl::Status {
      if (file->hashes.size() == kMaxHashes) return DataLoss("there are more than ", kMaxHashes, " hashes");
      return digits.Read(&file->hashes.emplace_back(name, std::string()).second);
    });
  };
  SHARDKIT_RETURN_IF_ERROR(
      json.Object({{"basename", &file->name}, {"bytes", &file->bytes}, {"hashes", read_hashes, kOptional}}));
  return file->name.empty() ? DataLoss("its basename is empty") : absl::OkStatus();
}

// An entry of the index, or a shard's header, which has some of the same fields.
struct IndexEntry {
  MdsShard shard;
  std::string format;
  uint64_t version = 0;
  std::optional<uint64_t> samples;
  std::optional<MdsFile> raw;
  std::vector<std::string> names, encodings;
  std::vector<std::optional<uint64_t>> sizes;
};

absl::Status ReadEntry(JsonReader& json, IndexEntry* entry) {
  return json.Object({{"format", &entry->format, kOptional},
                      {"version", &entry->version, kOptional},
                      {"column_names", &entry->names, kOptional},
                      {"column_encodings", &entry->encodings, kOptional},
                      {"column_sizes", [&](JsonReader& sizes) { return sizes.Read(&entry->sizes); }, kOptional},
                      {"samples", &entry->samples, kOptional},
                      {"compression", &entry->shard.compression, kOrNull},
                      {"raw_data", JsonInto(&entry->raw, &ReadFile), kOrNull},
                      {"zip_data", JsonInto(&entry->shard.zip, &ReadFile), kOrNull}});
}

absl::Status CheckKind(const IndexEntry& entry) {
  if (entry.version != kMdsIndexVersion) return Unimplemented("version ", entry.version, " is not read (version 2 is)");
  if (entry.format != "mds") return Unimplemented("format \"", entry.format, "\" is not read (\"mds\" is)");
  return absl::OkStatus();
}

// Whether `name` is a relative path that stays inside the dataset's directory.
bool StaysInside(std::string_view name) {
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

absl::Status CheckEntry(IndexEntry& entry) {
  SHARDKIT_RETURN_IF_ERROR(CheckKind(entry));
  if (!entry.raw) return DataLoss("has no raw_data");
  if (!entry.samples) return DataLoss("does not say how many samples it has");
  entry.shard.samples = *entry.samples;
  entry.shard.raw = *std::move(entry.raw);
  if (entry.shard.samples > UINT32_MAX) return DataLoss("has ", entry.shard.samples, " samples, more than a shard can");
  for (const MdsFile* file : {&entry.shard.raw, entry.shard.zip ? &*entry.shard.zip : nullptr}) {
    if (file != nullptr && !StaysInside(file->name))
      return DataLoss("basename would lead out of the dataset's directory");
  }
  // Each sample takes 4 bytes for its offset: a count that does not fit in the file is damage.
  if (entry.shard.samples > entry.shard.raw.bytes / 4) {
    return DataLoss("has ", entry.shard.samples, " samples in ", entry.shard.raw.bytes,
                    " bytes, too few for their offsets");
  }
  return absl::OkStatus();
}

// No writer lists a file twice. A name that occurs twice was damaged, and the samples of another shard would be read in
// place of this shard's.
absl::Status CheckNamesDiffer(const std::vector<MdsShard>& shards) {
  std::vector<std::pair<std::string_view, size_t>> names;
  names.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    names.emplace_back(shards[i].raw.name, i);
    if (shards[i].zip) names.emplace_back(shards[i].zip->name, i);
  }
  std::ranges::sort(names);
  const auto twice =
      std::ranges::adjacent_find(names, std::ranges::equal_to(), &std::pair<std::string_view, size_t>::first);
  if (twice == names.end()) return absl::OkStatus();
  return DataLoss("shard ", std::next(twice)->second, ": its file \"", twice->first, "\" is also that of shard ",
                  twice->second, ": a name was damaged");
}

absl::Status ReadShard(JsonReader& json, std::optional<IndexEntry>* first, MdsIndex* index) {
  IndexEntry entry;
  SHARDKIT_RETURN_IF_ERROR(ReadEntry(json, &entry));
  SHARDKIT_RETURN_IF_ERROR(CheckEntry(entry));
  index->shards.push_back(std::move(entry.shard));
  if (!*first) {
    SHARDKIT_ASSIGN_OR_RETURN(index->columns, MakeMdsColumns(entry.names, entry.encodings, entry.sizes));
    *first = std::move(entry);
  } else if (entry.names != (*first)->names || entry.encodings != (*first)->encodings ||
             entry.sizes != (*first)->sizes) {
    return DataLoss("its columns, their encodings or sizes differ from those of shard 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MdsIndex> ParseMdsIndex(std::string_view text) {
  MdsIndex index;
  std::optional<IndexEntry> first;
  const absl::Status status = ReadJson(text, /*all=*/false, [&](JsonReader& json) {
    const auto read_version = [](JsonReader& number) -> absl::Status {
      uint64_t version = 0;
      SHARDKIT_RETURN_IF_ERROR(number.Read(&version));
      if (version == kMdsIndexVersion) return absl::OkStatus();
      return Unimplemented("version ", version, " is not read (version 2 is)");
    };
    const auto read_shards = [&](JsonReader& list) {
      return list.List([&](JsonReader& shard) { return ReadShard(shard, &first, &index); });
    };
    return json.Object({{"version", read_version}, {"shards", read_shards}});
  });
  if (absl::IsDataLoss(status)) return Annotate(status, "is not the index of an MDS dataset");
  SHARDKIT_RETURN_IF_ERROR(status);
  SHARDKIT_RETURN_IF_ERROR(CheckNamesDiffer(index.shards));
  return index;
}

absl::StatusOr<std::vector<MdsColumn>> ParseMdsHeader(std::string_view json) {
  IndexEntry entry;
  const absl::Status status =
      ReadJson(json, /*all=*/false, [&](JsonReader& header) { return ReadEntry(header, &entry); });
  if (!status.ok()) return Annotate(status, "is not the JSON of an MDS shard");
  SHARDKIT_RETURN_IF_ERROR(CheckKind(entry));
  return MakeMdsColumns(std::move(entry.names), std::move(entry.encodings), std::move(entry.sizes));
}

}  // namespace shardkit::foreign
