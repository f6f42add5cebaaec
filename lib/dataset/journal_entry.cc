#include "dataset/journal_entry.h"

#include <simdjson.h>

#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "base/named_hash.h"

namespace shardkit::dataset {

std::string FormatJournalEntry(const JournalEntry& entry) {
  JsonValue skipped = JsonValue::Array();
  for (const SkippedSample& sample : entry.skipped) {
    JsonValue object = JsonValue::Object();
    object.Set("position", sample.position).Set("key", sample.key).Set("reason", sample.reason);
    skipped.Add(std::move(object));
  }
  JsonValue line = JsonValue::Object();
  line.Set("name", entry.shard.name).Set("bytes", entry.shard.bytes).Set("samples", entry.shard.samples);
  line.Set("blocks", entry.shard.blocks).Set("content_hash", ToHex(entry.shard.content_hash));
  // Kept, and not computed again when the run is resumed: a shard that is damaged meanwhile must not get the hash of
  // the damage.
  if (entry.shard.sha256) line.Set("sha256", ToHex(*entry.shard.sha256));
  line.Set("next_position", entry.next_position).Set("listing", entry.listing);
  line.Set("may_continue", entry.may_continue);
  line.Set("skipped", std::move(skipped)).Set("details", entry.details);
  return line.Format() + "\n";
}

bool ParseJournalEntry(std::string_view line, JournalEntry* entry, std::string* content_hash) {
  try {
    simdjson::dom::parser parser;
    const simdjson::dom::element json = parser.parse(line.data(), line.size()).value();
    const auto text = [](const simdjson::dom::element& object, std::string_view name) {
      return std::string(object[name].get_string().value());
    };
    const auto number = [](const simdjson::dom::element& object, std::string_view name) {
      return object[name].get_uint64().value();
    };
    entry->shard.name = text(json, "name");
    entry->shard.bytes = number(json, "bytes");
    entry->shard.samples = number(json, "samples");
    entry->shard.blocks = number(json, "blocks");
    *content_hash = text(json, "content_hash");
    if (json.at_key("sha256").error() == simdjson::SUCCESS &&
        !FromHexDigits(text(json, "sha256"), entry->shard.sha256.emplace())) {
      return false;
    }
    entry->next_position = number(json, "next_position");
    entry->listing = number(json, "listing");
    entry->may_continue = json["may_continue"].get_bool().value();
    entry->details = text(json, "details");
    const simdjson::dom::array list = json["skipped"].get_array();
    for (const simdjson::dom::element skipped : list) {
      entry->skipped.push_back({number(skipped, "position"), text(skipped, "key"), text(skipped, "reason")});
    }
  } catch (const simdjson::simdjson_error&) {
    return false;
  }
  return true;
}

}  // namespace shardkit::dataset
