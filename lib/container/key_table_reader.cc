#include "container/key_table_reader.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit::container {

using format::KeyEntry;
using format::kKeyEntryBytes;
using format::LoadKeyEntry;

absl::StatusOr<std::unique_ptr<KeyTable>> KeyTable::Open(std::shared_ptr<const RandomAccessFile> file,
                                                         const TablePlace& place, uint64_t count) {
  std::unique_ptr<KeyTable> table(new KeyTable());
  table->file_ = file;
  table->place_ = place;
  SHARDKIT_ASSIGN_OR_RETURN(table->pages_, PagedTable::Open(std::move(file), place, format::TableKind::kKeys));
  const auto found = format::DecodeKeyCount(table->tail(), table->pages_->payload());
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

absl::Status KeyTableComparison::Compare(std::string_view bytes) {
  if (!RangeWithin(position_, bytes.size(), table_.place_.length)) {
    return table_.Damage("ends before what it should hold");
  }
  found_.resize(bytes.size());
  SHARDKIT_RETURN_IF_ERROR(table_.file_->ReadAt(table_.place_.offset + position_, {found_.data(), found_.size()}));
  // A later minor version, which decides nothing, and the checksum that covers it: the tail's own was compared.
  for (const auto& [begin, length] : {std::pair{6, 2}, {48, 8}}) {
    const uint64_t from = table_.place_.length - format::kTableTailBytes + static_cast<uint64_t>(begin);
    for (uint64_t byte = from; byte < from + static_cast<uint64_t>(length); ++byte) {
      if (byte >= position_ && byte < position_ + bytes.size()) found_[byte - position_] = bytes[byte - position_];
    }
  }
  const auto differs = std::ranges::mismatch(found_, bytes);
  const uint64_t at = position_ + static_cast<uint64_t>(differs.in1 - found_.begin());
  position_ += bytes.size();
  if (differs.in1 == found_.end()) return absl::OkStatus();
  if (at < format::kTableMagicBytes || at >= table_.tail().pages_end()) {
    return table_.Damage(StrCat("byte ", at, ": magic, fences or root are not those of its entries"));
  }
  // Pages lie without gaps, so that the place of an entry does not depend on how they are divided.
  const uint64_t number = (at - format::kTableMagicBytes) / kKeyEntryBytes;
  const uint64_t begin = format::kTableMagicBytes + kKeyEntryBytes * number - (position_ - bytes.size());
  const KeyEntry found = LoadKeyEntry(found_.data() + begin), wanted = LoadKeyEntry(bytes.data() + begin);
  if (found.hash == wanted.hash) {
    return table_.Damage(StrCat("entry ", number, " names sample ", found.ordinal, " instead of ", wanted.ordinal));
  }
  return table_.Damage(
      StrCat("entry ", number, " does not have the hash of the key of sample ", wanted.ordinal, " that belongs there"));
}

}  // namespace shardkit::container
