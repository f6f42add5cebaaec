// Footer sections and trailer (format-spec/spec.md, sections 5 and 6).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_cursor.h"
#include "format/constants.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::format {

enum class SectionKind : uint32_t {
  kBlockDirectory = 1,
  kStatistics = 2,
  kMetadata = 3,
  kKeyIndex = 4,
  kBlockHeaders = 5,
  kBlockRanges = 6,
  kHeader = 7,  // a copy of the shard's header
};

// Later versions may have more.
constexpr bool IsKnownSection(uint32_t kind) { return kind <= static_cast<uint32_t>(SectionKind::kHeader); }

// "block directory"; "unknown" for kinds of later versions.
std::string_view SectionName(uint32_t kind);

struct Section {
  uint32_t kind = 0;
  uint64_t offset = 0;  // from the start of the file
  uint64_t length = 0;  // without padding
  uint64_t checksum = 0;
};

inline constexpr uint64_t kSectionEntryBytes = 32;
inline constexpr uint64_t kTrailerBytes = 104;

struct Trailer {
  uint64_t footer_offset = 0;
  uint64_t footer_length = 0;
  uint32_t section_count = 0;
  uint64_t table_checksum = 0;
  uint64_t sample_count = 0;
  uint64_t block_count = 0;
  ContentHash content_hash{};
  uint64_t file_length = 0;
  uint64_t shard_id = 0;

  uint64_t table_offset() const { return footer_offset + footer_length - kSectionEntryBytes * section_count; }
};

// Section contents, without padding. That of the key index is a key table (format/key_table.h).
std::string EncodeMetadata(const Metadata& metadata);
std::string EncodeStatistics(std::span<const ColumnStatistics> statistics);
std::string EncodeBlockDirectory(std::span<const BlockInfo> blocks);
// Whether all types are known. Otherwise block ranges cannot be read or written: which columns have one is not known.
bool TypesAreKnown(const Schema& schema);
// Whether the ranges of all columns with one can be found: also all codecs are known.
bool RangesCanBeFound(const Schema& schema);
// Appends the ranges of one block. `statistics` are those of its columns.
void AppendBlockRanges(const Schema& schema, std::span<const ColumnStatistics> statistics, std::string* out);

absl::StatusOr<Metadata> DecodeMetadata(std::string_view bytes);
// The same, of bytes that others may follow.
absl::StatusOr<Metadata> ReadMetadata(ByteCursor& cursor);
absl::StatusOr<std::vector<ColumnStatistics>> DecodeStatistics(const Schema& schema, std::string_view bytes);
absl::StatusOr<BlockRanges> DecodeBlockRanges(const Schema& schema, std::span<const BlockInfo> blocks,
                                              std::string_view bytes);
// DataLoss, naming the column, unless the ranges of all blocks together are those of the shard's statistics.
absl::Status CompareBlockRanges(const Schema& schema, const BlockRanges& ranges,
                                std::span<const ColumnStatistics> statistics);
// The ScalarSize(type) bytes at `value` as the 64 bits of an i64, u64 or f64: every number exactly. False for NaN,
// whose kind and bits are set too, and for types without a range.
bool Widen(Type type, const char* value, RangeKind* kind, uint64_t* bits);
// Checks the rules of section 5 against the trailer and the header's length and alignment.
absl::StatusOr<std::vector<BlockInfo>> DecodeBlockDirectory(std::string_view bytes, const Trailer& trailer,
                                                            uint64_t first_block_offset, uint32_t alignment);

// Builds footer and trailer. Sections are added in descending order of kind.
class FooterBuilder {
 public:
  explicit FooterBuilder(uint64_t footer_offset) : footer_offset_(footer_offset) {}
  // Returns where the section begins in the file.
  uint64_t Add(SectionKind kind, std::string_view content);
  // Footer and trailer, to be written at footer_offset. Fills in the fields of `trailer` that describe the footer.
  std::string Finish(Trailer trailer);

 private:
  uint64_t footer_offset_;
  std::string bytes_;
  std::vector<Section> sections_;
};

// `bytes` is the file's last kTrailerBytes; `file_length` its size.
absl::StatusOr<Trailer> DecodeTrailer(std::string_view bytes, uint64_t file_length);

// `bytes` is the section table. Checks offsets, lengths and kinds. Sections of unknown kind that may be ignored stay in
// the list.
absl::StatusOr<std::vector<Section>> DecodeSectionTable(std::string_view bytes, const Trailer& trailer,
                                                        bool has_key_column);

// `bytes` is a section with its padding: checks both.
absl::Status CheckSection(const Section& section, std::string_view bytes);
// The same, of a section that was hashed in pieces. `padding` is what stands behind its length.
absl::Status CheckSection(const Section& section, uint64_t checksum, std::string_view padding);

// Number of bytes of the section with the zero bytes after it.
constexpr uint64_t PaddedLength(const Section& section) { return (section.length + 7) & ~uint64_t{7}; }

}  // namespace shardkit::format
