#include "format/footer.h"

#include <algorithm>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace shardkit::format {
namespace {

constexpr uint32_t kIgnorableFlag = 1;

// Readers can do without these, so that another implementation may leave them out and a smaller one need not know them.
uint32_t FlagsOf(uint32_t kind) {
  return kind >= static_cast<uint32_t>(SectionKind::kBlockHeaders) ? kIgnorableFlag : 0;
}

}  // namespace

std::string_view SectionName(uint32_t kind) {
  switch (static_cast<SectionKind>(kind)) {
    case SectionKind::kBlockDirectory:
      return "block directory";
    case SectionKind::kStatistics:
      return "statistics";
    case SectionKind::kMetadata:
      return "metadata";
    case SectionKind::kKeyIndex:
      return "key index";
    case SectionKind::kBlockHeaders:
      return "block headers";
    case SectionKind::kBlockRanges:
      return "block ranges";
    case SectionKind::kHeader:
      return "header copy";
  }
  return "unknown";
}

uint64_t FooterBuilder::Add(SectionKind kind, std::string_view content) {
  Section section;
  section.kind = static_cast<uint32_t>(kind);
  section.offset = footer_offset_ + bytes_.size();
  section.length = content.size();
  const size_t begin = bytes_.size();
  bytes_ += content;
  bytes_.resize(RoundUp(bytes_.size(), 8), '\0');
  section.checksum = Hash64(std::string_view(bytes_).substr(begin));
  sections_.push_back(section);
  return section.offset;
}

std::string FooterBuilder::Finish(Trailer trailer) {
  const size_t table = bytes_.size();
  for (const Section& section : sections_) {
    AppendLittle(bytes_, section.kind);
    AppendLittle(bytes_, FlagsOf(section.kind));
    AppendLittle(bytes_, section.offset);
    AppendLittle(bytes_, section.length);
    AppendLittle(bytes_, section.checksum);
  }
  trailer.footer_offset = footer_offset_;
  trailer.footer_length = bytes_.size();
  trailer.section_count = static_cast<uint32_t>(sections_.size());
  trailer.table_checksum = Hash64(std::string_view(bytes_).substr(table));
  trailer.file_length = footer_offset_ + bytes_.size() + kTrailerBytes;

  const size_t begin = bytes_.size();
  AppendLittle(bytes_, trailer.footer_offset);
  AppendLittle(bytes_, trailer.footer_length);
  AppendLittle(bytes_, trailer.section_count);
  AppendLittle<uint32_t>(bytes_, 0);
  AppendLittle(bytes_, trailer.table_checksum);
  AppendLittle(bytes_, trailer.sample_count);
  AppendLittle(bytes_, trailer.block_count);
  AppendLittle(bytes_, trailer.content_hash);
  AppendLittle(bytes_, trailer.file_length);
  AppendLittle(bytes_, trailer.shard_id);
  AppendLittle<uint64_t>(bytes_, 0);
  AppendLittle(bytes_, Hash64(std::string_view(bytes_).substr(begin)));
  bytes_ += kTrailerMagic;
  return std::move(bytes_);
}

absl::StatusOr<Trailer> DecodeTrailer(std::string_view bytes, uint64_t file_length) {
  if (bytes.size() != kTrailerBytes) return DataLoss("trailer: the file is too short to be a shard");
  const char* const p = bytes.data();
  if (bytes.substr(96) != kTrailerMagic) {
    return DataLoss("trailer magic is missing: the shard was cut short or never finished");
  }
  if (Hash64(bytes.substr(0, 88)) != LoadLittle<uint64_t>(p + 88)) return DataLoss("trailer checksum is wrong");
  Trailer trailer;
  trailer.footer_offset = LoadLittle<uint64_t>(p);
  trailer.footer_length = LoadLittle<uint64_t>(p + 8);
  trailer.section_count = LoadLittle<uint32_t>(p + 16);
  trailer.table_checksum = LoadLittle<uint64_t>(p + 24);
  trailer.sample_count = LoadLittle<uint64_t>(p + 32);
  trailer.block_count = LoadLittle<uint64_t>(p + 40);
  trailer.content_hash = LoadLittle<ContentHash>(p + 48);
  trailer.file_length = LoadLittle<uint64_t>(p + 64);
  trailer.shard_id = LoadLittle<uint64_t>(p + 72);
  if (LoadLittle<uint32_t>(p + 20) != 0 || LoadLittle<uint64_t>(p + 80) != 0) {
    return DataLoss("trailer: reserved bytes are not zero");
  }
  if (trailer.file_length != file_length) {
    return DataLoss("trailer: file length is ", trailer.file_length, " there but the file has ", file_length, " bytes");
  }
  if (trailer.footer_length > kMaxFooterLength || trailer.footer_length > file_length - kTrailerBytes ||
      trailer.footer_offset != file_length - kTrailerBytes - trailer.footer_length ||
      trailer.section_count > trailer.footer_length / kSectionEntryBytes) {
    return DataLoss("trailer: footer offset or length does not fit the file");
  }
  if (trailer.sample_count > kMaxShardSamples) return DataLoss("trailer: sample count passes 2^32 - 1");
  return trailer;
}

absl::StatusOr<std::vector<Section>> DecodeSectionTable(std::string_view bytes, const Trailer& trailer,
                                                        bool has_key_column) {
  if (Hash64(bytes) != trailer.table_checksum) return DataLoss("section table checksum is wrong");
  std::vector<Section> sections;
  uint64_t position = trailer.footer_offset;
  uint64_t previous_kind = uint64_t{1} << 32;
  for (uint32_t i = 0; i < trailer.section_count; ++i) {
    const char* const p = bytes.data() + kSectionEntryBytes * i;
    Section section;
    section.kind = LoadLittle<uint32_t>(p);
    const uint32_t flags = LoadLittle<uint32_t>(p + 4);
    section.offset = LoadLittle<uint64_t>(p + 8);
    section.length = LoadLittle<uint64_t>(p + 16);
    section.checksum = LoadLittle<uint64_t>(p + 24);
    if ((flags & ~kIgnorableFlag) != 0) return DataLoss("section table: entry ", i, " has reserved flag bits set");
    if (section.kind >= previous_kind) return DataLoss("section table: kinds do not descend at entry ", i);
    if (section.kind == 0) return DataLoss("section table: entry ", i, " has kind 0, which is never given");
    previous_kind = section.kind;
    if (section.offset != position || !RangeWithin(section.offset, section.length, trailer.table_offset()) ||
        section.offset + PaddedLength(section) > trailer.table_offset()) {
      return DataLoss("section table: offset or length of entry ", i, " (", SectionName(section.kind), ") is wrong");
    }
    position += PaddedLength(section);
    if (IsKnownSection(section.kind)) {
      if (flags != FlagsOf(section.kind)) {
        return DataLoss("section table: entry ", i, " (", SectionName(section.kind), ") has wrong flags");
      }
    } else if ((flags & kIgnorableFlag) == 0) {
      return Unimplemented("section table: unknown section kind ", section.kind,
                           ", which may not be ignored; a newer version of Shardkit may read it");
    }
    sections.push_back(section);
  }
  if (position != trailer.table_offset()) return DataLoss("section table: the sections do not fill the footer");
  const auto has = [&](SectionKind kind) {
    return std::ranges::count(sections, static_cast<uint32_t>(kind), &Section::kind) == 1;
  };
  if (!has(SectionKind::kMetadata) || !has(SectionKind::kStatistics) || !has(SectionKind::kBlockDirectory) ||
      has(SectionKind::kKeyIndex) != has_key_column) {
    return DataLoss("section table: a section is missing, or there is a key index without a key column");
  }
  return sections;
}

absl::Status CheckSection(const Section& section, uint64_t checksum, std::string_view padding) {
  if (checksum != section.checksum) return DataLoss(SectionName(section.kind), " section checksum is wrong");
  if (padding.find_first_not_of('\0') != padding.npos) {
    return DataLoss(SectionName(section.kind), " section: padding is not zero");
  }
  return absl::OkStatus();
}

absl::Status CheckSection(const Section& section, std::string_view bytes) {
  return CheckSection(section, Hash64(bytes), bytes.substr(section.length));
}

std::string EncodeBlockDirectory(std::span<const BlockInfo> blocks) {
  std::string out;
  for (const BlockInfo& block : blocks) {
    AppendLittle(out, block.offset);
    AppendLittle(out, block.length);
    AppendLittle(out, block.front_length);
    AppendLittle(out, block.first_sample);
    AppendLittle(out, block.sample_count);
    AppendLittle<uint32_t>(out, 0);
    AppendLittle(out, block.header_checksum);
  }
  return out;
}

absl::StatusOr<std::vector<BlockInfo>> DecodeBlockDirectory(std::string_view bytes, const Trailer& trailer,
                                                            uint64_t first_block_offset, uint32_t alignment) {
  constexpr size_t kEntryBytes = 48;
  if (bytes.size() % kEntryBytes != 0 || bytes.size() / kEntryBytes != trailer.block_count) {
    return DataLoss("block directory: its length does not fit the trailer's ", trailer.block_count, " blocks");
  }
  std::vector<BlockInfo> blocks(trailer.block_count);
  uint64_t offset = first_block_offset, sample = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const char* const p = bytes.data() + kEntryBytes * i;
    BlockInfo& block = blocks[i];
    block.offset = LoadLittle<uint64_t>(p);
    block.length = LoadLittle<uint64_t>(p + 8);
    block.front_length = LoadLittle<uint64_t>(p + 16);
    block.first_sample = LoadLittle<uint64_t>(p + 24);
    block.sample_count = LoadLittle<uint32_t>(p + 32);
    block.header_checksum = LoadLittle<uint64_t>(p + 40);
    if (LoadLittle<uint32_t>(p + 36) != 0)
      return DataLoss("block directory: reserved bytes of block ", i, " are not zero");
    if (block.offset != offset || !RangeWithin(block.offset, block.length, trailer.footer_offset) ||
        block.front_length > block.length || block.front_length % kChunkAlignment != 0 ||
        block.length % kChunkAlignment != 0 || block.length == 0) {
      return DataLoss("block directory: offset or length of block ", i, " is wrong");
    }
    if (block.first_sample != sample || block.sample_count == 0 || block.sample_count > kMaxBlockSamples) {
      return DataLoss("block directory: first sample or sample count of block ", i, " is wrong");
    }
    sample += block.sample_count;
    offset = RoundUp(block.offset + block.length, alignment);
  }
  if (sample != trailer.sample_count) {
    return DataLoss("block directory: ", sample, " samples, but the trailer says ", trailer.sample_count);
  }
  if (offset != trailer.footer_offset)
    return DataLoss("block directory: the blocks do not end where the footer begins");
  return blocks;
}

std::string EncodeMetadata(const Metadata& metadata) {
  std::string out;
  AppendLittle(out, static_cast<uint32_t>(metadata.size()));
  for (const auto& [name, value] : metadata) {
    AppendLittle(out, static_cast<uint32_t>(name.size()));
    out += name;
    AppendLittle(out, static_cast<uint32_t>(value.size()));
    out += value;
  }
  return out;
}

absl::StatusOr<Metadata> ReadMetadata(ByteCursor& cursor) {
  uint32_t count;
  if (!cursor.Read(&count)) return DataLoss("metadata: cut short");
  Metadata metadata;
  std::string_view previous;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t name_length, value_length;
    std::string_view name, value;
    if (!cursor.Read(&name_length) || !cursor.ReadBytes(name_length, &name) || !cursor.Read(&value_length) ||
        !cursor.ReadBytes(value_length, &value)) {
      return DataLoss("metadata: entry ", i, " is cut short");
    }
    if (i > 0 && name <= previous) return DataLoss("metadata: names do not ascend at entry ", i);
    if (!ValidUtf8(name) || !ValidUtf8(value)) return DataLoss("metadata: entry ", i, " is not valid UTF-8");
    if (!CheckName(name, "").ok()) return DataLoss("metadata: the name of entry ", i, " has a NUL or a line feed");
    previous = name;
    metadata.emplace_hint(metadata.end(), std::string(name), std::string(value));
  }
  return metadata;
}

absl::StatusOr<Metadata> DecodeMetadata(std::string_view bytes) {
  if (bytes.size() > kMaxMetadataLength) return DataLoss("metadata: over 64 MiB");
  ByteCursor cursor(bytes);
  SHARDKIT_ASSIGN_OR_RETURN(Metadata metadata, ReadMetadata(cursor));
  if (cursor.remaining() != 0) return DataLoss("metadata: bytes too many after the last entry");
  return metadata;
}

}  // namespace shardkit::format
