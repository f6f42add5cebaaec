#include "format/foreign/wids_index.h"

#include <simdjson.h>

#include <algorithm>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace shardkit::format {
namespace {

constexpr std::string_view kKind = "wids-shard-index-v1";
constexpr uint64_t kWidsVersion = 1;

using simdjson::ondemand::value;

bool IsNull(simdjson::simdjson_result<value>& element) { return element.is_null().value(); }

std::string ToString(simdjson::simdjson_result<value>& element) { return std::string(element.get_string().value()); }

absl::Status ParseMd5(std::string digits, WidsShard* shard) {
  for (char& c : digits) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return DataLoss("its md5sum is not hexadecimal");
  }
  if (!digits.empty() && digits.size() != 32) return DataLoss("its md5sum has ", digits.size(), " digits");
  shard->md5 = std::move(digits);
  return absl::OkStatus();
}

// Throws simdjson_error.
absl::Status ParseShard(simdjson::ondemand::object fields, WidsShard* shard) {
  bool has_url = false, has_samples = false;
  for (auto field : fields) {
    const std::string key(field.unescaped_key().value());
    auto element = field.value();
    if (key == "url") {
      shard->url = ToString(element);
      has_url = true;
    } else if (key == "nsamples") {
      shard->samples = element.get_uint64().value();
      has_samples = true;
    } else if (key == "filesize") {
      if (!IsNull(element)) shard->bytes = element.get_uint64().value();
    } else if (key == "md5sum") {
      if (!IsNull(element)) SHARDKIT_RETURN_IF_ERROR(ParseMd5(ToString(element), shard));
    }
  }
  if (!has_url) return DataLoss("it has no url");
  if (!has_samples) return DataLoss("it has no nsamples");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<WidsIndex>> ParseWidsIndex(std::string_view text) {
  if (text.find(kKind) == text.npos) return std::nullopt;
  WidsIndex index;
  std::string kind;
  uint64_t version = 0;
  try {
    simdjson::ondemand::parser parser;
    const simdjson::padded_string padded(text.data(), text.size());
    simdjson::ondemand::document document = parser.iterate(padded);
    for (auto field : document.get_object()) {
      const std::string key(field.unescaped_key().value());
      auto element = field.value();
      if (key == "__kind__") {
        kind = ToString(element);
      } else if (key == "wids_version") {
        version = element.get_uint64().value();
      } else if (key == "name") {
        if (!IsNull(element)) index.name = ToString(element);
      } else if (key == "base") {
        if (!IsNull(element)) index.base = ToString(element);
      } else if (key == "datasets") {
        auto others = element.get_array();
        if (!others.is_empty().value()) {
          return Unimplemented("refers to other indexes under \"datasets\", which is not read: open those one by one");
        }
      } else if (key == "shardlist") {
        for (auto item : element.get_array()) {
          WidsShard shard;
          if (absl::Status status = ParseShard(item.get_object(), &shard); !status.ok()) {
            return Annotate(status, StrCat("shard ", index.shards.size()));
          }
          index.shards.push_back(std::move(shard));
        }
      }
    }
  } catch (const simdjson::simdjson_error& error) {
    return DataLoss("is a damaged wids index (", error.what(), ", ", index.shards.size(), " shards read)");
  }
  if (kind != kKind) return std::nullopt;
  if (version != kWidsVersion) return Unimplemented("wids_version ", version, " is not read (1 is)");
  if (index.shards.empty()) return DataLoss("is a wids index without shards");
  return index;
}

std::string FormatWidsIndex(const WidsIndex& index) {
  JsonValue shards = JsonValue::Array();
  for (const WidsShard& shard : index.shards) {
    JsonValue entry = JsonValue::Object();
    entry.Set("url", shard.url);
    if (!shard.md5.empty()) entry.Set("md5sum", shard.md5);
    entry.Set("nsamples", shard.samples);
    if (shard.bytes) entry.Set("filesize", *shard.bytes);
    shards.Add(std::move(entry));
  }
  JsonValue document = JsonValue::Object();
  document.Set("__kind__", kKind).Set("wids_version", kWidsVersion).Set("shardlist", std::move(shards));
  if (!index.name.empty()) document.Set("name", index.name);
  if (!index.base.empty()) document.Set("base", index.base);
  return document.FormatIndented(/*ascii=*/true);
}

absl::StatusOr<std::string> LocalPathOfUrl(std::string_view url) {
  std::string_view path = url;
  if (path.starts_with("file:")) {
    path.remove_prefix(5);
    for (const std::string_view host : {"//localhost/", "///"}) {
      if (path.starts_with(host)) {
        path.remove_prefix(host.size() - 1);
        break;
      }
    }
  }
  if (path.starts_with("//") || path.starts_with("pipe:") || path.find("://") != path.npos) {
    return Unimplemented("'", url,
                         "' is not on this machine, and nothing is fetched: copy the tar next to the index, "
                         "and let the index name it there");
  }
  if (path.empty() || path.find('\0') != path.npos) return DataLoss("'", url, "' names no file");
  return std::string(path);
}

}  // namespace shardkit::format
