// Key tables (format-spec/spec.md, section 5.2): for each key its hash and the ordinal of its sample, in checked pages.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/paged_table.h"

namespace shardkit::format {

inline constexpr uint64_t kKeyEntryBytes = 16;
inline constexpr uint64_t kKeysOfPage = kTablePageBytes / kKeyEntryBytes;

struct KeyEntry {
  uint64_t hash = 0;     // XXH3-64 of the key
  uint64_t ordinal = 0;  // of the sample, in the shard or segment that the table is of

  auto operator<=>(const KeyEntry&) const = default;
};

KeyEntry LoadKeyEntry(const char* from);

// The number of entries. DataLoss unless the payload, and all pages together, have the lengths that belong to it.
absl::StatusOr<uint64_t> DecodeKeyCount(uint64_t page_bytes, std::string_view payload);

// DataLoss unless the page has 1 to kKeysOfPage entries and begins with the hash `first`. Does not look at their order.
absl::Status CheckKeyPage(uint64_t first, std::string_view page);

// Divides entries into pages. The bytes depend on the entries alone. Keeps one page in memory.
// One thread at a time.
class KeyTableWriter {
 public:
  // `add_page` takes the pages, as PagedTableWriter::AddPage.
  explicit KeyTableWriter(std::function<absl::Status(uint64_t first, std::string_view page)> add_page)
      : add_page_(std::move(add_page)) {}

  // Entries must ascend.
  absl::Status Add(const KeyEntry& entry);

  // The payload of the section, after its last page.
  absl::StatusOr<std::string> Finish();

 private:
  absl::Status EndPage(size_t end);

  const std::function<absl::Status(uint64_t first, std::string_view page)> add_page_;
  uint64_t count_ = 0;
  KeyEntry last_;
  std::string page_;
  size_t run_begin_ = 0;  // where the entries begin in the page that have the hash of the last one
};

// The table of keys with these hashes, in the order of their samples.
std::string EncodeKeyTable(const std::vector<uint64_t>& hashes);

}  // namespace shardkit::format
