#include "format/key_table.h"

#include <algorithm>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::format {

KeyEntry LoadKeyEntry(const char* from) { return {LoadLittle<uint64_t>(from), LoadLittle<uint64_t>(from + 8)}; }

absl::StatusOr<uint64_t> DecodeKeyCount(uint64_t page_bytes, std::string_view payload) {
  if (payload.size() != 8) return DataLoss("root has ", payload.size(), " bytes besides the fences instead of 8");
  const uint64_t count = LoadLittle<uint64_t>(payload.data());
  if (page_bytes % kKeyEntryBytes != 0 || page_bytes / kKeyEntryBytes != count) {
    return DataLoss("pages of ", page_bytes, " bytes do not hold ", count, " entries");
  }
  return count;
}

absl::Status CheckKeyPage(uint64_t first, std::string_view page) {
  if (page.empty() || page.size() % kKeyEntryBytes != 0 || page.size() > kTablePageBytes) {
    return DataLoss("has ", page.size(), " bytes, which no page of keys may have");
  }
  if (LoadLittle<uint64_t>(page.data()) != first) return DataLoss("its fence is not the hash of its first entry");
  return absl::OkStatus();
}

absl::Status KeyTableWriter::Add(const KeyEntry& entry) {
  if (count_ > 0 && entry <= last_) return Internal("keys to be written do not ascend");
  const bool same = count_ > 0 && entry.hash == last_.hash;
  // Entries of one hash go to the next page together. Where they fill pages of their own, they are divided.
  if (page_.size() == kTablePageBytes) SHARDKIT_RETURN_IF_ERROR(EndPage(same ? run_begin_ : page_.size()));
  if (!same) run_begin_ = page_.size();
  AppendLittle(page_, entry.hash);
  AppendLittle(page_, entry.ordinal);
  last_ = entry;
  ++count_;
  return absl::OkStatus();
}

// What stands behind `end` begins the next page; 0 means that the whole page is of one hash.
absl::Status KeyTableWriter::EndPage(size_t end) {
  if (end == 0) end = page_.size();
  SHARDKIT_RETURN_IF_ERROR(add_page_(LoadLittle<uint64_t>(page_.data()), std::string_view(page_).substr(0, end)));
  page_.erase(0, end);
  run_begin_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::string> KeyTableWriter::Finish() {
  if (!page_.empty()) SHARDKIT_RETURN_IF_ERROR(EndPage(page_.size()));
  std::string payload;
  AppendLittle(payload, count_);
  return payload;
}

std::string EncodeKeyTable(const std::vector<uint64_t>& hashes) {
  std::vector<KeyEntry> entries(hashes.size());
  for (size_t i = 0; i < entries.size(); ++i) entries[i] = {hashes[i], i};
  std::ranges::sort(entries);
  std::string out;
  PagedTableWriter table([&](std::string_view bytes) {
    out += bytes;
    return absl::OkStatus();
  });
  KeyTableWriter writer([&](uint64_t first, std::string_view page) { return table.AddPage(first, page); });
  // No call fails: the entries ascend, and memory would end long before the pages that a table may have.
  for (const KeyEntry& entry : entries) (void)writer.Add(entry);
  (void)table.EndSection(TableKind::kKeys, writer.Finish().value_or(""));
  (void)table.Finish();
  return out;
}

}  // namespace shardkit::format
