// Reads a key table (format-spec/spec.md, section 5.2) in a shard or in a segment of a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/read/paged_table_reader.h"
#include "format/key_table.h"

namespace shardkit::container {

// Thread-safe. As with PagedTable, errors name the file, and DataLoss of a page comes when it is asked for.
class KeyTable {
 public:
  // Reads the root. DataLoss unless the table has `count` entries.
  static absl::StatusOr<std::unique_ptr<KeyTable>> Open(std::shared_ptr<const RandomAccessFile> file,
                                                        const format::TablePlace& place, uint64_t count);
  // Of a section that was opened.
  static absl::StatusOr<std::unique_ptr<KeyTable>> Of(std::unique_ptr<PagedTable> pages, uint64_t count);

  uint64_t count() const { return count_; }
  uint64_t page_count() const { return pages_->page_count(); }

  // Calls `visit` with the ordinals of this hash, ascending, until it returns true. Whether a sample has the key is for
  // `visit` to find out. Reads one page, and more only of a hash that fills whole pages.
  absl::Status Find(uint64_t hash, const std::function<absl::StatusOr<bool>(uint64_t ordinal)>& visit) const;

  // A page of entries whose place in the table is right: as many as one may have, and the first is that of its fence.
  // `keep` as in PagedTable::Page.
  absl::StatusOr<TablePage> Page(uint64_t number, bool keep) const;

  // Checksums of all pages, and the first bytes of the table.
  absl::Status CheckAll() const { return pages_->CheckAll(); }

  absl::Status Damage(std::string_view what) const { return pages_->Damage(what); }

 private:
  friend class KeyCursor;
  friend class KeyTableComparison;
  KeyTable() = default;

  std::unique_ptr<PagedTable> pages_;
  uint64_t count_ = 0;
};

// Goes through the entries of a table, which must outlive it, and holds one page. One thread at a time.
class KeyCursor {
 public:
  explicit KeyCursor(const KeyTable& table) : table_(&table) {}

  // False behind the last entry. DataLoss where the entries do not ascend or an ordinal is not below their number.
  absl::StatusOr<bool> Next(format::KeyEntry* entry);

 private:
  const KeyTable* table_;
  TablePage page_;
  size_t position_ = 0;  // in the page
  uint64_t next_page_ = 0;
  uint64_t taken_ = 0;
  format::KeyEntry last_;
};

// Compares a table with the entries that it should have, and with how they are divided into pages. One thread at a
// time.
class KeyTableComparison {
 public:
  explicit KeyTableComparison(const KeyTable& table)
      : table_(table), expected_([this](uint64_t, std::string_view page) { return Compare(page); }) {}
  KeyTableComparison(const KeyTableComparison&) = delete;
  KeyTableComparison& operator=(const KeyTableComparison&) = delete;

  // Entries must ascend. DataLoss at the first difference, which may be found some entries later.
  absl::Status Add(const format::KeyEntry& entry) { return expected_.Add(entry); }

  // Call after the last entry.
  absl::Status Finish();

 private:
  absl::Status Compare(std::string_view page);

  const KeyTable& table_;
  uint64_t next_page_ = 0;
  uint64_t entries_ = 0;  // on the pages before
  format::KeyTableWriter expected_;
};

}  // namespace shardkit::container
