#include "unit/container/shard_maker.h"

#include <gtest/gtest.h>

#include <span>

#include "base/endian.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit {
namespace {

constexpr Type kScalars[] = {Type::kI8,        Type::kI16,        Type::kI32,        Type::kI64,        Type::kU8,
                             Type::kU16,       Type::kU32,        Type::kU64,        Type::kF16,        Type::kF32,
                             Type::kBf16,      Type::kF64,        Type::kBool,       Type::kF8E4M3,     Type::kF8E5M2,
                             Type::kComplex64, Type::kComplex128, Type::kTimestampS, Type::kTimestampNs};
constexpr Type kOthers[] = {Type::kBytes, Type::kUtf8,  Type::kJson, Type::kJpeg,
                            Type::kPng,   Type::kImage, Type::kRle,  Type::kNdarray};

std::string Text(Random& random, size_t length) {
  std::string text;
  while (text.size() < length) text += random.Chance(9) ? "żó" : std::string(1, "abcdefgh ,"[random.Below(10)]);
  return text;
}

std::string Elements(Random& random, Type dtype, uint64_t count) {
  std::string bytes = random.Bytes(count * ScalarSize(dtype));
  if (dtype == Type::kBool) {
    for (char& byte : bytes) byte &= 1;
  }
  return bytes;
}

std::string Masks(Random& random, size_t longest) {
  RleList masks;
  for (uint64_t i = random.Below(4); i-- > 0;) {
    Rle mask{.height = static_cast<uint32_t>(random.Below(longest + 1)),
             .width = static_cast<uint32_t>(random.Below(50)),
             .runs = {}};
    uint32_t left = mask.height * mask.width;
    while (left != 0) {
      mask.runs.push_back(static_cast<uint32_t>(1 + random.Below(left)));
      left -= mask.runs.back();
    }
    masks.Append(mask);
  }
  std::string value;
  EXPECT_TRUE(AppendRleValue(masks, &value).ok());
  return value;
}

}  // namespace

std::string Random::Bytes(size_t length) {
  std::string bytes;
  while (bytes.size() < length) AppendLittle(bytes, Next());
  bytes.resize(length);
  return bytes;
}

Schema RandomSchema(Random& random, size_t max_columns) {
  std::vector<Column> columns(1 + random.Below(max_columns));
  for (size_t i = 0; i < columns.size(); ++i) {
    Column& column = columns[i];
    column.name = StrCat("c", i, Text(random, random.Below(20)));
    column.type =
        random.Chance(2) ? kScalars[random.Below(std::size(kScalars))] : kOthers[random.Below(std::size(kOthers))];
    column.codec = random.Chance(2) ? Codec::kZstd : Codec::kNone;
    column.nullable = random.Chance(2);
    for (uint64_t entries = random.Chance(3) ? random.Below(4) : 0; entries-- > 0;) {
      column.metadata[Text(random, random.Below(9))] = Text(random, random.Below(40));
    }
    if (column.type != Type::kNdarray) {
      if (!column.fixed_size() && column.codec == Codec::kNone && random.Chance(2)) column.storage = Storage::kPaged;
      continue;
    }
    column.dtype = kScalars[random.Below(std::size(kScalars))];
    if (random.Chance(2)) continue;
    column.shape.emplace(random.Below(kMaxRank + 1));
    for (uint64_t& dimension : *column.shape) dimension = random.Below(4);
  }
  if (random.Chance(2)) {
    columns[random.Below(columns.size())] = {
        .name = "key", .type = Type::kUtf8, .codec = random.Chance(2) ? Codec::kZstd : Codec::kNone, .is_key = true};
  }
  auto schema = Schema::Create(std::move(columns));
  EXPECT_TRUE(schema.ok()) << schema.status();
  return *std::move(schema);
}

std::optional<std::string> RandomValue(Random& random, const Column& column, size_t longest) {
  if (column.nullable && random.Chance(3)) return std::nullopt;
  if (ScalarSize(column.type) != 0) return Elements(random, column.type, 1);
  const size_t length = random.Chance(4) ? 0 : random.Below(longest + 1);
  switch (column.type) {
    case Type::kUtf8:
      return Text(random, length);
    case Type::kJson:
      return StrCat("[\"", Text(random, length), "\"]");
    case Type::kRle:
      return Masks(random, longest);
    case Type::kNdarray: {
      if (column.shape) return Elements(random, column.dtype, *column.fixed_size() / ScalarSize(column.dtype));
      const uint64_t shape[] = {length / 16, random.Below(4)};
      std::string value;
      EXPECT_TRUE(AppendNdarray(column.dtype, shape, Elements(random, column.dtype, shape[0] * shape[1]), &value).ok());
      return value;
    }
    default:
      return random.Bytes(length);
  }
}

std::string Repaired(std::string bytes) {
  StoreLittle(bytes.data() + bytes.size() - 8, Hash64(bytes.data(), bytes.size() - 8));
  return bytes;
}

std::vector<ShardRow> RandomRows(Random& random, const Schema& schema, size_t count, size_t longest) {
  std::vector<ShardRow> rows(count);
  for (size_t i = 0; i < count; ++i) {
    for (const Column& column : schema.columns()) {
      rows[i].push_back(RandomValue(random, column, longest));
      if (column.is_key) rows[i].back() = StrCat("sample/", i);
    }
  }
  return rows;
}

absl::StatusOr<ShardSummary> WriteShard(FileSystem& file_system, const std::string& path, const Schema& schema,
                                        const std::vector<ShardRow>& rows, const ShardOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto writer, ShardWriter::Create(file_system, path, schema, options));
  for (const ShardRow& row : rows) {
    const std::vector<std::optional<Value>> values(row.begin(), row.end());
    SHARDKIT_RETURN_IF_ERROR(writer->Append(values));
  }
  return writer->Finish();
}

std::string WithSections(
    std::string_view shard, bool has_key,
    const std::function<std::optional<std::string>(format::SectionKind kind, std::string_view content)>& change) {
  const auto trailer = format::DecodeTrailer(shard.substr(shard.size() - format::kTrailerBytes), shard.size());
  EXPECT_TRUE(trailer.ok()) << trailer.status();
  const auto sections = format::DecodeSectionTable(
      shard.substr(trailer->table_offset(), format::kSectionEntryBytes * trailer->section_count), *trailer, has_key);
  EXPECT_TRUE(sections.ok()) << sections.status();
  format::FooterBuilder footer(trailer->footer_offset);
  for (const format::Section& section : *sections) {
    const auto kind = static_cast<format::SectionKind>(section.kind);
    const std::optional<std::string> content = change(kind, shard.substr(section.offset, section.length));
    if (content) footer.Add(kind, *content);
  }
  return StrCat(shard.substr(0, trailer->footer_offset), footer.Finish(*trailer));
}

std::string ReadWhole(FileSystem& file_system, const std::string& path) {
  auto bytes = file_system.ReadFile(path, uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *std::move(bytes) : std::string();
}

void WriteWhole(FileSystem& file_system, const std::string& path, std::string_view bytes) {
  (void)file_system.RemoveFile(path);
  auto file = file_system.Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = (*file)->Append(bytes);
  ASSERT_TRUE(status.ok()) << status;
}

}  // namespace shardkit
