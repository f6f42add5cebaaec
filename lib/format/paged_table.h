// Tables of checked pages (format-spec/spec.md, section 5.1): what offset index, list of shards and keys have in
// common.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::format {

// What the pages of a section hold. Each kind has its own meaning of `first`.
enum class TableKind : uint32_t { kOffsetIndex = 1, kShardList = 2, kKeys = 3, kRemoved = 4 };

// "offset index", "list of shards", "key table" or "list of removed samples".
std::string_view TableName(TableKind kind);

inline constexpr uint64_t kTableMagicBytes = 8;
inline constexpr uint64_t kTableTailBytes = 64;
inline constexpr uint64_t kSectionHeaderBytes = 32;
inline constexpr uint64_t kFenceBytes = 24;
inline constexpr uint32_t kMostSections = 16;
// A section with more pages has fence pages.
inline constexpr uint64_t kMostRootFences = 4096;
inline constexpr uint64_t kFencesOfPage = 2048;
inline constexpr uint64_t kFencePageBytes = kFencesOfPage * kFenceBytes;
inline constexpr uint64_t kMostPages = kMostRootFences * kFencesOfPage;
// What a page holds unless a single one of its entries is larger. Writers keep to it, readers accept more.
inline constexpr uint64_t kTablePageBytes = 65536;
// Limit of a reader (spec.md, section 10).
inline constexpr uint64_t kMaxTablePayload = uint64_t{64} << 20;

// Tells where a page lies and what is in it, or in the root of a section with fence pages the same of a fence page.
struct Fence {
  uint64_t first = 0;     // smallest key of the page, or of the fence page's first page
  uint64_t offset = 0;    // from the start of the table: of the page, or of the fence page's first page
  uint64_t checksum = 0;  // of the page, or of the fence page

  bool operator==(const Fence&) const = default;
};

// What the root says of a section.
struct TableSection {
  TableKind kind{};
  uint64_t page_count = 0;
  uint64_t begin = 0;      // of the first page, from the start of the table
  uint64_t pages_end = 0;  // and where the fence pages begin, if there are any
  std::vector<Fence> fences;
  std::string payload;

  uint64_t fence_page_count() const {
    return page_count > kMostRootFences ? (page_count + kFencesOfPage - 1) / kFencesOfPage : 0;
  }
  uint64_t end() const { return pages_end + (fence_page_count() > 0 ? kFenceBytes * page_count : 0); }
};

struct TableTail {
  uint32_t section_count = 0;
  uint64_t root_length = 0;
  uint64_t table_length = 0;
  uint64_t root_checksum = 0;
  uint64_t checksum = 0;  // of the tail: no other table of these contents has it

  uint64_t root_offset() const { return table_length - kTableTailBytes - root_length; }
};

// Where a table of checked pages lies.
struct TablePlace {
  uint64_t offset = 0;  // in the file
  uint64_t length = 0;
  uint64_t root = 0;  // bytes of root and tail when known, so that one read brings them; else 0
};

// Sets tail->checksum.
std::string EncodeTableTail(TableTail* tail);
// `bytes` has kTableTailBytes. Checks them alone, and that the table has `table_length` bytes. Unimplemented for
// another major version.
absl::StatusOr<TableTail> DecodeTableTail(std::string_view bytes, uint64_t table_length);

// DataLoss unless sections follow one another from the magic to the root, and each has fences that may be.
absl::StatusOr<std::vector<TableSection>> DecodeTableRoot(const TableTail& tail, std::string_view root);

void AppendFence(const Fence& fence, std::string* out);
Fence LoadFence(const char* from);
// DataLoss unless the fences lie in the order of their offsets from `begin` on, and before `end`, and their keys do not
// descend. `first_number` is that of the first fence, for messages.
absl::Status CheckFences(const std::vector<Fence>& fences, uint64_t begin, uint64_t end, uint64_t first_number);
// `bytes` has kFenceBytes for each.
std::vector<Fence> DecodeFences(std::string_view bytes);

// Writes a table from front to back. One thread at a time. Keeps 24 bytes for each page in memory.
class PagedTableWriter {
 public:
  // `write` gets the table's bytes in order. The first error that it returns is that of the call, and the writer is of
  // no use afterwards.
  explicit PagedTableWriter(std::function<absl::Status(std::string_view)> write) : write_(std::move(write)) {}

  // `page` is not empty, and its length is a multiple of 8. `first` is not below that of the page before in the
  // section. ResourceExhausted beyond kMostPages.
  absl::Status AddPage(uint64_t first, std::string_view page);

  // Makes the pages since the section before one of this kind, which is above that of the section before. `payload` is
  // what the kind wants in the root; its length is a multiple of 8.
  absl::Status EndSection(TableKind kind, std::string_view payload);

  // REQUIRES: there is a section.
  absl::StatusOr<TableTail> Finish();

  uint64_t page_count() const { return fences_.size(); }  // of the section

 private:
  absl::Status Write(std::string_view bytes);

  const std::function<absl::Status(std::string_view)> write_;
  uint64_t length_ = 0;
  std::vector<Fence> fences_;
  std::string root_;
  uint32_t sections_ = 0;
};

}  // namespace shardkit::format
