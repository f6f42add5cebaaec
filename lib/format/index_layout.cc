#include "format/index_layout.h"

#include <algorithm>
#include <utility>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "format/chunk.h"
#include "shardkit/schema.h"

namespace shardkit::format {

std::string EncodeIndexRoot(const IndexRoot& root) {
  std::string out;
  AppendLittle(out, root.shard_count);
  AppendLittle(out, root.block_count);
  AppendLittle(out, root.sample_count);
  AppendLittle(out, root.dataset_hash);
  AppendLittle(out, static_cast<uint32_t>(root.layouts.size()));
  AppendLittle(out, uint32_t{0});
  for (const std::vector<std::string_view>& layout : root.layouts) {
    AppendLittle(out, static_cast<uint32_t>(layout.size()));
    for (const std::string_view name : layout) {
      AppendLittle(out, static_cast<uint32_t>(name.size()));
      out += name;
    }
  }
  out.resize(RoundUp(out.size(), 8), '\0');
  return out;
}

absl::StatusOr<IndexRoot> DecodeIndexRoot(std::string_view payload) {
  const auto damaged = [](std::string_view what) { return DataLoss("offset index: root: ", what); };
  IndexRoot root;
  ByteCursor cursor(payload);
  uint32_t layout_count = 0, reserved = 0;
  if (!cursor.Read(&root.shard_count) || !cursor.Read(&root.block_count) || !cursor.Read(&root.sample_count) ||
      !cursor.Read(&root.dataset_hash) || !cursor.Read(&layout_count) || !cursor.Read(&reserved)) {
    return damaged("is cut short");
  }
  if (reserved != 0) return damaged("reserved bytes are not zero");
  for (uint32_t i = 0; i < layout_count; ++i) {
    uint32_t count = 0;
    if (!cursor.Read(&count)) return damaged("lists of columns are cut short");
    if (count > kMaxColumns) return damaged("a list has more columns than a shard may have");
    std::vector<std::string_view>& layout = root.layouts.emplace_back();
    for (uint32_t k = 0; k < count; ++k) {
      uint32_t length = 0;
      std::string_view name;
      if (!cursor.Read(&length) || !cursor.ReadBytes(length, &name)) return damaged("names of columns are cut short");
      layout.push_back(name);
    }
    std::vector<std::string_view> names = layout;
    std::ranges::sort(names);
    if (std::ranges::adjacent_find(names) != names.end()) return damaged("a column occurs twice in a list");
  }
  std::string_view rest;
  if (payload.size() != RoundUp(cursor.position(), 8) || !cursor.ReadBytes(cursor.remaining(), &rest) ||
      !AllZero(rest)) {
    return damaged("bytes after the lists of columns");
  }
  return root;
}

void IndexPageBuilder::Add(const IndexBlock& block, std::span<const uint64_t> places) {
  blocks_.push_back(block);
  blocks_.back().places_begin = places_.size();
  places_.insert(places_.end(), places.begin(), places.end());
}

std::string IndexPageBuilder::Take() {
  std::string out;
  out.reserve(Size(blocks_.size(), places_.size()));
  AppendLittle(out, static_cast<uint32_t>(blocks_.size()));
  AppendLittle(out, uint32_t{0});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const IndexBlock& block = blocks_[i];
    const uint64_t next = i + 1 < blocks_.size() ? blocks_[i + 1].places_begin : places_.size();
    AppendLittle(out, block.offset);
    AppendLittle(out, block.length);
    AppendLittle(out, block.front_length);
    AppendLittle(out, block.first_sample);
    AppendLittle(out, block.sample_count);
    AppendLittle(out, block.shard);
    AppendLittle(out, block.header_checksum);
    AppendLittle(out, block.layout);
    AppendLittle(out, block.reserved);
    AppendLittle(out, next == block.places_begin ? uint64_t{0} : Size(blocks_.size(), block.places_begin));
  }
  out.append(reinterpret_cast<const char*>(places_.data()), 8 * places_.size());
  blocks_.clear();
  places_.clear();
  return out;
}

absl::StatusOr<uint32_t> DecodeIndexPageHead(std::string_view page) {
  if (page.size() < kIndexPageHeadBytes) return DataLoss("is too short");
  const uint32_t count = LoadLittle<uint32_t>(page.data());
  if (count == 0 || LoadLittle<uint32_t>(page.data() + 4) != 0 ||
      count > (page.size() - kIndexPageHeadBytes) / kIndexBlockBytes) {
    return DataLoss("the entries of ", count, " blocks do not fit in its ", page.size(), " bytes");
  }
  return count;
}

IndexBlock LoadIndexBlock(std::string_view page, uint32_t i) {
  const char* const from = page.data() + kIndexPageHeadBytes + kIndexBlockBytes * i;
  IndexBlock block;
  block.offset = LoadLittle<uint64_t>(from);
  block.length = LoadLittle<uint64_t>(from + 8);
  block.front_length = LoadLittle<uint64_t>(from + 16);
  block.first_sample = LoadLittle<uint64_t>(from + 24);
  block.sample_count = LoadLittle<uint32_t>(from + 32);
  block.shard = LoadLittle<uint32_t>(from + 36);
  block.header_checksum = LoadLittle<uint64_t>(from + 40);
  block.layout = LoadLittle<uint32_t>(from + 48);
  block.reserved = LoadLittle<uint32_t>(from + 52);
  block.places_begin = LoadLittle<uint64_t>(from + 56);
  return block;
}

}  // namespace shardkit::format
