// The pages of a paged column: many small values with one checksum (format-spec/spec.md, section 3.3).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "format/constants.h"
#include "shardkit/schema.h"

namespace shardkit::format {

inline constexpr uint64_t kPageBytes = 65536;    // of a page with more than one value
inline constexpr uint64_t kPageEntryBytes = 16;  // of the page table
inline constexpr uint64_t kPageEndBytes = 2;     // in a page, for each value but the last
inline constexpr uint64_t kPageChecksumBytes = 8;

// Where the pages of a block's column lie in its values chunk, and which samples each has. Borrows the bytes of the
// head chunk and, if they are loaded, those of the values chunk. Thread-safe.
class PageTable {
 public:
  PageTable() = default;

  // `entries` is the head chunk behind the presence. Checks everything that can be checked without the pages: that the
  // pages have samples and bytes, in order, up to the last. DataLoss naming the page.
  static absl::StatusOr<PageTable> Parse(uint32_t sample_count, const char* presence, std::string_view entries,
                                         uint64_t values_length);

  size_t size() const { return entries_.size() / kPageEntryBytes; }

  // Bytes of page `k` from the start of the values chunk.
  uint64_t begin(size_t k) const { return k == 0 ? 0 : end(k - 1); }
  uint64_t end(size_t k) const;
  uint64_t length(size_t k) const { return end(k) - begin(k); }

  // Samples of page `k`, within the block.
  uint32_t first(size_t k) const;
  uint32_t last(size_t k) const { return k + 1 < size() ? first(k + 1) : sample_count_; }  // excluded
  uint32_t count(size_t k) const { return last(k) - first(k); }

  size_t PageOf(uint32_t sample) const;

  const char* presence() const { return presence_; }  // null unless the column is nullable
  bool present(uint32_t sample) const {
    return presence_ == nullptr || ((static_cast<uint8_t>(presence_[sample / 8]) >> (sample % 8)) & 1) != 0;
  }

  // The bytes of the value of `sample`, which lies in page `k`. Checks what it needs of the page, but not its checksum.
  absl::StatusOr<std::string_view> Value(size_t k, std::string_view page, uint32_t sample) const;

  // Writes where each value of page `k` begins and ends, counted from the start of the values chunk. Checks all of the
  // page but its checksum. DataLoss naming the sample.
  absl::Status Place(size_t k, std::string_view page, uint64_t* begins, uint64_t* ends) const;

  // Checks that the first value of page `k` + 1, which has `length` bytes, did not fit in page `k`. For validation: a
  // reader takes pages that are less full.
  absl::Status CheckFull(size_t k, uint64_t length) const;

  // For messages: "page 3 (samples 10 to 20 of the block)".
  std::string Describe(size_t k) const;

 private:
  // The bytes of the values of page `k`, without ends and checksum. DataLoss when the page is too short for these.
  absl::StatusOr<std::string_view> ValuesOf(size_t k, std::string_view page) const;

  uint32_t sample_count_ = 0;
  const char* presence_ = nullptr;
  std::string_view entries_;
};

// Compares the checksum at the end of a page.
absl::Status CheckPageChecksum(std::string_view page);

// Packs the values of a block's column into pages. One thread at a time.
class PageBuilder {
 public:
  // Both get the new bytes at their end: those of the values chunk without its padding, and those of the page table.
  PageBuilder(Buffer* pages, Buffer* entries) : pages_(*pages), entries_(*entries), base_(pages->size()) {}

  // The next sample's value; an absent one has no bytes.
  void Add(std::string_view value);

  // Ends the last page.
  void Finish() { EndPage(); }

 private:
  void EndPage();

  Buffer& pages_;
  Buffer& entries_;
  const size_t base_;      // where the values chunk begins in pages_
  uint32_t first_ = 0;     // sample that the current page begins with
  uint32_t next_ = 0;      // sample to come
  size_t page_begin_ = 0;  // of the current page, in pages_
  std::string ends_;       // of the values of the current page, the last one's included
};

// Appends the entry of a page that holds the samples from `first` on and ends at byte `end` of the values chunk.
void AppendPageEntry(uint64_t end, uint32_t first, Buffer* entries);

}  // namespace shardkit::format
