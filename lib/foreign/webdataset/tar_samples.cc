#include "foreign/webdataset/tar_samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "format/constants.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {
namespace {

// The whole text is a number.
bool ReadNumber(std::string_view text, int base, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number, base);
  return error == std::errc() && rest == end;
}

std::string_view Find(const Metadata& metadata, std::string_view name) {
  const auto found = metadata.find(std::string(name));
  return found == metadata.end() ? std::string_view() : std::string_view(found->second);
}

absl::Status CheckNames(const std::vector<std::string>& columns) {
  std::unordered_set<std::string_view> seen = {"key"};
  for (const std::string& name : columns) {
    const bool is_name = !name.empty() && name.size() <= kMaxColumnNameBytes && CheckName(name, "name").ok();
    if (!is_name || !seen.insert(name).second) {
      return DataLoss("column \"", name, "\" of the tar: its name is none that a column can have, or occurs twice");
    }
  }
  if (columns.size() >= kMaxColumns) return DataLoss("the tar would have ", columns.size(), " columns");
  return absl::OkStatus();
}

// Whether a block of so many samples can lie there.
bool IsBlock(const TarBlock& block, const TarBlock& next, uint64_t columns) {
  const uint64_t samples = next.first_sample - block.first_sample;
  if (next.offset < block.offset || block.offset % kTarBlockBytes != 0 || block.offset == 0) return false;
  // A value is followed by the header of the next one.
  if (samples - 1 > (next.offset - block.offset) / kTarBlockBytes) return false;
  return samples == 1 ||
         (next.offset - block.offset <= kMaxTarBlockSpan && samples * (columns + 1) <= kMaxTarBlockPlaces);
}

// The elements of a sample's arrays.
struct Arrays {
  std::array<std::string_view, kTarIndexColumns> data;
  uint64_t count = 0;

  uint64_t At(TarIndexColumn column, uint64_t i) const { return LoadLittle<uint64_t>(data[column].data() + 8 * i); }
};

absl::StatusOr<Arrays> ReadArrays(const Schema& schema, const BlockView& view, uint32_t sample, uint64_t most) {
  Arrays arrays;
  for (size_t column = kTarColumn; column < kTarIndexColumns; ++column) {
    SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array,
                              ParseNdarray(schema[column], view.column(column).value(sample).value_or("")));
    const uint64_t count = array.shape.size() == 1 ? array.shape[0] : 0;
    if (column == kTarColumn) arrays.count = count;
    if (count == 0 || count != arrays.count || count > most) return DataLoss("its arrays have not one length");
    arrays.data[column] = array.data;
  }
  return arrays;
}

}  // namespace

uint64_t TarSamples::memory() const {
  return keys.capacity() + 8 * (key_ends.capacity() + value_ends.capacity() + checksums.capacity()) +
         sizeof(TarValue) * values.capacity();
}

uint64_t TarIdentity(std::string_view first, std::string_view last) {
  StreamingHash hash;
  hash.Update(first);
  hash.Update(last);
  return hash.Digest();
}

std::vector<TarBlock> FormTarBlocks(const TarIndex& index) {
  const uint64_t count = index.sample_count();
  const uint64_t most_samples = std::max<uint64_t>(kMaxTarBlockPlaces / (index.columns.size() + 1), 1);
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
    const bool fits = !blocks.empty() && place(i + 1) - blocks.back().offset <= kMaxTarBlockSpan &&
                      i - blocks.back().first_sample < most_samples &&
                      index.key_ends[i + 1] - index.key_ends[blocks.back().first_sample] <= kMaxTarBlockKeys;
    if (!fits) blocks.push_back({.first_sample = i, .offset = place(i)});
  }
  blocks.push_back({.first_sample = count, .offset = place(count)});
  return blocks;
}

Schema TarIndexSchema(const std::vector<std::string>& columns) {
  std::vector<Column> out(kTarIndexColumns);
  out[kTarKey] = {.name = "key", .type = Type::kUtf8, .is_key = true};
  const auto array = [&](TarIndexColumn column, const char* name, Type dtype) {
    out[column] = {.name = name, .type = Type::kNdarray, .dtype = dtype};
  };
  array(kTarColumn, "column", Type::kU16);
  array(kTarOffset, "offset", Type::kU64);
  array(kTarLength, "length", Type::kU64);
  array(kTarXxh3, "xxh3", Type::kU64);
  for (Column& column : out) column.SetCodec(Codec::kZstd);
  JsonValue names = JsonValue::Array();
  for (const std::string& name : columns) names.Add(name);
  out[kTarColumn].metadata[kClassNames] = names.Format();
  return Schema::Create(std::move(out)).value();
}

Metadata TarIndexMetadata(const TarIndex& index) {
  std::string blocks;
  for (const TarBlock& block : index.blocks) blocks += StrCat(blocks.empty() ? "" : " ", block.offset);
  return {{std::string(kTarLengthName), StrCat(index.tar_length)},
          {std::string(kTarIdentityName), absl::StrFormat("%016x", index.identity)},
          {std::string(kTarBlocksName), std::move(blocks)}};
}

absl::StatusOr<TarIndex> DecodeTarIndex(const Schema& schema, const Metadata& metadata,
                                        std::span<const BlockInfo> blocks) {
  TarIndex index;
  if (schema.size() == kTarIndexColumns) {
    if (auto names = ClassNames(schema[kTarColumn]); names.ok()) index.columns = *std::move(names);
  }
  if (schema != TarIndexSchema(index.columns)) return DataLoss("is no index of a tar: it has other columns");
  SHARDKIT_RETURN_IF_ERROR(CheckNames(index.columns));
  const std::string_view identity = Find(metadata, kTarIdentityName);
  if (!ReadNumber(Find(metadata, kTarLengthName), 10, &index.tar_length) || index.tar_length > format::kMaxLength ||
      identity.size() != 16 || !ReadNumber(identity, 16, &index.identity)) {
    return DataLoss("is no index of a tar: its metadata do not say of which");
  }
  std::string_view rest = Find(metadata, kTarBlocksName);
  index.blocks.reserve(blocks.size() + 1);
  for (size_t i = 0; i <= blocks.size(); ++i) {
    TarBlock block;
    if (i > 0) block.first_sample = blocks[i - 1].first_sample + blocks[i - 1].sample_count;
    const size_t space = rest.find(' ');
    if ((space == rest.npos) != (i == blocks.size()) || !ReadNumber(rest.substr(0, space), 10, &block.offset)) {
      return DataLoss("its metadata do not say where its ", blocks.size(), " blocks lie in the tar");
    }
    rest.remove_prefix(std::min(space, rest.size() - 1) + 1);
    index.blocks.push_back(block);
    if (i > 0 && !IsBlock(index.blocks[i - 1], block, index.columns.size())) {
      return DataLoss("block ", i - 1, ": cannot lie from byte ", index.blocks[i - 1].offset, " to ", block.offset,
                      " of the tar");
    }
  }
  if (index.blocks.back().offset > index.tar_length || (blocks.empty() && index.blocks.back().offset != 0)) {
    return DataLoss("its last block would end at byte ", index.blocks.back().offset, " of a tar of ", index.tar_length);
  }
  return index;
}

absl::StatusOr<TarSamples> DecodeTarBlock(const TarIndex& index, size_t block, const BlockView& view) {
  static const Schema schema = TarIndexSchema({});
  const TarBlock& next = index.blocks[block + 1];
  uint64_t least = index.blocks[block].offset;  // earliest place of the next value
  uint64_t end = 0;
  TarSamples samples;
  std::vector<uint64_t> used(index.columns.size());  // per column: the last sample that has it, counted from 1
  for (uint32_t i = 0; i < view.sample_count(); ++i) {
    const auto refuse = [&](const auto&... why) {
      return DataLoss("sample ", index.blocks[block].first_sample + i, ": ", why...);
    };
    const std::string_view key = view.column(kTarKey).value(i).value_or("");
    if (key.empty() || key.size() > kMaxTarKeyBytes || !ValidUtf8(key)) return refuse("its key cannot be one");
    if (i > 0 && samples.key(i - 1) == key) return refuse("has the key of the one before it");
    const absl::StatusOr<Arrays> arrays = ReadArrays(schema, view, i, index.columns.size());
    if (!arrays.ok()) return refuse(ToStd(arrays.status().message()));
    for (uint64_t k = 0; k < arrays->count; ++k) {
      const TarValue value{arrays->At(kTarOffset, k), arrays->At(kTarLength, k),
                           LoadLittle<uint16_t>(arrays->data[kTarColumn].data() + 2 * k)};
      if (value.column >= used.size()) return refuse("there is no column ", value.column);
      if (std::exchange(used[value.column], i + 1) == i + 1) return refuse("has a column twice");
      const bool first = i == 0 && k == 0;
      if (value.offset % kTarBlockBytes != 0 || value.offset < least || (first && value.offset != least) ||
          !RangeWithin(value.offset, value.length, next.offset)) {
        return refuse("bytes ", value.offset, " and ", value.length,
                      " after it are no place for a value in a block that ends at ", next.offset);
      }
      end = value.offset + value.length;
      least = RoundUp(end, kTarBlockBytes) + kTarBlockBytes;
      samples.values.push_back(value);
      samples.checksums.push_back(arrays->At(kTarXxh3, k));
    }
    samples.keys += key;
    samples.key_ends.push_back(samples.keys.size());
    samples.value_ends.push_back(samples.values.size());
  }
  const bool last = block + 2 == index.blocks.size();
  if (last ? end != next.offset : least > next.offset)
    return DataLoss("its values do not end where the next block begins");
  return samples;
}

}  // namespace shardkit::foreign
