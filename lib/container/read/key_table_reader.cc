#include "container/read/key_table_reader.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::container {

using format::KeyEntry;
using format::kKeyEntryBytes;
using format::LoadKeyEntry;

absl::StatusOr<std::unique_ptr<KeyTable>> KeyTable::Open(std::shared_ptr<const RandomAccessFile> file,
                                                         const format::TablePlace& place, uint64_t count) {
  SHARDKIT_ASSIGN_OR_RETURN(auto pages, PagedTable::Open(std::move(file), place, format::TableKind::kKeys));
  return Of(std::move(pages), count);
}

absl::StatusOr<std::unique_ptr<KeyTable>> KeyTable::Of(std::unique_ptr<PagedTable> pages, uint64_t count) {
  std::unique_ptr<KeyTable> table(new KeyTable());
  table->pages_ = std::move(pages);
  const auto found = format::DecodeKeyCount(table->pages_->page_bytes(), table->pages_->payload());
  if (!found.ok()) return table->Damage(ToStd(found.status().message()));
  if (*found != count) return table->Damage(StrCat("has ", *found, " entries for ", count, " samples"));
  table->count_ = count;
  return table;
}

absl::StatusOr<TablePage> KeyTable::Page(uint64_t number, bool keep) const {
  SHARDKIT_ASSIGN_OR_RETURN(TablePage page, pages_->Page(number, keep));
  const absl::Status status = format::CheckKeyPage(page.first, page.bytes);
  if (!status.ok()) return Damage(StrCat("page ", number, ": ", ToStd(status.message())));
  return page;
}

absl::Status KeyTable::Find(uint64_t hash, const std::function<absl::StatusOr<bool>(uint64_t ordinal)>& visit) const {
  if (count_ == 0) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(uint64_t number, pages_->FindPage(hash));
  for (; number < pages_->page_count(); ++number) {
    SHARDKIT_ASSIGN_OR_RETURN(const TablePage page, Page(number, true));
    const auto entry = [&](uint64_t i) { return LoadKeyEntry(page.bytes.data() + kKeyEntryBytes * i); };
    const uint64_t count = page.bytes.size() / kKeyEntryBytes;
    uint64_t low = 0;
    for (uint64_t high = count; low < high;) {
      const uint64_t middle = low + (high - low) / 2;
      if (entry(middle).hash < hash) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const bool whole_page = low == 0 && count == format::kKeysOfPage && entry(count - 1).hash == hash;
    for (; low < count && entry(low).hash == hash; ++low) {
      const uint64_t ordinal = entry(low).ordinal;
      SHARDKIT_RETURN_IF_ERROR(pages_->CheckMapped());
      if (ordinal >= count_) return Damage(StrCat("ordinal ", ordinal, " is past the last sample"));
      SHARDKIT_ASSIGN_OR_RETURN(const bool found, visit(ordinal));
      if (found) return absl::OkStatus();
    }
    SHARDKIT_RETURN_IF_ERROR(pages_->CheckMapped());
    if (!whole_page) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> KeyCursor::Next(KeyEntry* entry) {
  if (position_ == page_.bytes.size()) {
    SHARDKIT_RETURN_IF_ERROR(table_->pages_->CheckMapped());
    if (taken_ == table_->count()) return false;
    SHARDKIT_ASSIGN_OR_RETURN(page_, table_->Page(next_page_++, false));
    position_ = 0;
  }
  *entry = LoadKeyEntry(page_.bytes.data() + position_);
  position_ += kKeyEntryBytes;
  if (taken_ > 0 && *entry <= last_) {
    return table_->Damage(
        StrCat(entry->hash < last_.hash ? "hashes" : "ordinals of equal hashes", " do not ascend at entry ", taken_));
  }
  if (entry->ordinal >= table_->count()) {
    return table_->Damage(StrCat("ordinal ", entry->ordinal, " of entry ", taken_, " is past the last sample"));
  }
  last_ = *entry;
  ++taken_;
  return true;
}

absl::Status KeyTableComparison::Compare(std::string_view page) {
  if (next_page_ == table_.page_count()) return table_.Damage("ends before what it should hold");
  SHARDKIT_ASSIGN_OR_RETURN(const TablePage found, table_.Page(next_page_++, false));
  const auto differs = std::ranges::mismatch(found.bytes, page);
  const auto at = static_cast<uint64_t>(differs.in1 - found.bytes.begin());
  const uint64_t number = entries_ + at / kKeyEntryBytes;
  entries_ += page.size() / kKeyEntryBytes;
  if (differs.in1 == found.bytes.end() && differs.in2 == page.end()) return table_.pages_->CheckMapped();
  if (differs.in1 == found.bytes.end() || differs.in2 == page.end()) {
    return table_.Damage(StrCat("page ", found.number, " has ", found.bytes.size(), " bytes instead of ", page.size(),
                                ": its fences divide the entries in another way"));
  }
  const uint64_t begin = at - at % kKeyEntryBytes;
  const KeyEntry entry = LoadKeyEntry(found.bytes.data() + begin), wanted = LoadKeyEntry(page.data() + begin);
  SHARDKIT_RETURN_IF_ERROR(table_.pages_->CheckMapped());
  if (entry.hash == wanted.hash) {
    return table_.Damage(StrCat("entry ", number, " names sample ", entry.ordinal, " instead of ", wanted.ordinal));
  }
  return table_.Damage(
      StrCat("entry ", number, " does not have the hash of the key of sample ", wanted.ordinal, " that belongs there"));
}

absl::Status KeyTableComparison::Finish() {
  SHARDKIT_RETURN_IF_ERROR(expected_.Finish().status());
  return next_page_ == table_.page_count() ? absl::OkStatus() : table_.Damage("has more pages than it should");
}

}  // namespace shardkit::container
