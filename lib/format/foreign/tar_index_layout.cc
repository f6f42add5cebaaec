#include "format/foreign/tar_index_layout.h"

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
#include "shardkit/schema.h"

namespace shardkit::format {
namespace {

constexpr std::string_view kMagic{"\x89TIX\r\n\x1a\n", 8};
constexpr uint16_t kMajor = 1;
constexpr uint16_t kMinor = 0;
constexpr uint64_t kReservedBytes = 48;

struct Counts {
  uint64_t columns = 0;
  uint64_t samples = 0;
  uint64_t values = 0;
  uint64_t keys_length = 0;
};

absl::StatusOr<Counts> DecodeHeader(std::string_view bytes, TarIndex* index) {
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
  Counts counts;
  counts.columns = LoadLittle<uint32_t>(p + 12);
  index->tar_length = LoadLittle<uint64_t>(p + 16);
  index->identity = LoadLittle<uint64_t>(p + 24);
  counts.samples = LoadLittle<uint64_t>(p + 32);
  counts.values = LoadLittle<uint64_t>(p + 40);
  counts.keys_length = LoadLittle<uint64_t>(p + 48);
  if (LoadLittle<uint64_t>(p + 56) != bytes.size()) {
    return DataLoss("file length is ", LoadLittle<uint64_t>(p + 56), " there but the file has ", bytes.size(),
                    " bytes");
  }
  if (!AllZero(bytes.substr(72, kReservedBytes))) return DataLoss("reserved bytes are not zero");
  if (counts.columns >= kMaxColumns || counts.values > kMaxTarValues || counts.samples > counts.values ||
      counts.keys_length > kMaxTarKeysLength || index->tar_length > kMaxLength) {
    return DataLoss("a count is above its limit");
  }
  // The limits above keep the sum from overflowing.
  const uint64_t tables =
      kTarIndexValueBytes * counts.values + kTarIndexSampleBytes * counts.samples + counts.keys_length;
  if (tables > bytes.size() - kTarIndexHeaderBytes) return DataLoss("a table is longer than the file");
  if (Hash64(bytes.substr(kTarIndexHeaderBytes)) != LoadLittle<uint64_t>(p + 64)) return DataLoss("checksum is wrong");
  return counts;
}

absl::Status DecodeValues(ByteCursor& cursor, const Counts& counts, TarIndex* index) {
  std::string_view table;
  if (!cursor.ReadBytes(kTarIndexValueBytes * counts.values, &table)) return DataLoss("the values are cut off");
  index->values.reserve(counts.values);
  index->checksums.reserve(counts.values);
  uint64_t least = kTarBlockBytes;  // earliest place of the next value, which has a header before it
  for (uint64_t i = 0; i < counts.values; ++i) {
    const char* const p = table.data() + kTarIndexValueBytes * i;
    const TarValue value{LoadLittle<uint64_t>(p), LoadLittle<uint64_t>(p + 8), LoadLittle<uint32_t>(p + 24)};
    if (value.offset % kTarBlockBytes != 0 || value.offset < least ||
        !RangeWithin(value.offset, value.length, index->tar_length)) {
      return DataLoss("value ", i, ": bytes ", value.offset, " and ", value.length,
                      " after it are no place for it in a tar of ", index->tar_length, " bytes");
    }
    if (value.column >= counts.columns || LoadLittle<uint32_t>(p + 28) != 0)
      return DataLoss("value ", i, ": there is no such column");
    least = value.offset + RoundUp(value.length, kTarBlockBytes) + kTarBlockBytes;
    index->values.push_back(value);
    index->checksums.push_back(LoadLittle<uint64_t>(p + 16));
  }
  return absl::OkStatus();
}

absl::Status DecodeSamples(ByteCursor& cursor, const Counts& counts, TarIndex* index) {
  std::string_view table;
  if (!cursor.ReadBytes(kTarIndexSampleBytes * counts.samples, &table)) return DataLoss("the samples are cut off");
  index->key_ends.reserve(counts.samples + 1);
  index->value_ends.reserve(counts.samples + 1);
  std::vector<uint64_t> used(counts.columns);  // per column: the last sample that has it, counted from 1
  for (uint64_t i = 0; i < counts.samples; ++i) {
    const uint64_t key_end = LoadLittle<uint64_t>(table.data() + kTarIndexSampleBytes * i);
    const uint64_t value_end = LoadLittle<uint64_t>(table.data() + kTarIndexSampleBytes * i + 8);
    if (key_end <= index->key_ends.back() || key_end > counts.keys_length ||
        key_end - index->key_ends.back() > kMaxTarKeyBytes || value_end <= index->value_ends.back() ||
        value_end > counts.values) {
      return DataLoss("sample ", i, ": its key or its values do not follow those before it");
    }
    for (uint64_t value = index->value_ends.back(); value < value_end; ++value) {
      uint64_t& last = used[index->values[value].column];
      if (std::exchange(last, i + 1) == i + 1) return DataLoss("sample ", i, ": has a column twice");
    }
    index->key_ends.push_back(key_end);
    index->value_ends.push_back(value_end);
  }
  if (index->key_ends.back() != counts.keys_length || index->value_ends.back() != counts.values) {
    return DataLoss("keys or values are left over");
  }
  for (uint64_t column = 0; column < counts.columns; ++column) {
    if (used[column] == 0) return DataLoss("column ", column, ": no sample has it");
  }
  return absl::OkStatus();
}

absl::Status DecodeNames(ByteCursor& cursor, const Counts& counts, TarIndex* index) {
  std::unordered_set<std::string> seen = {"key"};
  for (uint64_t i = 0; i < counts.columns; ++i) {
    uint8_t length = 0;
    std::string_view name;
    if (!cursor.Read(&length) || !cursor.ReadBytes(length, &name)) return DataLoss("the columns are cut off");
    if (name.empty() || !ValidUtf8(name)) return DataLoss("column ", i, ": its name is empty or not UTF-8");
    if (!seen.insert(std::string(name)).second) return DataLoss("column ", i, ": its name stands twice");
    index->columns.emplace_back(name);
  }
  std::string_view keys;
  if (!cursor.ReadBytes(counts.keys_length, &keys) || cursor.remaining() != 0)
    return DataLoss("the keys are cut off or too long");
  index->keys = keys;
  for (uint64_t i = 0; i < counts.samples; ++i) {
    if (!ValidUtf8(index->key(i))) return DataLoss("sample ", i, ": its key is not UTF-8");
    if (i > 0 && index->key(i) == index->key(i - 1))
      return DataLoss("sample ", i, ": has the key of the one before it");
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t TarIndex::memory() const {
  return keys.capacity() + 8 * (key_ends.capacity() + value_ends.capacity() + checksums.capacity()) +
         sizeof(TarValue) * values.capacity();
}

uint64_t TarIdentity(std::string_view first, std::string_view last) {
  StreamingHash64 hash;
  hash.Update(first);
  hash.Update(last);
  return hash.Digest();
}

std::string EncodeTarIndex(const TarIndex& index) {
  std::string body;
  body.reserve(kTarIndexValueBytes * index.values.size() + kTarIndexSampleBytes * index.sample_count() +
               index.keys.size());
  for (size_t i = 0; i < index.values.size(); ++i) {
    AppendLittle(body, index.values[i].offset);
    AppendLittle(body, index.values[i].length);
    AppendLittle(body, index.checksums[i]);
    AppendLittle(body, index.values[i].column);
    AppendLittle<uint32_t>(body, 0);
  }
  for (uint64_t i = 0; i < index.sample_count(); ++i) {
    AppendLittle(body, index.key_ends[i + 1]);
    AppendLittle(body, index.value_ends[i + 1]);
  }
  for (const std::string& column : index.columns) {
    AppendLittle(body, static_cast<uint8_t>(column.size()));
    body += column;
  }
  body += index.keys;

  std::string out(kMagic);
  AppendLittle(out, kMajor);
  AppendLittle(out, kMinor);
  AppendLittle(out, static_cast<uint32_t>(index.columns.size()));
  AppendLittle(out, index.tar_length);
  AppendLittle(out, index.identity);
  AppendLittle<uint64_t>(out, index.sample_count());
  AppendLittle<uint64_t>(out, index.values.size());
  AppendLittle<uint64_t>(out, index.keys.size());
  AppendLittle<uint64_t>(out, kTarIndexHeaderBytes + body.size());
  AppendLittle(out, Hash64(body));
  out.resize(kTarIndexHeaderBytes - 8, '\0');
  AppendLittle(out, Hash64(out));
  return out + body;
}

absl::StatusOr<TarIndex> DecodeTarIndex(std::string_view bytes) {
  TarIndex index;
  SHARDKIT_ASSIGN_OR_RETURN(const Counts counts, DecodeHeader(bytes, &index));
  ByteCursor cursor(bytes.substr(kTarIndexHeaderBytes));
  SHARDKIT_RETURN_IF_ERROR(DecodeValues(cursor, counts, &index));
  SHARDKIT_RETURN_IF_ERROR(DecodeSamples(cursor, counts, &index));
  SHARDKIT_RETURN_IF_ERROR(DecodeNames(cursor, counts, &index));
  return index;
}

}  // namespace shardkit::format
