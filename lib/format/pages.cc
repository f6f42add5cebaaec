#include "format/pages.h"

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"

namespace shardkit::format {

absl::StatusOr<PageTable> PageTable::Parse(uint32_t sample_count, const char* presence, std::string_view entries,
                                           uint64_t values_length) {
  PageTable table;
  table.sample_count_ = sample_count;
  table.presence_ = presence;
  table.entries_ = entries;
  if (entries.empty() || entries.size() % kPageEntryBytes != 0) return DataLoss("page table: its length is wrong");
  for (size_t k = 0; k < table.size(); ++k) {
    if (LoadLittle<uint32_t>(entries.data() + kPageEntryBytes * k + 12) != 0) {
      return DataLoss("page table: reserved bytes of page ", k, " are not zero");
    }
    const bool in_order = k == 0 ? table.first(0) == 0 : table.first(k) > table.first(k - 1);
    if (!in_order || table.first(k) >= sample_count) {
      return DataLoss("page table: page ", k, " cannot begin with sample ", table.first(k), " of the block");
    }
    if (table.end(k) < table.begin(k) || table.end(k) > values_length) {
      return DataLoss("page table: page ", k, " ends at ", table.end(k), ", before it begins at ", table.begin(k),
                      " or after the values' ", values_length, " bytes");
    }
  }
  for (size_t k = 0; k < table.size(); ++k) {
    const uint64_t others = kPageChecksumBytes + kPageEndBytes * (table.count(k) - 1);
    const bool may_be_large = table.count(k) == 1 && table.present(table.first(k));
    if (table.length(k) < others || (table.length(k) > kPageBytes && !may_be_large)) {
      return DataLoss("page table: ", table.Describe(k), " cannot have ", table.length(k), " bytes");
    }
  }
  if (table.end(table.size() - 1) != values_length) {
    return DataLoss("page table: the last page ends at ", table.end(table.size() - 1), ", not at the values' ",
                    values_length, " bytes");
  }
  return table;
}

uint64_t PageTable::end(size_t k) const { return LoadLittle<uint64_t>(entries_.data() + kPageEntryBytes * k); }

uint32_t PageTable::first(size_t k) const { return LoadLittle<uint32_t>(entries_.data() + kPageEntryBytes * k + 8); }

size_t PageTable::PageOf(uint32_t sample) const {
  size_t low = 0, high = size();  // the page is one of [low, high)
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (first(middle) <= sample ? low : high) = middle;
  }
  return low;
}

std::string PageTable::Describe(size_t k) const {
  return StrCat("page ", k, " (samples ", first(k), " to ", last(k) - 1, " of the block)");
}

absl::StatusOr<std::string_view> PageTable::ValuesOf(size_t k, std::string_view page) const {
  const uint64_t others = kPageChecksumBytes + kPageEndBytes * (count(k) - 1);
  if (page.size() != length(k) || page.size() < others) return DataLoss("the page is too short for its values' ends");
  return page.substr(0, page.size() - others);
}

absl::StatusOr<std::string_view> PageTable::Value(size_t k, std::string_view page, uint32_t sample) const {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view values, ValuesOf(k, page));
  const char* const ends = page.data() + values.size();
  const uint32_t i = sample - first(k);
  const uint64_t begin = i == 0 ? 0 : LoadLittle<uint16_t>(ends + kPageEndBytes * (i - 1));
  const uint64_t end = i + 1 == count(k) ? values.size() : LoadLittle<uint16_t>(ends + kPageEndBytes * i);
  if (begin > end || end > values.size()) {
    return DataLoss("ends: value of sample ", sample, " of the block ends at ", end,
                    " of its page, before it begins at ", begin, " or after the values' ", values.size(), " bytes");
  }
  return values.substr(begin, end - begin);
}

absl::Status PageTable::Place(size_t k, std::string_view page, uint64_t* begins, uint64_t* ends) const {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view values, ValuesOf(k, page));
  const char* const stored = page.data() + values.size();
  const uint64_t base = begin(k);
  uint64_t previous = 0;
  for (uint32_t i = 0; i < count(k); ++i) {
    const uint64_t end = i + 1 == count(k) ? values.size() : LoadLittle<uint16_t>(stored + kPageEndBytes * i);
    if (end < previous || end > values.size()) [[unlikely]] {
      return DataLoss("ends: value of sample ", first(k) + i, " of the block ends at ", end,
                      " of its page, before it begins at ", previous, " or after the values' ", values.size(),
                      " bytes");
    }
    if (end != previous && !present(first(k) + i)) {
      return DataLoss("sample ", first(k) + i, " of the block: an absent value has ", end - previous, " bytes");
    }
    begins[i] = base + previous;
    ends[i] = base + end;
    previous = end;
  }
  return absl::OkStatus();
}

absl::Status PageTable::CheckFull(size_t k, uint64_t length_of_next) const {
  if (length(k) > kPageBytes || length_of_next > kPageBytes - length(k) ||
      kPageEndBytes > kPageBytes - length(k) - length_of_next) {
    return absl::OkStatus();
  }
  return DataLoss("page table: the value of sample ", last(k), " of the block fits in page ", k,
                  " and lies in the next one");
}

absl::Status CheckPageChecksum(std::string_view page) {
  if (page.size() >= kPageChecksumBytes) {
    const std::string_view body = page.substr(0, page.size() - kPageChecksumBytes);
    if (Hash64(body) == LoadLittle<uint64_t>(page.data() + body.size())) return absl::OkStatus();
  }
  return DataLoss("page checksum is wrong");
}

void AppendPageEntry(uint64_t end, uint32_t first, Buffer* entries) {
  char* const entry = entries->Extend(kPageEntryBytes);
  StoreLittle(entry, end);
  StoreLittle(entry + 8, first);
  StoreLittle<uint32_t>(entry + 12, 0);
}

void PageBuilder::Add(std::string_view value) {
  if (next_ != first_) {
    // With this value, the page has the ends of all values before it.
    const uint64_t length = pages_.size() - page_begin_ + ends_.size() + kPageChecksumBytes;
    if (length > kPageBytes || value.size() > kPageBytes - length) EndPage();
  }
  if (next_ == first_) page_begin_ = pages_.size();
  pages_.Append(value);
  // What passes 16 bits is the end of a page's only value, which is not stored.
  AppendLittle(ends_, static_cast<uint16_t>(pages_.size() - page_begin_));
  ++next_;
}

void PageBuilder::EndPage() {
  if (next_ == first_) return;
  pages_.Append(std::string_view(ends_).substr(0, ends_.size() - kPageEndBytes));
  const uint64_t checksum = Hash64(pages_.data() + page_begin_, pages_.size() - page_begin_);
  StoreLittle(pages_.Extend(kPageChecksumBytes), checksum);
  AppendPageEntry(pages_.size() - base_, first_, &entries_);
  first_ = next_;
  ends_.clear();
}

}  // namespace shardkit::format
