// Reads a table of checked pages (format-spec/spec.md, section 5.1) in a file of its own or within another.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/paged_table.h"
#include "io/started_read.h"
#include "shardkit/filesystem.h"

namespace shardkit::container {

// A page whose checksum was right. The bytes are valid while this and the table live.
struct TablePage {
  uint64_t number = 0;
  uint64_t first = 0;
  std::string_view bytes;
  std::shared_ptr<const std::string> memory;  // null where the file is mapped
};

// A section of a table. Thread-safe. Errors name the file. DataLoss on damage; of a page, only when it is asked for.
//
// Where the file is mapped, pages are views of it. Call CheckMapped after their bytes were used. Else a page costs one
// read, and the last 256, of 64 KiB each at most, are kept in memory.
class PagedTable {
 public:
  // The sections of a table. Reads the root: one request where its length is known or at most 64 KiB less the tail,
  // else two. Errors call the table `name`.
  static absl::StatusOr<std::vector<std::unique_ptr<PagedTable>>> OpenAll(std::shared_ptr<const RandomAccessFile> file,
                                                                          const format::TablePlace& place,
                                                                          std::string_view name = "table");
  // The section of a table that has one, of this kind.
  static absl::StatusOr<std::unique_ptr<PagedTable>> Open(std::shared_ptr<const RandomAccessFile> file,
                                                          const format::TablePlace& place, format::TableKind kind);

  format::TableKind kind() const { return section_.kind; }
  uint64_t page_count() const { return section_.page_count; }
  // Of all pages.
  uint64_t page_bytes() const { return section_.pages_end - section_.begin; }
  const format::TableTail& tail() const { return tail_; }
  // What the root holds of the section besides the fences.
  std::string_view payload() const { return section_.payload; }
  const std::string& path() const { return file_->path(); }

  // The page to look for `key` in: the last one whose `first` is below or equal to it, but the first of those where
  // more than one begins with `key` itself. 0 where all begin behind it. The table must have pages.
  absl::StatusOr<uint64_t> FindPage(uint64_t key) const;

  // Reads all fences at once, for who will look for many keys.
  absl::Status LoadFences() const;

  // `number` is below page_count(). `keep`: the page stays in memory for further calls, where the file is not mapped.
  absl::StatusOr<TablePage> Page(uint64_t number, bool keep = true) const;

  // Pages that are being read. The table must outlive it.
  struct Reading {
    std::vector<uint64_t> numbers;
    std::vector<format::Fence> fences;
    std::vector<std::string> pages;
    std::optional<io::StartedRead> read;  // last: it writes to the pages until it ends
  };
  // Starts to read the pages where FindPage would look for `keys`, at once: as many as are kept, of those that are not
  // in memory. Null when there is nothing to read.
  absl::StatusOr<std::unique_ptr<Reading>> StartPages(std::span<const uint64_t> keys) const;
  // The same with pages of these numbers.
  absl::StatusOr<std::unique_ptr<Reading>> StartNumbers(std::vector<uint64_t> numbers) const;
  // Waits for them, and keeps those that are right; of the others Page says what is wrong. `reading` may be null.
  absl::Status FinishPages(std::unique_ptr<Reading> reading) const;

  // Checks the table's first bytes, where they stand before the section, and calls `take` with each page in order.
  // Where the file is not mapped, a request brings pages of up to 16 MiB; of a mapped one so many stay in memory. Stops
  // at the first error and returns it.
  absl::Status ForEachPage(const std::function<absl::Status(const TablePage&)>& take) const;

  // Pages [first, end) will be read soon, or will not be read for now: then those of a mapped file need not count as
  // memory of the process. They stay valid. Nothing happens where the file is not mapped.
  void WillNeed(uint64_t first, uint64_t end) const;
  void LetGo(uint64_t first, uint64_t end) const;

  // Reads the whole section: the first bytes of the table, each page and each fence page.
  absl::Status CheckAll() const {
    return ForEachPage([](const TablePage&) { return absl::OkStatus(); });
  }

  static constexpr size_t kKeptPages = 256;

  absl::Status CheckMapped() const { return file_->CheckMapped(); }

  // The DataLoss that says `what` of this table, and what to do about it.
  absl::Status Damage(std::string_view what) const;
  // What each DataLoss of the table then says to do. Before the table is shared.
  void set_remedy(std::string remedy) { remedy_ = std::move(remedy); }

 private:
  PagedTable() = default;
  // Gives the section its file, and what comes of it.
  void Begin(std::shared_ptr<const RandomAccessFile> file, const format::TablePlace& place,
             const format::TableTail& tail, format::TableSection section);
  // Those from `number` to `end`, in one request.
  absl::Status LoadFencePages(uint64_t number, uint64_t end) const;
  absl::StatusOr<std::shared_ptr<const std::vector<format::Fence>>> FencePage(uint64_t number) const;
  absl::StatusOr<std::string> ReadBytes(uint64_t offset, uint64_t length) const;
  // A page before its bytes are read: its fence, and where it ends.
  struct PagePlace {
    format::Fence fence;
    uint64_t end = 0;
  };
  absl::StatusOr<PagePlace> PlaceOf(uint64_t number) const;
  // Where pages [first, end) lie in a mapped file; nowhere in others.
  std::pair<uint64_t, uint64_t> MappedRange(uint64_t first, uint64_t end) const;
  absl::Status WrongChecksum(uint64_t number) const;
  void Keep(const TablePage& page) const;

  std::shared_ptr<const RandomAccessFile> file_;
  format::TablePlace place_;
  format::TableTail tail_;
  format::TableSection section_;
  std::string remedy_;
  mutable std::vector<std::atomic<uint8_t>> checked_;  // pages of a mapped file
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const std::vector<format::Fence>>> fence_pages_;  // null until they are read
  mutable absl::flat_hash_map<uint64_t, TablePage> kept_;                               // of a file that is not mapped
  mutable std::deque<uint64_t> kept_numbers_;                                           // the oldest first
};

}  // namespace shardkit::container
