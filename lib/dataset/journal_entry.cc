#include "dataset/journal_entry.h"

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
  const auto read_skipped = [](JsonReader& json, SkippedSample* sample) {
    return json.Object({{"position", &sample->position}, {"key", &sample->key}, {"reason", &sample->reason}});
  };
  const auto read_sha256 = [&](JsonReader& digits) { return digits.Read(entry->shard.sha256.emplace()); };
  const auto read = [&](JsonReader& json) {
    return json.Object({{"name", &entry->shard.name},
                        {"bytes", &entry->shard.bytes},
                        {"samples", &entry->shard.samples},
                        {"blocks", &entry->shard.blocks},
                        {"content_hash", content_hash},
                        {"sha256", read_sha256, JsonField::kOptional},
                        {"next_position", &entry->next_position},
                        {"listing", &entry->listing},
                        {"may_continue", &entry->may_continue},
                        {"skipped", JsonInto(&entry->skipped, read_skipped)},
                        {"details", &entry->details}});
  };
  return ReadJson(line, /*all=*/true, read).ok();
}

}  // namespace shardkit::dataset
