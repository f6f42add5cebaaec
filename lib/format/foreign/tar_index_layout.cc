#include "format/foreign/tar_index_layout.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "format/chunk.h"
#include "format/constants.h"
#include "format/key_table.h"
#include "shardkit/schema.h"

namespace shardkit::format {
namespace {

constexpr std::string_view kMagic{"\x89TIX\r\n\x1a\n", 8};
constexpr uint16_t kMajor = 1;
constexpr uint16_t kMinor = 0;
constexpr uint64_t kReservedOffset = 96;
constexpr uint64_t kReservedBytes = 24;

struct Header {
  uint64_t columns = 0;
  uint64_t tar_length = 0;
  uint64_t identity = 0;
  uint64_t blocks = 0;
  uint64_t pages_offset = 0;
  uint64_t front_checksum = 0;
  TarBlock end;  // what follows the last block
};

absl::StatusOr<Header> DecodeHeader(std::string_view bytes, uint64_t file_length) {
  if (bytes.size() < kTarIndexHeaderBytes || bytes.substr(0, 8) != kMagic) {
    return DataLoss("magic is wrong or the file is too short: this is no index of a tar");
  }
  const char* const p = bytes.data();
  if (Hash64(bytes.substr(0, kTarIndexHeaderBytes - 8)) != LoadLittle<uint64_t>(p + kTarIndexHeaderBytes - 8)) {
    return DataLoss("header checksum is wrong");
  }
  if (LoadLittle<uint16_t>(p + 8) != kMajor) {
    return Unimplemented("version ", LoadLittle<uint16_t>(p + 8), " is not supported (this version reads ", kMajor,
                         ")");
  }
  Header header;
  header.columns = LoadLittle<uint32_t>(p + 12);
  header.tar_length = LoadLittle<uint64_t>(p + 16);
  header.identity = LoadLittle<uint64_t>(p + 24);
  header.end.first_sample = LoadLittle<uint64_t>(p + 32);
  header.end.first_value = LoadLittle<uint64_t>(p + 40);
  header.blocks = LoadLittle<uint64_t>(p + 48);
  header.end.offset = LoadLittle<uint64_t>(p + 56);
  header.pages_offset = LoadLittle<uint64_t>(p + 64);
  header.end.page_offset = LoadLittle<uint64_t>(p + 72);
  header.front_checksum = LoadLittle<uint64_t>(p + 88);
  if (LoadLittle<uint64_t>(p + 80) != file_length) {
    return DataLoss("file length is ", LoadLittle<uint64_t>(p + 80), " there but the file has ", file_length, " bytes");
  }
  if (!AllZero(bytes.substr(kReservedOffset, kReservedBytes))) return DataLoss("reserved bytes are not zero");
  const TarBlock& end = header.end;
  if (header.columns >= kMaxColumns || end.first_value > kMaxTarValues || end.first_sample > end.first_value ||
      header.blocks > end.first_sample || header.tar_length > kMaxLength || end.offset > header.tar_length) {
    return DataLoss("a count is above its limit");
  }
  // The limits above keep the sums from overflowing.
  const uint64_t directory = kTarIndexHeaderBytes + kTarPageEntryBytes * header.blocks;
  if (header.pages_offset < directory + 2 * header.columns ||
      header.pages_offset > directory + (1 + kMaxColumnNameBytes) * header.columns ||
      end.page_offset < header.pages_offset || end.page_offset > file_length) {
    return DataLoss("its parts do not lie one after the other");
  }
  return header;
}

absl::Status DecodeNames(ByteCursor& cursor, uint64_t columns, TarIndex* index) {
  std::unordered_set<std::string> seen = {"key"};
  for (uint64_t i = 0; i < columns; ++i) {
    uint8_t length = 0;
    std::string_view name;
    if (!cursor.Read(&length) || !cursor.ReadBytes(length, &name)) return DataLoss("the columns are cut off");
    if (name.empty() || !ValidUtf8(name)) return DataLoss("column ", i, ": its name is empty or not UTF-8");
    if (!seen.insert(std::string(name)).second) return DataLoss("column ", i, ": its name stands twice");
    index->columns.emplace_back(name);
  }
  return absl::OkStatus();
}

// Bytes of the keys of a page: what its other parts leave. The page must be long enough for these.
uint64_t KeysLength(const TarBlock& block, const TarBlock& next) {
  return next.page_offset - block.page_offset - kTarPageValueBytes * (next.first_value - block.first_value) -
         kTarPageSampleBytes * (next.first_sample - block.first_sample);
}

// Whether a block can be what its entry and the next one say, so that its page has a length worth reading.
bool IsBlock(const TarBlock& block, const TarBlock& next, uint64_t columns) {
  if (next.first_sample <= block.first_sample || next.first_value < block.first_value ||
      next.page_offset < block.page_offset || next.offset < block.offset || block.offset % kTarBlockBytes != 0) {
    return false;
  }
  const uint64_t samples = next.first_sample - block.first_sample, values = next.first_value - block.first_value;
  const uint64_t span = next.offset - block.offset, length = next.page_offset - block.page_offset;
  // A value is followed by the header of the next one.
  if (values < samples || values - 1 > span / kTarBlockBytes) return false;
  if (length < kTarPageValueBytes * values + (kTarPageSampleBytes + 1) * samples) return false;
  const uint64_t keys = KeysLength(block, next);
  if (samples == 1) return values <= columns && keys <= kMaxTarKeyBytes;
  return span <= kMaxTarPageSpan && samples * (columns + 1) <= kMaxTarPagePlaces && keys <= kMaxTarPageKeys;
}

absl::Status DecodeDirectory(std::string_view directory, const Header& header, TarIndex* index) {
  std::vector<TarBlock>& blocks = index->blocks;
  blocks.reserve(header.blocks + 1);
  for (; !directory.empty(); directory.remove_prefix(kTarPageEntryBytes)) {
    const char* const p = directory.data();
    blocks.push_back({LoadLittle<uint64_t>(p), LoadLittle<uint64_t>(p + 8), LoadLittle<uint64_t>(p + 16),
                      LoadLittle<uint64_t>(p + 24), LoadLittle<uint64_t>(p + 32)});
  }
  blocks.push_back(header.end);
  const TarBlock& first = blocks.front();
  // Where there are samples, the first one has a header before it.
  const bool begins = header.blocks == 0 ? header.columns == 0 && first.offset == 0 : first.offset >= kTarBlockBytes;
  if (first.page_offset != header.pages_offset || first.first_sample != 0 || first.first_value != 0 || !begins) {
    return DataLoss("its pages do not begin with the first sample");
  }
  for (size_t i = 0; i < header.blocks; ++i) {
    if (!IsBlock(blocks[i], blocks[i + 1], header.columns)) {
      return DataLoss("page ", i, ": what the directory says of it cannot be");
    }
  }
  return absl::OkStatus();
}

// `page` has all values of the block. `last` tells that no other block follows.
absl::Status DecodeValues(const TarIndex& index, const TarBlock& block, const TarBlock& next, bool last,
                          const char* page, TarSamples* samples) {
  const uint64_t count = next.first_value - block.first_value;
  samples->values.reserve(count);
  samples->checksums.reserve(count);
  uint64_t least = block.offset;  // earliest place of the next value
  for (uint64_t i = 0; i < count; ++i) {
    const char* const p = page + kTarPageValueBytes * i;
    const TarValue value{LoadLittle<uint64_t>(p), LoadLittle<uint64_t>(p + 8), LoadLittle<uint32_t>(p + 24)};
    if (value.offset % kTarBlockBytes != 0 || value.offset < least || (i == 0 && value.offset != least) ||
        !RangeWithin(value.offset, value.length, next.offset)) {
      return DataLoss("value ", i, ": bytes ", value.offset, " and ", value.length,
                      " after it are no place for it in a block that ends at ", next.offset);
    }
    if (value.column >= index.columns.size() || LoadLittle<uint32_t>(p + 28) != 0) {
      return DataLoss("value ", i, ": there is no such column");
    }
    least = RoundUp(value.offset + value.length, kTarBlockBytes) + kTarBlockBytes;
    samples->values.push_back(value);
    samples->checksums.push_back(LoadLittle<uint64_t>(p + 16));
  }
  const TarValue& end = samples->values.back();
  if (last ? end.offset + end.length != next.offset : least > next.offset) {
    return DataLoss("its values do not end where the next block begins");
  }
  return absl::OkStatus();
}

absl::Status DecodeSamples(uint64_t count, uint64_t columns, const char* page, TarSamples* samples) {
  samples->key_ends.reserve(count + 1);
  samples->value_ends.reserve(count + 1);
  std::vector<uint64_t> used(columns);  // per column: the last sample that has it, counted from 1
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t key = samples->key_ends.back(), value = samples->value_ends.back();
    const uint64_t key_end = LoadLittle<uint32_t>(page + kTarPageSampleBytes * i);
    const uint64_t value_end = LoadLittle<uint32_t>(page + kTarPageSampleBytes * i + 4);
    if (key_end <= key || key_end > samples->keys.size() || key_end - key > kMaxTarKeyBytes || value_end <= value ||
        value_end > samples->values.size()) {
      return DataLoss("sample ", i, ": its key or its values do not follow those before it");
    }
    for (uint64_t k = value; k < value_end; ++k) {
      if (std::exchange(used[samples->values[k].column], i + 1) == i + 1) {
        return DataLoss("sample ", i, ": has a column twice");
      }
    }
    samples->key_ends.push_back(key_end);
    samples->value_ends.push_back(value_end);
    if (!ValidUtf8(samples->key(i))) return DataLoss("sample ", i, ": its key is not UTF-8");
    if (i > 0 && samples->key(i) == samples->key(i - 1)) {
      return DataLoss("sample ", i, ": has the key of the one before it");
    }
  }
  if (samples->key_ends.back() != samples->keys.size() || samples->value_ends.back() != samples->values.size()) {
    return DataLoss("keys or values are left over");
  }
  return absl::OkStatus();
}

std::string EncodePage(const TarIndex& index, const TarBlock& block, const TarBlock& next) {
  std::string page;
  for (uint64_t i = block.first_value; i < next.first_value; ++i) {
    AppendLittle(page, index.values[i].offset);
    AppendLittle(page, index.values[i].length);
    AppendLittle(page, index.checksums[i]);
    AppendLittle(page, index.values[i].column);
    AppendLittle<uint32_t>(page, 0);
  }
  const uint64_t keys = index.key_ends[block.first_sample];
  for (uint64_t i = block.first_sample; i < next.first_sample; ++i) {
    AppendLittle(page, static_cast<uint32_t>(index.key_ends[i + 1] - keys));
    AppendLittle(page, static_cast<uint32_t>(index.value_ends[i + 1] - block.first_value));
  }
  page.append(index.keys, keys, index.key_ends[next.first_sample] - keys);
  return page;
}

}  // namespace

uint64_t TarSamples::memory() const {
  return keys.capacity() + 8 * (key_ends.capacity() + value_ends.capacity() + checksums.capacity()) +
         sizeof(TarValue) * values.capacity();
}

uint64_t TarIdentity(std::string_view first, std::string_view last) {
  StreamingHash64 hash;
  hash.Update(first);
  hash.Update(last);
  return hash.Digest();
}

std::vector<TarBlock> FormTarBlocks(const TarIndex& index) {
  const uint64_t count = index.sample_count();
  const uint64_t most_samples = std::max<uint64_t>(kMaxTarPagePlaces / (index.columns.size() + 1), 1);
  // The value of a link lies where an earlier member is: a sample that begins with one is placed behind those before
  // it.
  std::vector<uint64_t> places(count + 1);
  for (uint64_t i = 0, end = 0; i < count; ++i) {
    places[i] = std::max(end, index.values[index.value_ends[i]].offset);
    for (uint64_t k = index.value_ends[i]; k < index.value_ends[i + 1]; ++k) {
      end = std::max(end, index.values[k].offset + index.values[k].length);
    }
    places[i + 1] = end;
  }
  const auto place = [&](uint64_t sample) { return places[sample]; };
  std::vector<TarBlock> blocks;
  for (uint64_t i = 0; i < count; ++i) {
    const bool fits = !blocks.empty() && place(i + 1) - blocks.back().offset <= kMaxTarPageSpan &&
                      i - blocks.back().first_sample < most_samples &&
                      index.key_ends[i + 1] - index.key_ends[blocks.back().first_sample] <= kMaxTarPageKeys;
    if (!fits) blocks.push_back({.first_sample = i, .first_value = index.value_ends[i], .offset = place(i)});
  }
  blocks.push_back({.first_sample = count, .first_value = index.values.size(), .offset = place(count)});
  return blocks;
}

std::string EncodeTarIndex(const TarIndex& index) {
  std::vector<TarBlock> blocks = FormTarBlocks(index);
  std::string front;
  for (const std::string& column : index.columns) {
    AppendLittle(front, static_cast<uint8_t>(column.size()));
    front += column;
  }
  const uint64_t pages_offset = kTarIndexHeaderBytes + front.size() + kTarPageEntryBytes * (blocks.size() - 1);
  std::string rest;
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    const std::string page = EncodePage(index, blocks[i], blocks[i + 1]);
    AppendLittle(front, pages_offset + rest.size());
    AppendLittle(front, blocks[i].first_sample);
    AppendLittle(front, blocks[i].first_value);
    AppendLittle(front, blocks[i].offset);
    AppendLittle(front, Hash64(page));
    rest += page;
  }
  const uint64_t keys_offset = pages_offset + rest.size();
  std::vector<uint64_t> hashes(index.sample_count());
  for (uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = Hash64(index.key(i));
  rest += EncodeKeyTable(hashes);

  std::string out(kMagic);
  AppendLittle(out, kMajor);
  AppendLittle(out, kMinor);
  AppendLittle(out, static_cast<uint32_t>(index.columns.size()));
  AppendLittle(out, index.tar_length);
  AppendLittle(out, index.identity);
  AppendLittle(out, blocks.back().first_sample);
  AppendLittle(out, blocks.back().first_value);
  AppendLittle<uint64_t>(out, blocks.size() - 1);
  AppendLittle(out, blocks.back().offset);
  AppendLittle(out, pages_offset);
  AppendLittle(out, keys_offset);
  AppendLittle<uint64_t>(out, pages_offset + rest.size());
  AppendLittle(out, Hash64(front));
  out.resize(kTarIndexHeaderBytes - 8, '\0');
  AppendLittle(out, Hash64(out));
  out += front;
  out += rest;
  return out;
}

absl::StatusOr<uint64_t> TarIndexFrontLength(std::string_view header, uint64_t file_length) {
  SHARDKIT_ASSIGN_OR_RETURN(const Header decoded, DecodeHeader(header, file_length));
  return decoded.pages_offset;
}

absl::StatusOr<TarIndex> DecodeTarIndexFront(std::string_view bytes, uint64_t file_length) {
  SHARDKIT_ASSIGN_OR_RETURN(const Header header, DecodeHeader(bytes, file_length));
  if (header.pages_offset > bytes.size()) return DataLoss("the directory is cut off");
  const std::string_view front = bytes.substr(kTarIndexHeaderBytes, header.pages_offset - kTarIndexHeaderBytes);
  if (Hash64(front) != header.front_checksum) return DataLoss("checksum of columns and directory is wrong");
  TarIndex index;
  index.tar_length = header.tar_length;
  index.identity = header.identity;
  const uint64_t directory = front.size() - kTarPageEntryBytes * header.blocks;
  ByteCursor names(front.substr(0, directory));
  SHARDKIT_RETURN_IF_ERROR(DecodeNames(names, header.columns, &index));
  if (names.remaining() != 0) return DataLoss("the columns are too long");
  SHARDKIT_RETURN_IF_ERROR(DecodeDirectory(front.substr(directory), header, &index));
  return index;
}

absl::StatusOr<TarSamples> DecodeTarPage(const TarIndex& index, size_t block, std::string_view page) {
  const TarBlock& begin = index.blocks[block];
  const TarBlock& next = index.blocks[block + 1];
  if (page.size() != next.page_offset - begin.page_offset || Hash64(page) != begin.page_checksum) {
    return DataLoss("checksum is wrong");
  }
  TarSamples samples;
  const bool last = block + 2 == index.blocks.size();
  SHARDKIT_RETURN_IF_ERROR(DecodeValues(index, begin, next, last, page.data(), &samples));
  samples.keys = page.substr(page.size() - KeysLength(begin, next));
  const char* const table = page.data() + kTarPageValueBytes * samples.values.size();
  SHARDKIT_RETURN_IF_ERROR(
      DecodeSamples(next.first_sample - begin.first_sample, index.columns.size(), table, &samples));
  return samples;
}

absl::StatusOr<TarIndex> DecodeTarIndex(std::string_view bytes) {
  SHARDKIT_ASSIGN_OR_RETURN(TarIndex index, DecodeTarIndexFront(bytes, bytes.size()));
  for (size_t i = 0; i + 1 < index.blocks.size(); ++i) {
    const uint64_t offset = index.blocks[i].page_offset, keys = index.keys.size(), values = index.values.size();
    SHARDKIT_ASSIGN_OR_RETURN(const TarSamples samples,
                              DecodeTarPage(index, i, bytes.substr(offset, index.blocks[i + 1].page_offset - offset)));
    index.keys += samples.keys;
    index.values.insert(index.values.end(), samples.values.begin(), samples.values.end());
    index.checksums.insert(index.checksums.end(), samples.checksums.begin(), samples.checksums.end());
    for (uint64_t k = 1; k <= samples.sample_count(); ++k) {
      index.key_ends.push_back(keys + samples.key_ends[k]);
      index.value_ends.push_back(values + samples.value_ends[k]);
    }
  }
  return index;
}

}  // namespace shardkit::format
