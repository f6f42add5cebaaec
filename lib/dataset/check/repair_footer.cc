#include "dataset/check/repair_footer.h"

#include <algorithm>
#include <utility>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/block_header.h"
#include "format/file_header.h"

namespace shardkit::dataset {
namespace {

// The table of a later version may have more kinds than this one knows.
constexpr uint32_t kMaxSections = 64;

// More copies of block headers than this are not kept in memory.
constexpr uint64_t kMaxHeaderCopies = uint64_t{64} << 20;

// False tables may cost at most this many times the file's length in bytes read.
constexpr uint64_t kFalseTablesShare = 16;

bool IsFooterDamage(const absl::Status& status) { return absl::IsDataLoss(status); }

class FooterReader {
 public:
  FooterReader(const RandomAccessFile& file, const HeaderFinding& header, const format::Trailer& trailer,
               uint64_t shift)
      : file_(file), header_(header), trailer_(trailer) {
    finding_.shift = shift;
  }

  // `exact`: the trailer was read from the file, not made up from the table.
  absl::StatusOr<FooterFinding> Read(bool exact) {
    if (exact) {
      finding_.sample_count = trailer_.sample_count;
      finding_.block_count = trailer_.block_count;
    }
    std::string table(format::kSectionEntryBytes * trailer_.section_count, '\0');
    SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(trailer_.table_offset() + finding_.shift, {table.data(), table.size()}));
    const auto sections = format::DecodeSectionTable(table, trailer_, header_.header.schema.key_column().has_value());
    if (!sections.ok()) {
      if (!IsFooterDamage(sections.status())) return Annotate(sections.status(), file_.path());
      finding_.problems.emplace_back(ToStd(sections.status().message()));
      return std::move(finding_);
    }
    for (const format::Section& section : *sections) SHARDKIT_RETURN_IF_ERROR(Take(section));
    const uint64_t header_length = format::BlockHeaderLength(header_.header.schema.size());
    std::erase_if(finding_.block_headers, [&](const HeaderCopies& copies) {
      return !finding_.directory || copies.bytes.size() != header_length * finding_.directory->size();
    });
    return std::move(finding_);
  }

 private:
  absl::Status Take(const format::Section& section) {
    const bool directory = section.kind == static_cast<uint32_t>(format::SectionKind::kBlockDirectory);
    const bool metadata = section.kind == static_cast<uint32_t>(format::SectionKind::kMetadata);
    const bool headers = section.kind == static_cast<uint32_t>(format::SectionKind::kBlockHeaders);
    if (section.kind == static_cast<uint32_t>(format::SectionKind::kHeader)) return TakeHeader(section);
    if (headers && section.length <= kMaxHeaderCopies) return TakeBlockHeaders(section);
    if (!directory && !metadata) {
      if (!format::IsKnownSection(section.kind)) {
        finding_.notes.push_back(
            StrCat("a section of kind ", section.kind, ", which this version does not know, is left out"));
      }
      return Compare(section);
    }
    if (metadata && section.length > format::kMaxMetadataLength) return Keep(DataLoss("metadata: over 64 MiB"));
    std::string bytes;
    uint64_t begin = 0;
    absl::Status checked;
    SHARDKIT_RETURN_IF_ERROR(ReadSection(section, &bytes, &begin, &checked));
    bytes.resize(section.length);
    if (!checked.ok()) return Keep(checked);
    if (directory) return TakeDirectory(bytes);
    absl::StatusOr<Metadata> decoded = format::DecodeMetadata(bytes);
    if (!decoded.ok()) return Keep(decoded.status());
    finding_.metadata = *std::move(decoded);
    return absl::OkStatus();
  }

  // Each copy has a checksum, which the directory lists.
  absl::Status TakeBlockHeaders(const format::Section& section) {
    absl::Status checked;
    for (const uint64_t shift : {uint64_t{0}, finding_.shift}) {
      HeaderCopies copies{section.offset + shift, std::string(format::PaddedLength(section), '\0')};
      if (!RangeWithin(copies.begin, copies.bytes.size(), file_.size())) continue;
      SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(copies.begin, {copies.bytes.data(), copies.bytes.size()}));
      checked = format::CheckSection(section, copies.bytes);
      copies.bytes.resize(section.length);
      if (checked.ok()) finding_.block_headers.clear();
      finding_.block_headers.push_back(std::move(copies));
      if (checked.ok() || finding_.shift == 0) break;
    }
    if (!checked.ok()) finding_.problems.emplace_back(ToStd(checked.message()));
    return absl::OkStatus();
  }

  // Reads a section, and says in *checked whether it is right. Where bytes were inserted or removed within the footer,
  // those before have not moved.
  absl::Status ReadSection(const format::Section& section, std::string* bytes, uint64_t* begin,
                           absl::Status* checked) const {
    bytes->resize(format::PaddedLength(section));
    for (const uint64_t shift : {uint64_t{0}, finding_.shift}) {
      *begin = section.offset + shift;
      if (!RangeWithin(*begin, bytes->size(), file_.size())) continue;
      SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(*begin, {bytes->data(), bytes->size()}));
      *checked = format::CheckSection(section, *bytes);
      if (checked->ok()) break;
    }
    return absl::OkStatus();
  }

  // The output makes the copy again. Here it tells whose the sections are.
  absl::Status TakeHeader(const format::Section& section) {
    if (section.length > format::kMaxHeaderLength) return Keep(DataLoss("header copy: it is damaged"));
    std::string bytes;
    uint64_t begin = 0;
    absl::Status checked;
    SHARDKIT_RETURN_IF_ERROR(ReadSection(section, &bytes, &begin, &checked));
    const auto copy = format::DecodeFileHeader(std::string_view(bytes).substr(0, section.length));
    if (!copy.ok()) return Keep(DataLoss("header copy: it is damaged"));
    finding_.foreign = copy->shard_id != header_.header.shard_id;
    return absl::OkStatus();
  }

  absl::Status TakeDirectory(std::string_view bytes) {
    constexpr size_t kEntryBytes = 48;
    uint64_t first = RoundUp(header_.header.length, header_.header.alignment);
    if (!header_.certain && bytes.size() >= kEntryBytes) first = LoadLittle<uint64_t>(bytes.data());
    absl::Status problem;
    // If the header is not certain, takes the largest alignment that fits the block offsets in the directory.
    for (uint32_t alignment = header_.certain ? header_.header.alignment : format::kMaxAlignment;
         alignment >= format::kMinAlignment; alignment /= 2) {
      auto blocks = format::DecodeBlockDirectory(bytes, trailer_, first, alignment);
      if (blocks.ok() && (blocks->empty() || first % alignment == 0)) {
        finding_.directory = *std::move(blocks);
        finding_.alignment = alignment;
        finding_.sample_count = trailer_.sample_count;
        finding_.block_count = trailer_.block_count;
        return absl::OkStatus();
      }
      problem = blocks.status();
      if (header_.certain) break;
    }
    return Keep(problem.ok() ? DataLoss("block directory: its blocks fit no alignment") : problem);
  }

  // For a section that the output makes again: only checks whether it was whole.
  absl::Status Compare(const format::Section& section) {
    StreamingHash hash;
    std::string piece;
    const uint64_t length = format::PaddedLength(section);
    for (uint64_t done = 0; done < length; done += piece.size()) {
      piece.resize(std::min(kCopyPiece, length - done));
      SHARDKIT_RETURN_IF_ERROR(file_.ReadAt(section.offset + finding_.shift + done, {piece.data(), piece.size()}));
      hash.Update(piece);
    }
    if (hash.Digest() == section.checksum) return absl::OkStatus();
    return Keep(DataLoss(format::SectionName(section.kind), " section checksum is wrong"));
  }

  absl::Status Keep(const absl::Status& damage) {
    finding_.problems.emplace_back(ToStd(damage.message()));
    return absl::OkStatus();
  }

  const RandomAccessFile& file_;
  const HeaderFinding& header_;
  const format::Trailer trailer_;
  FooterFinding finding_;
};

// Reads section entries at `place` of the file. Their sections must lie one after another and end where the entries
// begin. Bytes that are not a table do not do this by accident.
absl::StatusOr<std::optional<format::Trailer>> TryTable(const RandomAccessFile& file, uint64_t shift, uint64_t place) {
  std::string bytes(std::min(file.size() - place, kMaxSections * format::kSectionEntryBytes), '\0');
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place, {bytes.data(), bytes.size()}));
  const uint64_t table = place - shift;
  format::Trailer trailer;
  trailer.footer_offset = LoadLittle<uint64_t>(bytes.data() + 8);
  uint64_t position = trailer.footer_offset;
  uint32_t count = 0;
  format::Section section;
  do {
    if (bytes.size() < format::kSectionEntryBytes * (count + 1)) return std::optional<format::Trailer>();
    const char* const p = bytes.data() + format::kSectionEntryBytes * count;
    section.kind = LoadLittle<uint32_t>(p);
    section.offset = LoadLittle<uint64_t>(p + 8);
    section.length = LoadLittle<uint64_t>(p + 16);
    if (section.offset != position || section.length > table - position) return std::optional<format::Trailer>();
    position += format::PaddedLength(section);
    ++count;
  } while (section.kind != static_cast<uint32_t>(format::SectionKind::kBlockDirectory));  // which is the last
  if (position != table) return std::optional<format::Trailer>();
  trailer.section_count = count;
  trailer.footer_length = table + format::kSectionEntryBytes * count - trailer.footer_offset;
  trailer.table_checksum = Hash64(bytes.data(), format::kSectionEntryBytes * count);
  trailer.block_count = section.length / 48;
  if (trailer.block_count != 0) {
    std::string last(48, '\0');
    SHARDKIT_RETURN_IF_ERROR(
        file.ReadAt(shift + section.offset + 48 * (trailer.block_count - 1), {last.data(), last.size()}));
    trailer.sample_count = LoadLittle<uint64_t>(last.data() + 24) + LoadLittle<uint32_t>(last.data() + 32);
    if (trailer.sample_count > format::kMaxShardSamples) return std::optional<format::Trailer>();
  }
  return trailer;
}

}  // namespace

absl::StatusOr<FooterFinding> ReadFooter(const RandomAccessFile& file, const HeaderFinding& header,
                                         const EndOfShard& end) {
  return FooterReader(file, header, end.trailer, end.shift).Read(/*exact=*/true);
}

absl::StatusOr<std::optional<FooterFinding>> SearchFooter(const RandomAccessFile& file, const HeaderFinding& header,
                                                          uint64_t begin, uint64_t end,
                                                          const Cancellation* cancellation) {
  std::optional<FooterFinding> last;
  std::string window;
  uint64_t window_begin = 0, tried = 0;
  constexpr uint64_t kTwoEntries = 2 * format::kSectionEntryBytes;  // every table has more
  for (uint64_t place = header.base + RoundUp(begin - header.base, 8); place + kTwoEntries <= end; place += 8) {
    if (place + kTwoEntries > window_begin + window.size()) {
      if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("looking for a section table"));
      window_begin = place;
      window.resize(std::min(kCopyPiece, end - place));
      SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place, {window.data(), window.size()}));
    }
    const char* const p = window.data() + (place - window_begin);
    const uint64_t offset = LoadLittle<uint64_t>(p + 8), length = LoadLittle<uint64_t>(p + 16);
    const char* const second = p + format::kSectionEntryBytes;
    if (LoadLittle<uint32_t>(p) <= LoadLittle<uint32_t>(second) || LoadLittle<uint32_t>(p + 4) > 1 ||
        LoadLittle<uint32_t>(second + 4) > 1 || offset == 0 || offset % format::kMinAlignment != 0 || offset > place ||
        length > place || LoadLittle<uint64_t>(second + 8) != offset + RoundUp(length, 8)) {
      continue;
    }
    // Removed bytes may have balanced bytes inserted at the front: then the shift is 0.
    for (const uint64_t shift : {header.base, uint64_t{0}}) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto trailer, TryTable(file, shift, place));
      if (!trailer) continue;
      tried += trailer->footer_length;
      if (tried > kFalseTablesShare * file.size()) return last;
      absl::StatusOr<FooterFinding> finding = FooterReader(file, header, *trailer, shift).Read(/*exact=*/false);
      // Nothing proves the table, so an unknown section kind may be damage and not a later version.
      if (absl::IsUnimplemented(finding.status())) continue;
      if (!finding.ok()) return finding.status();
      if ((finding->directory || finding->metadata) && !finding->foreign) last = *std::move(finding);
    }
  }
  return last;
}

}  // namespace shardkit::dataset
