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
  AppendLittle(out, static_cast<uint32_t>(tail->kind));
  AppendLittle(out, kMajorVersion);
  AppendLittle(out, kMinorVersion);
  AppendLittle(out, tail->page_count);
  AppendLittle(out, tail->payload_length);
  AppendLittle(out, tail->table_length);
  AppendLittle(out, tail->root_checksum);
  AppendLittle(out, uint64_t{0});
  tail->checksum = Hash64(out);
  AppendLittle(out, tail->checksum);
  out += kTableTailMagic;
  return out;
}

absl::StatusOr<TableTail> DecodeTableTail(std::string_view bytes, TableKind kind, uint64_t table_length) {
  const std::string_view name = TableName(kind);
  if (bytes.size() != kTableTailBytes || table_length < kTableMagicBytes + kTableTailBytes) {
    return DataLoss(name, ": has ", table_length, " bytes, too few for one");
  }
  if (bytes.substr(kTableTailBytes - kTableTailMagic.size()) != kTableTailMagic) {
    return DataLoss(name, ": does not end as one does: it was cut short, or is something else");
  }
  const uint64_t checksum = LoadLittle<uint64_t>(bytes.data() + 48);
  if (checksum != Hash64(bytes.substr(0, 48))) return DataLoss(name, ": checksum of the tail is wrong");
  const uint16_t major = LoadLittle<uint16_t>(bytes.data() + 4);
  if (major != kMajorVersion) {
    return Unimplemented(name, ": version ", major, " is not known to this version: read it with a newer one");
  }
  if (LoadLittle<uint32_t>(bytes.data()) != static_cast<uint32_t>(kind)) {
    return DataLoss(name, ": the table there is of another kind");
  }
  TableTail tail;
  tail.kind = kind;
  tail.page_count = LoadLittle<uint64_t>(bytes.data() + 8);
  tail.payload_length = LoadLittle<uint64_t>(bytes.data() + 16);
  tail.table_length = LoadLittle<uint64_t>(bytes.data() + 24);
  tail.root_checksum = LoadLittle<uint64_t>(bytes.data() + 32);
  tail.checksum = checksum;
  if (LoadLittle<uint64_t>(bytes.data() + 40) != 0) return DataLoss(name, ": reserved bytes of the tail are not zero");
  if (tail.table_length != table_length) {
    return DataLoss(name, ": should have ", tail.table_length, " bytes, but has ", table_length);
  }
  if (tail.page_count > kMostPages || tail.payload_length > kMaxTablePayload || tail.payload_length % 8 != 0) {
    return DataLoss(name, ": number of pages or length of the root is over its limit");
  }
  // The pages have 8 bytes at least. Nothing overflows: the limits are far below 2^63.
  uint64_t least = kTableMagicBytes + kTableTailBytes + tail.root_length() + 8 * tail.page_count;
  if (tail.fence_page_count() > 0) least += kFenceBytes * tail.page_count;
  if (table_length < least || (tail.page_count == 0 && table_length != least)) {
    return DataLoss(name, ": pages and root do not fit in ", table_length, " bytes");
  }
  return tail;
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
    return Internal(TableName(kind_), ": a page that no table may have");
  }
  if (fences_.size() == kMostPages) {
    return ResourceExhausted(TableName(kind_), ": would have more than ", kMostPages, " pages");
  }
  if (length_ == 0) SHARDKIT_RETURN_IF_ERROR(Write(kTableMagic));
  fences_.push_back({first, length_, Hash64(page)});
  return Write(page);
}

absl::StatusOr<TableTail> PagedTableWriter::Finish(std::string_view payload) {
  if (payload.size() % 8 != 0 || payload.size() > kMaxTablePayload) {
    return ResourceExhausted(TableName(kind_), ": its root would have ", payload.size(), " bytes besides the fences");
  }
  if (length_ == 0) SHARDKIT_RETURN_IF_ERROR(Write(kTableMagic));
  TableTail tail{.kind = kind_, .page_count = fences_.size(), .payload_length = payload.size()};
  std::string root;
  if (tail.fence_page_count() > 0) {
    std::string page;
    for (size_t begin = 0; begin < fences_.size(); begin += kFencesOfPage) {
      page.clear();
      const size_t end = std::min<size_t>(begin + kFencesOfPage, fences_.size());
      for (size_t i = begin; i < end; ++i) AppendFence(fences_[i], &page);
      AppendFence({fences_[begin].first, fences_[begin].offset, Hash64(page)}, &root);
      SHARDKIT_RETURN_IF_ERROR(Write(page));
    }
  } else {
    for (const Fence& fence : fences_) AppendFence(fence, &root);
  }
  root += payload;
  tail.root_checksum = Hash64(root);
  SHARDKIT_RETURN_IF_ERROR(Write(root));
  tail.table_length = length_ + kTableTailBytes;
  SHARDKIT_RETURN_IF_ERROR(Write(EncodeTableTail(&tail)));
  return tail;
}

}  // namespace shardkit::format
