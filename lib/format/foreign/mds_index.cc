#include "format/foreign/mds_index.h"

#include <simdjson.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::format {
namespace {

constexpr uint64_t kMdsIndexVersion = 2;
constexpr uint64_t kMaxHashes = 64;

// The parsing functions throw simdjson_error. The two functions at the end of this file turn it into DataLoss.
using simdjson::ondemand::object;
using simdjson::ondemand::value;

std::string ToString(simdjson::simdjson_result<value> element) { return std::string(element.get_string().value()); }

std::vector<std::string> ToStrings(simdjson::simdjson_result<value> element) {
  std::vector<std::string> out;
  for (auto item : element.get_array()) out.push_back(std::string(item.get_string().value()));
  return out;
}

MdsFile ParseFile(object fields) {
  MdsFile file;
  bool has_bytes = false;
  for (auto field : fields) {
    const std::string key(field.unescaped_key().value());
    if (key == "basename") {
      file.name = ToString(field.value());
    } else if (key == "bytes") {
      file.bytes = field.value().get_uint64().value();
      has_bytes = true;
    } else if (key == "hashes") {
      for (auto hash : field.value().get_object()) {
        std::string name(hash.unescaped_key().value());
        if (file.hashes.size() == kMaxHashes) throw simdjson::simdjson_error(simdjson::CAPACITY);
        file.hashes.emplace_back(std::move(name), ToString(hash.value()));
      }
    }
  }
  if (file.name.empty() || !has_bytes) throw simdjson::simdjson_error(simdjson::NO_SUCH_FIELD);
  return file;
}

// An entry of the index, or a shard's header, which has some of the same fields.
struct IndexEntry {
  MdsShard shard;
  std::string format;
  uint64_t version = 0;
  bool has_samples = false;
  bool has_raw = false;
  std::vector<std::string> names, encodings;
  std::vector<std::optional<uint64_t>> sizes;
};

IndexEntry ParseEntry(object fields) {
  IndexEntry entry;
  for (auto field : fields) {
    const std::string key(field.unescaped_key().value());
    auto element = field.value();
    if (key == "format") {
      entry.format = ToString(element);
    } else if (key == "version") {
      entry.version = element.get_uint64().value();
    } else if (key == "column_names") {
      entry.names = ToStrings(element);
    } else if (key == "column_encodings") {
      entry.encodings = ToStrings(element);
    } else if (key == "column_sizes") {
      for (auto item : element.get_array()) {
        std::optional<uint64_t> size;
        if (!item.is_null()) size = item.get_uint64().value();
        entry.sizes.push_back(size);
      }
    } else if (key == "samples") {
      entry.shard.samples = element.get_uint64().value();
      entry.has_samples = true;
    } else if (key == "compression") {
      if (!element.is_null()) entry.shard.compression = ToString(element);
    } else if (key == "raw_data") {
      if (!element.is_null()) {
        entry.shard.raw = ParseFile(element.get_object());
        entry.has_raw = true;
      }
    } else if (key == "zip_data") {
      if (!element.is_null()) entry.shard.zip = ParseFile(element.get_object());
    }
  }
  return entry;
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

absl::Status CheckEntry(const IndexEntry& entry) {
  SHARDKIT_RETURN_IF_ERROR(CheckKind(entry));
  if (!entry.has_raw) return DataLoss("has no raw_data");
  if (!entry.has_samples) return DataLoss("does not say how many samples it has");
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

}  // namespace

absl::StatusOr<MdsIndex> ParseMdsIndex(std::string_view text) {
  MdsIndex index;
  bool has_version = false, has_shards = false;
  std::vector<std::string> names, encodings;
  std::vector<std::optional<uint64_t>> sizes;
  try {
    simdjson::ondemand::parser parser;
    const simdjson::padded_string padded(text.data(), text.size());
    simdjson::ondemand::document document = parser.iterate(padded);
    for (auto field : document.get_object()) {
      const std::string key(field.unescaped_key().value());
      if (key == "version") {
        const uint64_t version = field.value().get_uint64().value();
        if (version != kMdsIndexVersion) return Unimplemented("version ", version, " is not read (version 2 is)");
        has_version = true;
      } else if (key == "shards") {
        has_shards = true;
        for (auto element : field.value().get_array()) {
          IndexEntry entry = ParseEntry(element.get_object());
          const std::string where = StrCat("shard ", index.shards.size());
          if (absl::Status status = CheckEntry(entry); !status.ok()) return Annotate(status, where);
          if (index.shards.empty()) {
            names = entry.names, encodings = entry.encodings, sizes = entry.sizes;
            auto columns = MakeMdsColumns(std::move(entry.names), std::move(entry.encodings), std::move(entry.sizes));
            if (!columns.ok()) return Annotate(columns.status(), where);
            index.columns = *std::move(columns);
          } else if (entry.names != names || entry.encodings != encodings || entry.sizes != sizes) {
            return DataLoss(where, ": its columns, their encodings or sizes differ from those of shard 0");
          }
          index.shards.push_back(std::move(entry.shard));
        }
      }
    }
  } catch (const simdjson::simdjson_error& error) {
    return DataLoss("is not the index of an MDS dataset (", error.what(), ", ", index.shards.size(), " shards read)");
  }
  if (!has_version || !has_shards)
    return DataLoss("is not the index of an MDS dataset: it has no ", has_version ? "shards" : "version");
  SHARDKIT_RETURN_IF_ERROR(CheckNamesDiffer(index.shards));
  return index;
}

absl::StatusOr<std::vector<MdsColumn>> ParseMdsHeader(std::string_view json) {
  try {
    simdjson::ondemand::parser parser;
    const simdjson::padded_string padded(json.data(), json.size());
    simdjson::ondemand::document document = parser.iterate(padded);
    IndexEntry entry = ParseEntry(document.get_object());
    SHARDKIT_RETURN_IF_ERROR(CheckKind(entry));
    return MakeMdsColumns(std::move(entry.names), std::move(entry.encodings), std::move(entry.sizes));
  } catch (const simdjson::simdjson_error& error) {
    return DataLoss("is not the JSON of an MDS shard (", error.what(), ")");
  }
}

}  // namespace shardkit::format
