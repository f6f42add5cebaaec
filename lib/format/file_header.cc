#include "format/file_header.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/footer.h"

namespace shardkit::format {
namespace {

// What users mistake for a shard, and the way to its samples.
constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
    {"\x1f\x8b", "a file compressed by gzip: a compressed tar has a name such as x.tar.gz"},
    {"\x28\xb5\x2f\xfd", "a file compressed by zstd: a compressed tar has a name such as x.tar.zst"},
    {"\xfd\x37zXZ", "a file compressed by xz: a compressed tar has a name such as x.tar.xz"},
    {"BZh", "a file compressed by bzip2: a compressed tar has a name such as x.tar.bz2"},
    {"\x04\x22\x4d\x18", "a file compressed by LZ4: a compressed tar has a name such as x.tar.lz4"},
    {"PK\x03\x04", "a zip: shardctl pack makes a dataset of it"},
    {"PAR1", "a Parquet file: sk.pack of Python takes shardkit.sources.parquet(FILES)"},
    {"ARROW1", "an Arrow file: sk.pack of Python takes its rows"},
};

constexpr uint8_t kNullableFlag = 1;
constexpr uint8_t kKeyFlag = 2;
constexpr uint8_t kPerValueShape = 255;

// Where the schema begins in this major version.
constexpr uint64_t kSchemaOffset = 72;

constexpr uint64_t kSpecificationBytes = 24;

// What the file says of itself, with zero bytes up to its length.
std::string Specification(uint16_t major, uint16_t minor) {
  std::string out = StrCat("Shardkit shard ", major, ".", minor);
  out.resize(kSpecificationBytes, '\0');
  return out;
}

std::string EncodeSchema(const Schema& schema) {
  std::string out;
  AppendLittle<uint16_t>(out, static_cast<uint16_t>(schema.size()));
  for (const Column& column : schema.columns()) {
    const bool shaped = column.type == Type::kNdarray || !IsKnownType(column.type);
    AppendLittle<uint8_t>(out, static_cast<uint8_t>(column.name.size()));
    out += column.name;
    AppendLittle(out, column.type);
    AppendLittle(out, shaped ? column.dtype : Type{});
    AppendLittle(out, column.codec);
    AppendLittle(out, column.storage);
    AppendLittle<uint8_t>(out, (column.nullable ? kNullableFlag : 0) | (column.is_key ? kKeyFlag : 0));
    uint8_t rank = 0;
    if (shaped) rank = column.shape ? static_cast<uint8_t>(column.shape->size()) : kPerValueShape;
    AppendLittle(out, rank);
    if (column.storage == Storage::kFixed) AppendLittle(out, column.value_size);
    for (size_t i = 0; shaped && column.shape && i < column.shape->size(); ++i) AppendLittle(out, (*column.shape)[i]);
    out += EncodeMetadata(column.metadata);
  }
  return out;
}

// Checks what tells where the entry ends. Schema::Create checks the rest.
absl::StatusOr<Column> DecodeColumn(ByteCursor& cursor, size_t index) {
  const auto damaged = [&](std::string_view what) { return DataLoss("schema: column ", index, ": ", what); };
  Column column;
  uint8_t name_length, flags, rank;
  std::string_view name;
  if (!cursor.Read(&name_length) || !cursor.ReadBytes(name_length, &name) || !cursor.Read(&column.type) ||
      !cursor.Read(&column.dtype) || !cursor.Read(&column.codec) || !cursor.Read(&column.storage) ||
      !cursor.Read(&flags) || !cursor.Read(&rank)) {
    return damaged("cut short");
  }
  column.name = std::string(name);
  if (column.storage < Storage::kFixed || column.storage > Storage::kPaged) {
    return damaged(StrCat("storage ", static_cast<int>(column.storage), " is not 1, 2, 3 or 4"));
  }
  if ((flags & ~(kNullableFlag | kKeyFlag)) != 0) return damaged("reserved flag bits are set");
  column.nullable = (flags & kNullableFlag) != 0;
  column.is_key = (flags & kKeyFlag) != 0;
  const bool shaped = column.type == Type::kNdarray || !IsKnownType(column.type);
  if (shaped && rank > kMaxRank && rank != kPerValueShape) return damaged("more than 8 dimensions");
  if (!shaped && (column.dtype != Type{} || rank != 0)) return damaged("dtype and rank are not zero");
  if (!shaped) column.dtype = Column().dtype;
  if (column.storage == Storage::kFixed && !cursor.Read(&column.value_size)) return damaged("cut short");
  if (shaped && rank != kPerValueShape) {
    column.shape.emplace(rank);
    for (uint64_t& dimension : *column.shape) {
      if (!cursor.Read(&dimension)) return damaged("cut short");
    }
  }
  absl::StatusOr<Metadata> metadata = ReadMetadata(cursor);
  if (!metadata.ok()) return Annotate(metadata.status(), StrCat("schema: column ", index));
  column.metadata = *std::move(metadata);
  return column;
}

absl::StatusOr<Schema> DecodeSchema(std::string_view bytes) {
  ByteCursor cursor(bytes);
  uint16_t count;
  if (!cursor.Read(&count)) return DataLoss("schema: cut short");
  if (count == 0 || count > kMaxColumns) return DataLoss("schema: ", count, " columns; 1 to 4096 are allowed");
  std::vector<Column> columns;
  for (size_t i = 0; i < count; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(Column column, DecodeColumn(cursor, i));
    columns.push_back(std::move(column));
  }
  if (cursor.remaining() != 0) return DataLoss("schema: ", cursor.remaining(), " bytes too many");
  absl::StatusOr<Schema> schema = Schema::Create(std::move(columns));
  if (!schema.ok()) return DataLoss("schema: ", ToStd(schema.status().message()));
  return schema;
}

}  // namespace

std::string EncodeFileHeader(FileHeader& header) {
  const std::string schema = EncodeSchema(header.schema);
  std::string out(kHeaderMagic);
  AppendLittle(out, kMajorVersion);
  AppendLittle(out, header.minor);
  AppendLittle<uint32_t>(out, 0);
  AppendLittle(out, header.alignment);
  AppendLittle(out, header.incompatible_flags);
  AppendLittle(out, header.compatible_flags);
  AppendLittle(out, static_cast<uint32_t>(schema.size()));
  AppendLittle(out, static_cast<uint32_t>(header.dictionaries.size()));
  AppendLittle<uint32_t>(out, 0);
  AppendLittle(out, header.shard_id);
  out += Specification(kMajorVersion, header.minor);
  out += schema;
  for (const Dictionary& dictionary : header.dictionaries) {
    AppendLittle(out, dictionary.column);
    AppendLittle(out, static_cast<uint32_t>(dictionary.bytes.size()));
    out += dictionary.bytes;
  }
  out.resize(RoundUp(out.size(), 8), '\0');
  header.length = out.size() + 8;
  StoreLittle(out.data() + 12, static_cast<uint32_t>(header.length));
  header.checksum = Hash64(out);
  AppendLittle(out, header.checksum);
  return out;
}

uint64_t ShardId(FileHeader header, std::string_view first_entries) {
  header.shard_id = 0;
  std::string bytes = EncodeFileHeader(header);
  bytes.resize(bytes.size() - 8);  // without the checksum
  bytes += first_entries;
  return Hash64(bytes);
}

absl::StatusOr<uint64_t> PeekFileHeaderLength(std::string_view prefix) {
  if (prefix.size() < kHeaderMagic.size()) return DataLoss("header magic is cut short: this is not a shard");
  if (prefix.substr(0, 8) != kHeaderMagic) {
    if (prefix.substr(0, 4) == kHeaderMagic.substr(0, 4)) {
      return DataLoss("header magic is mangled: the file went through a text-mode transfer; copy it in binary mode");
    }
    const auto* const known =
        std::ranges::find_if(kOthers, [&](const auto& other) { return prefix.starts_with(other.first); });
    return DataLoss("header magic is wrong: this is not a shard", known == std::end(kOthers) ? "" : ", but ",
                    known == std::end(kOthers) ? "" : known->second);
  }
  if (prefix.size() < kFileHeaderPrefix) {
    return DataLoss("header: the file ends at byte ", prefix.size(), " within the header");
  }
  const uint64_t length = LoadLittle<uint32_t>(prefix.data() + 12);
  if (length < kFileHeaderPrefix + 8 || length % 8 != 0 || length > kMaxHeaderLength) {
    return DataLoss("header: length ", length, " is not allowed");
  }
  return length;
}

absl::StatusOr<FileHeader> DecodeFileHeader(std::string_view bytes) {
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t length, PeekFileHeaderLength(bytes));
  if (bytes.size() != length) return DataLoss("header: cut short at byte ", bytes.size(), " of ", length);
  FileHeader header;
  header.length = length;
  header.checksum = LoadLittle<uint64_t>(bytes.data() + length - 8);
  if (Hash64(bytes.substr(0, length - 8)) != header.checksum) return DataLoss("header checksum is wrong");

  // The version is checked after the checksum: a damaged version number is damage, not a newer format.
  const uint16_t found_major = LoadLittle<uint16_t>(bytes.data() + 8);
  if (found_major != kMajorVersion) {
    return Unimplemented("header: major version ", found_major, " is not supported (this version reads 1)");
  }
  if (length < kSchemaOffset + 8) return DataLoss("header: length ", length, " is not allowed");
  ByteCursor cursor(bytes.substr(0, length - 8));
  std::string_view skipped, specification;
  uint16_t major = 0;
  uint32_t header_length = 0, schema_length = 0, dictionary_count = 0, reserved = 0;
  (void)(cursor.ReadBytes(8, &skipped) && cursor.Read(&major) && cursor.Read(&header.minor) &&
         cursor.Read(&header_length) && cursor.Read(&header.alignment) && cursor.Read(&header.incompatible_flags) &&
         cursor.Read(&header.compatible_flags) && cursor.Read(&schema_length) && cursor.Read(&dictionary_count) &&
         cursor.Read(&reserved) && cursor.Read(&header.shard_id) &&
         cursor.ReadBytes(kSpecificationBytes, &specification));  // all before kSchemaOffset
  const uint32_t unknown = header.incompatible_flags & ~kKnownIncompatibleFlags;
  if (unknown != 0) {
    return Unimplemented("header: incompatible flag bit ", std::countr_zero(unknown),
                         " is set; a newer version of Shardkit may read it");
  }
  if (!std::has_single_bit(header.alignment) || header.alignment < kMinAlignment || header.alignment > kMaxAlignment) {
    return DataLoss("header: alignment ", header.alignment, " is not a power of two from 64 to 1048576");
  }
  if (reserved != 0) return DataLoss("header: reserved bytes at offset 36 are not zero");
  if (specification != Specification(major, header.minor)) {
    return DataLoss("header: the specification that it names is not Shardkit shard ", major, ".", header.minor);
  }
  std::string_view schema_bytes;
  if (!cursor.ReadBytes(schema_length, &schema_bytes)) return DataLoss("header: schema is longer than the header");
  SHARDKIT_ASSIGN_OR_RETURN(header.schema, DecodeSchema(schema_bytes));

  for (uint32_t i = 0; i < dictionary_count; ++i) {
    Dictionary dictionary;
    uint32_t size;
    std::string_view content;
    if (!cursor.Read(&dictionary.column) || !cursor.Read(&size) || size == 0 || size > kMaxDictionaryLength ||
        !cursor.ReadBytes(size, &content)) {
      return DataLoss("header: dictionary ", i, " is cut short or has a length that is not allowed");
    }
    if (dictionary.column >= header.schema.size() || header.schema[dictionary.column].codec != Codec::kZstd ||
        (i > 0 && dictionary.column <= header.dictionaries.back().column)) {
      return DataLoss("header: dictionary ", i, " belongs to column ", dictionary.column,
                      ", which is out of order or not of codec zstd");
    }
    dictionary.bytes = std::string(content);
    header.dictionaries.push_back(std::move(dictionary));
  }
  if (cursor.remaining() >= 8) return DataLoss("header: ", cursor.remaining(), " bytes too many after the schema");
  std::string_view padding;
  if (cursor.ReadBytes(cursor.remaining(), &padding) && padding.find_first_not_of('\0') != padding.npos) {
    return DataLoss("header: padding before the checksum is not zero");
  }
  return header;
}

}  // namespace shardkit::format
