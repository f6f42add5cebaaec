#include "format/paged_table.h"

#include <algorithm>
#include <utility>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/constants.h"

namespace shardkit::format {

std::string_view TableName(TableKind kind) {
  switch (kind) {
    case TableKind::kOffsetIndex:
      return "offset index";
    case TableKind::kShardList:
      return "list of shards";
    case TableKind::kKeys:
      return "key table";
    case TableKind::kRemoved:
      return "list of removed samples";
  }
  return "table";
}

std::string EncodeTableTail(TableTail* tail) {
  std::string out;
  AppendLittle(out, tail->section_count);
  AppendLittle(out, kMajorVersion);
  AppendLittle(out, kMinorVersion);
  AppendLittle(out, tail->root_length);
  AppendLittle(out, tail->table_length);
  AppendLittle(out, tail->root_checksum);
  out.append(16, '\0');
  tail->checksum = Hash64(out);
  AppendLittle(out, tail->checksum);
  out += kTableTailMagic;
  return out;
}

absl::StatusOr<TableTail> DecodeTableTail(std::string_view bytes, uint64_t table_length) {
  if (bytes.size() != kTableTailBytes || table_length < kTableMagicBytes + kTableTailBytes) {
    return DataLoss("table: has ", table_length, " bytes, too few for one");
  }
  if (bytes.substr(kTableTailBytes - kTableTailMagic.size()) != kTableTailMagic) {
    return DataLoss("table: does not end as one does: it was cut short, or is something else");
  }
  const uint64_t checksum = LoadLittle<uint64_t>(bytes.data() + 48);
  if (checksum != Hash64(bytes.substr(0, 48))) return DataLoss("table: checksum of the tail is wrong");
  const uint16_t major = LoadLittle<uint16_t>(bytes.data() + 4);
  if (major != kMajorVersion) {
    return Unimplemented("table: version ", major, " is not known to this version: read it with a newer one");
  }
  TableTail tail;
  tail.section_count = LoadLittle<uint32_t>(bytes.data());
  tail.root_length = LoadLittle<uint64_t>(bytes.data() + 8);
  tail.table_length = LoadLittle<uint64_t>(bytes.data() + 16);
  tail.root_checksum = LoadLittle<uint64_t>(bytes.data() + 24);
  tail.checksum = checksum;
  if (bytes.substr(32, 16).find_first_not_of('\0') != bytes.npos) {
    return DataLoss("table: reserved bytes of the tail are not zero");
  }
  if (tail.table_length != table_length) {
    return DataLoss("table: table_length is ", tail.table_length, ", but it has ", table_length, " bytes");
  }
  if (tail.section_count == 0 || tail.section_count > kMostSections) {
    return DataLoss("table: a section_count of ", tail.section_count, " cannot be");
  }
  if (tail.root_length % 8 != 0 || tail.root_length > table_length - kTableMagicBytes - kTableTailBytes) {
    return DataLoss("table: a root of ", tail.root_length, " bytes does not fit in ", table_length);
  }
  return tail;
}

absl::StatusOr<std::vector<TableSection>> DecodeTableRoot(const TableTail& tail, std::string_view root) {
  std::vector<TableSection> sections;
  uint64_t begin = kTableMagicBytes;
  ByteCursor cursor(root);
  for (uint32_t i = 0; i < tail.section_count; ++i) {
    TableSection section{.begin = begin};
    uint32_t kind = 0, reserved = 0;
    uint64_t payload = 0;
    const bool read = cursor.Read(&kind) && cursor.Read(&reserved) && cursor.Read(&section.page_count) &&
                      cursor.Read(&section.pages_end) && cursor.Read(&payload);
    section.kind = static_cast<TableKind>(kind);
    const auto wrong = [&](const auto&... what) { return DataLoss("root: section ", i, ": ", what...); };
    if (!read) return wrong("its header does not fit");
    if (reserved != 0) return wrong("reserved bytes are not zero");
    if (i > 0 && section.kind <= sections.back().kind) return wrong("its kind does not follow that of the one before");
    if (section.page_count > kMostPages || payload > kMaxTablePayload || payload % 8 != 0) {
      return wrong("number of pages or length of the payload is over its limit");
    }
    // The pages have 8 bytes at least.
    if (section.pages_end < begin || section.pages_end > tail.root_offset() || section.pages_end % 8 != 0 ||
        (section.pages_end - begin) / 8 < section.page_count ||
        (section.page_count == 0 && section.pages_end > begin) || section.end() > tail.root_offset()) {
      return wrong("its pages do not fit");
    }
    const uint64_t fences = section.fence_page_count() > 0 ? section.fence_page_count() : section.page_count;
    std::string_view bytes, rest;
    if (!cursor.ReadBytes(kFenceBytes * fences, &bytes) || !cursor.ReadBytes(payload, &rest)) {
      return wrong("fences and payload do not fit in the root");
    }
    section.fences = DecodeFences(bytes);
    section.payload = std::string(rest);
    if (absl::Status status = CheckFences(section.fences, begin, section.pages_end, 0); !status.ok()) {
      return wrong(ToStd(status.message()));
    }
    begin = section.end();
    sections.push_back(std::move(section));
  }
  if (begin != tail.root_offset()) return DataLoss("root: its sections end at byte ", begin, ", before the root");
  if (cursor.remaining() > 0) return DataLoss("root: has bytes behind its sections");
  return sections;
}

void AppendFence(const Fence& fence, std::string* out) {
  AppendLittle(*out, fence.first);
  AppendLittle(*out, fence.offset);
  AppendLittle(*out, fence.checksum);
}

Fence LoadFence(const char* from) {
  return {LoadLittle<uint64_t>(from), LoadLittle<uint64_t>(from + 8), LoadLittle<uint64_t>(from + 16)};
}

std::vector<Fence> DecodeFences(std::string_view bytes) {
  std::vector<Fence> fences;
  fences.reserve(bytes.size() / kFenceBytes);
  for (; bytes.size() >= kFenceBytes; bytes.remove_prefix(kFenceBytes)) fences.push_back(LoadFence(bytes.data()));
  return fences;
}

absl::Status CheckFences(const std::vector<Fence>& fences, uint64_t begin, uint64_t end, uint64_t first_number) {
  for (size_t i = 0; i < fences.size(); ++i) {
    const bool in_order = i == 0 ? fences[i].offset == begin
                                 : fences[i].offset > fences[i - 1].offset && fences[i].first >= fences[i - 1].first;
    if (!in_order || fences[i].offset % 8 != 0 || fences[i].offset >= end) {
      return DataLoss("page ", first_number + i, ": its fence does not follow from the one before");
    }
  }
  return absl::OkStatus();
}

absl::Status PagedTableWriter::Write(std::string_view bytes) {
  length_ += bytes.size();
  return write_(bytes);
}

absl::Status PagedTableWriter::AddPage(uint64_t first, std::string_view page) {
  if (page.empty() || page.size() % 8 != 0 || (!fences_.empty() && first < fences_.back().first)) {
    return Internal("a page that no table may have");
  }
  if (fences_.size() == kMostPages) return ResourceExhausted("a table would have more than ", kMostPages, " pages");
  if (length_ == 0) SHARDKIT_RETURN_IF_ERROR(Write(kTableMagic));
  fences_.push_back({first, length_, Hash64(page)});
  return Write(page);
}

absl::Status PagedTableWriter::EndSection(TableKind kind, std::string_view payload) {
  if (payload.size() % 8 != 0 || payload.size() > kMaxTablePayload) {
    return ResourceExhausted(TableName(kind), ": its root would have ", payload.size(), " bytes besides the fences");
  }
  if (length_ == 0) SHARDKIT_RETURN_IF_ERROR(Write(kTableMagic));
  ++sections_;
  AppendLittle(root_, static_cast<uint32_t>(kind));
  AppendLittle(root_, uint32_t{0});
  AppendLittle(root_, uint64_t{fences_.size()});
  AppendLittle(root_, length_);
  AppendLittle(root_, uint64_t{payload.size()});
  if (fences_.size() > kMostRootFences) {
    std::string page;
    for (size_t begin = 0; begin < fences_.size(); begin += kFencesOfPage) {
      page.clear();
      const size_t end = std::min<size_t>(begin + kFencesOfPage, fences_.size());
      for (size_t i = begin; i < end; ++i) AppendFence(fences_[i], &page);
      AppendFence({fences_[begin].first, fences_[begin].offset, Hash64(page)}, &root_);
      SHARDKIT_RETURN_IF_ERROR(Write(page));
    }
  } else {
    for (const Fence& fence : fences_) AppendFence(fence, &root_);
  }
  fences_.clear();
  root_ += payload;
  return absl::OkStatus();
}

absl::StatusOr<TableTail> PagedTableWriter::Finish() {
  TableTail tail{.section_count = sections_, .root_length = root_.size(), .root_checksum = Hash64(root_)};
  SHARDKIT_RETURN_IF_ERROR(Write(root_));
  tail.table_length = length_ + kTableTailBytes;
  SHARDKIT_RETURN_IF_ERROR(Write(EncodeTableTail(&tail)));
  return tail;
}

}  // namespace shardkit::format
