#include "convert/unit_records.h"

#include <cstdio>

#include "base/named_hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/publish_file.h"

namespace shardkit::convert {
namespace {

constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

std::string FormatRecord(const std::string& fingerprint, const UnitRecord& record) {
  dataset::JournalEntry skipped;
  skipped.skipped = record.skipped;
  std::string text =
      StrCat("shardkit-unit 1 ", fingerprint, " ", record.shards.size(), " ", record.listed, " ", record.listing, " ",
             record.samples, " ", record.input_bytes, "\n", dataset::FormatJournalEntry(skipped));
  for (const dataset::JournalEntry& shard : record.shards) {
    dataset::JournalEntry entry = shard;
    entry.skipped.clear();
    text += dataset::FormatJournalEntry(entry);
  }
  return text;
}

std::optional<UnitRecord> ParseRecord(const std::string& fingerprint, std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (lines.size() < 2) return std::nullopt;
  UnitRecord record;
  unsigned long long shards = 0, listed = 0, listing = 0, samples = 0, bytes = 0;
  char plan[17] = {};
  if (std::sscanf(std::string(lines[0]).c_str(), "shardkit-unit 1 %16[0-9a-f] %llu %llu %llu %llu %llu", plan, &shards,
                  &listed, &listing, &samples, &bytes) != 6 ||
      plan != fingerprint || shards != lines.size() - 2) {
    return std::nullopt;
  }
  record.listed = listed;
  record.listing = listing;
  record.samples = samples;
  record.input_bytes = bytes;
  for (size_t i = 1; i < lines.size(); ++i) {
    dataset::JournalEntry entry;
    std::string hash;
    if (!dataset::ParseJournalEntry(lines[i], &entry, &hash)) return std::nullopt;
    if (i == 1) {
      record.skipped = std::move(entry.skipped);
      continue;
    }
    if (!FromHexDigits(hash, entry.shard.content_hash)) return std::nullopt;
    record.shards.push_back(std::move(entry));
  }
  return record;
}

}  // namespace

std::string UnitRecords::Path(uint64_t unit) const {
  return JoinPath(folder_, StrCat(absl::Dec(unit, absl::kZeroPad8), ".unit"));
}

absl::StatusOr<std::optional<UnitRecord>> UnitRecords::Read(uint64_t unit) const {
  const auto text = file_system_.ReadFile(Path(unit), kMaxRecordBytes);
  if (absl::IsNotFound(text.status())) return std::optional<UnitRecord>();
  SHARDKIT_RETURN_IF_ERROR(text.status());
  return ParseRecord(fingerprint_, *text);
}

absl::Status UnitRecords::Publish(uint64_t unit, const UnitRecord& record) const {
  return io::PublishShared(file_system_, Path(unit), FormatRecord(fingerprint_, record));
}

}  // namespace shardkit::convert
