// The shard's header and its schema: round trips, the canonical bytes, every limit and every reserved field.
#include <gtest/gtest.h>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "format/file_header.h"
#include "support/effort.h"
#include "unit/container/shard_maker.h"

namespace shardkit::format {
namespace {

std::string WithByte(std::string bytes, size_t offset, char value) {
  bytes[offset] = value;
  return Repaired(std::move(bytes));
}

template <typename T>
std::string RepairedWith(std::string bytes, size_t offset, T value) {
  StoreLittle(bytes.data() + offset, value);
  return Repaired(std::move(bytes));
}

FileHeader ExampleHeader() {
  FileHeader header;
  header.schema = *Schema::Create({{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
                                   {.name = "ab",
                                    .type = Type::kNdarray,
                                    .nullable = true,
                                    .dtype = Type::kF32,
                                    .shape = std::vector<uint64_t>{3, 2}}});
  return header;
}

std::string Message(const std::string& bytes) { return DecodeFileHeader(bytes).status().ToString(); }

TEST(FileHeader, RandomOnesComeBack) {
  Random random(1);
  for (int round = 0; round < test::Thinned(3000); ++round) {
    FileHeader header;
    header.schema = RandomSchema(random, 12);
    header.alignment = uint32_t{64} << random.Below(15);
    header.minor = static_cast<uint16_t>(random.Next());
    header.compatible_flags = static_cast<uint32_t>(random.Next());
    for (uint32_t i = 0; i < header.schema.size(); ++i) {
      if (header.schema[i].codec != Codec::kZstd || random.Chance(2)) continue;
      header.dictionaries.push_back({i, random.Bytes(1 + random.Below(300))});
    }
    const std::string bytes = EncodeFileHeader(header);
    ASSERT_EQ(bytes.size(), header.length);
    ASSERT_EQ(bytes.size() % 8, 0u);
    const auto length = PeekFileHeaderLength(std::string_view(bytes).substr(0, kFileHeaderPrefix));
    ASSERT_TRUE(length.ok()) << length.status();
    ASSERT_EQ(*length, bytes.size());
    auto decoded = DecodeFileHeader(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_TRUE(decoded->schema == header.schema);
    ASSERT_EQ(decoded->checksum, header.checksum);
    ASSERT_EQ(decoded->minor, header.minor);
    ASSERT_EQ(decoded->compatible_flags, header.compatible_flags);
    ASSERT_EQ(decoded->dictionaries.size(), header.dictionaries.size());
    // A header has only one form.
    ASSERT_EQ(EncodeFileHeader(*decoded), bytes);
  }
}

// The id covers all but itself and the checksum, and the entries of the first block.
TEST(FileHeader, TheIdOfAShard) {
  const std::string entries(128, 'e');
  FileHeader header = ExampleHeader();
  header.shard_id = 7;
  const uint64_t id = ShardId(header, entries);
  header.shard_id = 8;
  EXPECT_EQ(ShardId(header, entries), id);
  EXPECT_NE(ShardId(header, entries.substr(64)), id);
  EXPECT_NE(ShardId(header, ""), id);
  header.compatible_flags = 1;
  EXPECT_NE(ShardId(header, entries), id);
  header = ExampleHeader();
  std::string bytes = EncodeFileHeader(header);
  bytes.resize(bytes.size() - 8);
  EXPECT_EQ(ShardId(header, entries), Hash64(bytes + entries));
}

TEST(FileHeader, NamesItsSpecification) {
  FileHeader header = ExampleHeader();
  header.minor = 12;
  std::string bytes = EncodeFileHeader(header);
  EXPECT_EQ(bytes.substr(48, 24), std::string("Shardkit shard 1.12\0\0\0\0\0", 24));
  EXPECT_TRUE(DecodeFileHeader(bytes).ok());
  for (size_t offset = 48; offset < 72; ++offset) {
    EXPECT_NE(Message(WithByte(bytes, offset, static_cast<char>(bytes[offset] ^ 1))).find("specification"),
              std::string::npos);
  }
}

TEST(FileHeader, SchemaBytesAreThoseOfTheSpecification) {
  FileHeader header = ExampleHeader();
  const std::string bytes = EncodeFileHeader(header);
  const std::string_view schema{
      "\2\0"
      "\3key\2\0\0\0\1\2\2\0\0\0\0\0"
      "\2ab\x20\0\x1a\0\0\1\1\2\x18\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0",
      57};
  EXPECT_EQ(LoadLittle<uint32_t>(bytes.data() + 28), schema.size());
  EXPECT_EQ(std::string_view(bytes).substr(72, schema.size()), schema);
  EXPECT_EQ(header.length, 72u + 57 + 7 + 8);
}

TEST(FileHeader, EveryTruncationIsDamage) {
  FileHeader header = ExampleHeader();
  header.dictionaries.push_back({0, "some words"});
  const std::string bytes = EncodeFileHeader(header);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(cut).status())) << length;
    if (length < kFileHeaderPrefix) {
      EXPECT_TRUE(absl::IsDataLoss(PeekFileHeaderLength(cut).status())) << length;
    }
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(bytes + std::string(8, '\0')).status()));
}

TEST(FileHeader, VersionIsBelievedOnlyWithTheChecksum) {
  FileHeader header = ExampleHeader();
  const std::string bytes = EncodeFileHeader(header);
  std::string flipped = bytes;
  flipped[9] ^= 1;
  EXPECT_EQ(Message(flipped), "DATA_LOSS: header checksum is wrong");
  EXPECT_EQ(Message(RepairedWith<uint16_t>(bytes, 8, 2)),
            "UNIMPLEMENTED: header: major version 2 is not supported (this version reads 1)");
  EXPECT_EQ(Message(RepairedWith<uint16_t>(bytes, 8, 0)),
            "UNIMPLEMENTED: header: major version 0 is not supported (this version reads 1)");
}

// Every major version has the fields up to header_length, and a checksum at the end.
TEST(FileHeader, TheShortestHeadersTellTheirVersion) {
  FileHeader header = ExampleHeader();
  const std::string bytes = EncodeFileHeader(header);
  for (uint32_t length = 24; length <= 88; length += 8) {
    const std::string one = RepairedWith(bytes.substr(0, length), 12, length);
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(one).status())) << length;
    EXPECT_TRUE(absl::IsUnimplemented(DecodeFileHeader(RepairedWith<uint16_t>(one, 8, 2)).status())) << length;
  }
}

// Each change makes a defect that comes before those of the changes in front of it.
TEST(FileHeader, TheFirstDefectOfTheTableIsReported) {
  FileHeader header = ExampleHeader();
  header.dictionaries.push_back({0, "words"});
  std::string bytes = EncodeFileHeader(header);
  const auto damage = [&](size_t offset, std::string_view found, auto value) {
    bytes = RepairedWith(bytes, offset, value);
    EXPECT_NE(Message(bytes).find(found), std::string::npos) << Message(bytes) << "\nnot: " << found;
  };
  damage(129, "DATA_LOSS: header: dictionary 0 belongs to column 9", uint32_t{9});
  damage(75, "DATA_LOSS: schema: a column name is not valid UTF-8", uint8_t{0xff});
  damage(125, "DATA_LOSS: schema: column 1: metadata: entry 0 is cut short", uint32_t{1});
  damage(100, "DATA_LOSS: schema: column 1: more than 8 dimensions", uint8_t{9});
  damage(99, "DATA_LOSS: schema: column 1: reserved flag bits", uint8_t{0x80});
  damage(98, "DATA_LOSS: schema: column 1: storage 5 is not 1, 2, 3 or 4", uint8_t{5});
  damage(84, "DATA_LOSS: schema: column 0: reserved flag bits", uint8_t{0x80});
  damage(72, "DATA_LOSS: schema: 0 columns", uint16_t{0});
  damage(63, "DATA_LOSS: header: the specification that it names is not Shardkit shard 1.0", uint8_t{'2'});
  damage(36, "DATA_LOSS: header: reserved bytes at offset 36", uint32_t{1});
  damage(16, "DATA_LOSS: header: alignment 96", uint32_t{96});
  damage(20, "UNIMPLEMENTED: header: incompatible flag bit 5", uint32_t{1 << 5 | 1 << 9});
  damage(8, "UNIMPLEMENTED: header: major version 3", uint16_t{3});
  bytes.back() ^= 1;
  EXPECT_EQ(Message(bytes), "DATA_LOSS: header checksum is wrong");
}

TEST(FileHeader, EveryReservedField) {
  FileHeader header = ExampleHeader();
  const std::string bytes = EncodeFileHeader(header);
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(Message(RepairedWith<uint32_t>(bytes, 20, uint32_t{1} << bit)),
              StrCat("UNIMPLEMENTED: header: incompatible flag bit ", bit,
                     " is set; a newer version of Shardkit may read it"));
    EXPECT_TRUE(DecodeFileHeader(RepairedWith<uint32_t>(bytes, 24, uint32_t{1} << bit)).ok());
    EXPECT_EQ(Message(RepairedWith<uint32_t>(bytes, 36, uint32_t{1} << bit)),
              "DATA_LOSS: header: reserved bytes at offset 36 are not zero");
  }
  for (int bit = 2; bit < 8; ++bit) {
    EXPECT_EQ(Message(WithByte(bytes, 84, static_cast<char>(2 | 1 << bit))),
              "DATA_LOSS: schema: column 0: reserved flag bits are set");
  }
  for (size_t offset = 129; offset < 136; ++offset) {
    EXPECT_EQ(Message(WithByte(bytes, offset, 1)), "DATA_LOSS: header: padding before the checksum is not zero");
  }
}

TEST(FileHeader, EveryTypeCodecAndAlignment) {
  FileHeader header = ExampleHeader();
  header.schema = *Schema::Create({{.name = "x", .type = Type::kU8}});
  const std::string bytes = EncodeFileHeader(header);
  for (int value = 0; value < 256; ++value) {
    const auto decoded = DecodeFileHeader(WithByte(bytes, 76, static_cast<char>(value)));
    const Type type = static_cast<Type>(value);
    // Storage fixed with a value_size of 1. An ndarray has a dtype of 0 here, which is none.
    EXPECT_EQ(decoded.ok(), !IsKnownType(type) || ScalarSize(type) == 1) << value;
    if (decoded.ok()) {
      EXPECT_EQ(decoded->schema[0].type, type);
      EXPECT_EQ(decoded->schema[0].fixed_size(), 1u);
    }
    const auto codec = DecodeFileHeader(WithByte(bytes, 80, static_cast<char>(value)));
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ(IsKnownCodec(codec->schema[0].codec), value < 2) << value;
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 78, static_cast<char>(value))).ok(), value == 0) << "dtype";
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 83, static_cast<char>(value))).ok(), value == 0) << "rank";
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 81, static_cast<char>(value))).ok(), value == 1) << "storage";
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 84, static_cast<char>(value))).ok(), value == 1) << "value_size";
  }
  for (int bit = 0; bit < 32; ++bit) {
    const bool allowed = bit >= 6 && bit <= 20;
    EXPECT_EQ(DecodeFileHeader(RepairedWith<uint32_t>(bytes, 16, uint32_t{1} << bit)).ok(), allowed) << bit;
    EXPECT_FALSE(DecodeFileHeader(RepairedWith<uint32_t>(bytes, 16, (uint32_t{1} << bit) + 3)).ok()) << bit;
  }
  EXPECT_FALSE(DecodeFileHeader(RepairedWith<uint32_t>(bytes, 16, 0)).ok());
}

// Columns of types, dtypes and codecs that are not known, with what is kept of them, and what holds for them, too.
TEST(FileHeader, ColumnsOfLaterVersions) {
  FileHeader header;
  header.schema = *Schema::Create(
      {{.name = "a", .type = Type{7}, .dtype = Type{9}, .shape = {{0, uint64_t{1} << 63}}, .storage = Storage::kFixed},
       {.name = "b", .type = Type{0xffff}, .codec = Codec{9}, .nullable = true, .storage = Storage::kBlob},
       {.name = "c",
        .type = Type::kNdarray,
        .dtype = Type{300},
        .shape = {{5}},
        .storage = Storage::kFixed,
        .value_size = 3},
       {.name = "d", .type = Type::kUtf8, .codec = Codec{255}, .is_key = true, .storage = Storage::kInline}});
  const std::string bytes = EncodeFileHeader(header);
  const auto decoded = DecodeFileHeader(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->schema == header.schema);
  FileHeader again = *decoded;
  EXPECT_EQ(EncodeFileHeader(again), bytes);
  EXPECT_EQ(TypeName(decoded->schema[0].type), "type 7");
  EXPECT_EQ(CodecName(decoded->schema[1].codec), "codec 9");
  EXPECT_EQ(decoded->schema.blob_columns(), std::vector<size_t>{1});
  for (const Column& wrong : std::vector<Column>{
           {.name = "a", .type = Type{7}},  // without a storage
           {.name = "a", .type = Type{7}, .codec = Codec::kZstd, .storage = Storage::kBlob},
           {.name = "a", .type = Type{7}, .is_key = true, .storage = Storage::kBlob},
           {.name = "a", .type = Type{7}, .storage = Storage{5}},
           {.name = "a", .type = Type{7}, .storage = Storage::kFixed, .value_size = (uint64_t{1} << 40) + 1},
           {.name = "a", .type = Type{7}, .storage = Storage::kBlob, .value_size = 1},
           {.name = "a", .type = Type::kNdarray, .dtype = Type{300}, .shape = {{5}}, .storage = Storage::kBlob},
           {.name = "a", .type = Type::kNdarray, .dtype = Type{300}, .storage = Storage::kFixed},
           {.name = "a", .type = Type::kI32, .storage = Storage::kFixed, .value_size = 8},
           {.name = "a", .type = Type::kI32, .storage = Storage::kInline},
           {.name = "a", .storage = Storage::kInline},
           {.name = "a", .codec = Codec::kZstd, .storage = Storage::kPaged},
           {.name = "a", .storage = Storage::kFixed}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Schema::Create({wrong}).status()));
  }
}

TEST(Schema, NamesAndMetadata) {
  const auto status = [](Column column) { return Schema::Create({std::move(column)}).status(); };
  for (const std::string& name : {std::string("a\0b", 3), std::string("a\nb"), std::string("\xff"), std::string()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status({.name = name})));
    EXPECT_EQ(status({.name = "a", .metadata = {{name, ""}}}).ok(), name.empty());
  }
  EXPECT_TRUE(status({.name = "a\rb\t", .metadata = {{"a", "b\nc"}}}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(status({.name = "a", .metadata = {{"a", "\xff"}}})));
}

// A dimension of zero hides no others.
TEST(Schema, ShapesWithoutElements) {
  const auto allowed = [](std::vector<uint64_t> shape) {
    return Schema::Create({{.name = "a", .type = Type::kNdarray, .dtype = Type::kU16, .shape = std::move(shape)}}).ok();
  };
  constexpr uint64_t kMost = uint64_t{1} << 39;
  EXPECT_TRUE(allowed({kMost}));
  EXPECT_TRUE(allowed({0, kMost, 0}));
  EXPECT_FALSE(allowed({kMost + 1}));
  EXPECT_FALSE(allowed({0, kMost + 1}));
  EXPECT_FALSE(allowed({kMost, 0, 2}));
  EXPECT_FALSE(allowed({uint64_t{1} << 63, uint64_t{1} << 63, 0}));
}

// The storage that is derived, and that goes with another codec.
TEST(Schema, Storage) {
  const Schema schema =
      *Schema::Create({{.name = "a"}, {.name = "b", .codec = Codec::kZstd}, {.name = "c", .type = Type::kU16}});
  EXPECT_EQ(schema[0].storage, Storage::kBlob);
  EXPECT_EQ(schema[1].storage, Storage::kInline);
  EXPECT_EQ(schema[2].storage, Storage::kFixed);
  EXPECT_EQ(schema[2].value_size, 2u);
  EXPECT_TRUE(schema[0] == (Column{.name = "a"}));
  EXPECT_FALSE(schema[0] == (Column{.name = "a", .codec = Codec::kZstd}));
  std::vector<Column> columns = schema.columns();
  columns[0].SetCodec(Codec::kZstd);
  columns[1].SetCodec(Codec::kNone);
  columns[2].SetCodec(Codec::kZstd);
  const auto changed = Schema::Create(columns);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->blob_columns(), std::vector<size_t>{1});
}

TEST(FileHeader, LengthsAndCounts) {
  FileHeader header = ExampleHeader();
  const std::string bytes = EncodeFileHeader(header);
  for (const uint32_t length : {0u, 16u, 25u, 47u, 49u, (64u << 20) + 8, 0xfffffff8u}) {
    std::string changed = bytes;
    StoreLittle(changed.data() + 12, length);
    EXPECT_TRUE(absl::IsDataLoss(PeekFileHeaderLength(changed).status())) << length;
  }
  for (const uint32_t length : {24u, 48u, 64u << 20}) {
    std::string changed = bytes;
    StoreLittle(changed.data() + 12, length);
    EXPECT_TRUE(PeekFileHeaderLength(changed).ok()) << length;
  }
  for (const uint32_t length : {0u, 1u, 56u, 58u, 0xffffffffu}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(RepairedWith(bytes, 28, length)).status())) << length;
  }
  for (const uint32_t count : {1u, 2u, 0xffffffffu}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(RepairedWith(bytes, 32, count)).status())) << count;
  }
  for (const uint16_t count : {0, 1, 3, 4097, 65535}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(RepairedWith(bytes, 72, count)).status())) << count;
  }
}

TEST(FileHeader, DictionaryRules) {
  const auto decode = [](std::vector<Dictionary> dictionaries) {
    FileHeader header = ExampleHeader();
    header.dictionaries = std::move(dictionaries);
    return DecodeFileHeader(EncodeFileHeader(header)).status();
  };
  EXPECT_TRUE(decode({{0, "x"}}).ok());
  EXPECT_TRUE(decode({{0, std::string(kMaxDictionaryLength, 'x')}}).ok());
  EXPECT_TRUE(absl::IsDataLoss(decode({{0, ""}})));
  EXPECT_TRUE(absl::IsDataLoss(decode({{0, std::string(kMaxDictionaryLength + 1, 'x')}})));
  EXPECT_TRUE(absl::IsDataLoss(decode({{0, "x"}, {0, "x"}})));
  EXPECT_TRUE(absl::IsDataLoss(decode({{1, "x"}})));
  EXPECT_TRUE(absl::IsDataLoss(decode({{2, "x"}})));
}

// One bit of the schema flipped, or the schema cut short, behind a right checksum: refused, or another schema in its
// only form.
TEST(FileHeader, EveryBitAndLengthOfASchema) {
  FileHeader header;
  header.schema = *Schema::Create(
      {{.name = "key",
        .type = Type::kUtf8,
        .codec = Codec::kZstd,
        .is_key = true,
        .metadata = {{"a", "1"}, {"b", "\n"}}},
       {.name = "d",
        .type = Type{77},
        .dtype = Type{9},
        .shape = {{1, 2}},
        .storage = Storage::kFixed,
        .value_size = 3},
       {.name = "e", .type = Type::kNdarray, .dtype = Type::kF32, .shape = {{2}}, .metadata = {{"unit", "m"}}},
       {.name = "f", .type = Type::kNdarray, .codec = Codec{9}, .dtype = Type::kI8, .storage = Storage::kBlob}});
  const std::string bytes = EncodeFileHeader(header);
  const size_t length = LoadLittle<uint32_t>(bytes.data() + 28);
  size_t accepted = 0;
  for (size_t bit = 8 * 72; bit < 8 * (72 + length); ++bit) {
    const std::string flipped = WithByte(bytes, bit / 8, static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8));
    auto decoded = DecodeFileHeader(flipped);
    EXPECT_TRUE(decoded.ok() || absl::IsDataLoss(decoded.status())) << bit << " " << decoded.status();
    if (!decoded.ok()) continue;
    ++accepted;
    EXPECT_FALSE(decoded->schema == header.schema) << bit;
    EXPECT_EQ(EncodeFileHeader(*decoded), flipped) << bit;
  }
  EXPECT_GT(accepted, 100u);
  for (uint32_t cut = 0; cut < length; ++cut) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(RepairedWith(bytes, 28, cut)).status())) << cut;
  }
}

// Bytes changed at random, with a repaired checksum: refused, or a different header in its only form.
TEST(FileHeader, RandomDamage) {
  Random random(2);
  int accepted = 0;
  for (int round = 0; round < test::Thinned(20000); ++round) {
    FileHeader header;
    header.schema = RandomSchema(random, 5);
    std::string bytes = EncodeFileHeader(header);
    for (uint64_t i = 1 + random.Below(3); i-- > 0;) {
      bytes[random.Below(bytes.size() - 8)] = static_cast<char>(random.Chance(2) ? random.Below(4) : random.Next());
    }
    bytes = Repaired(std::move(bytes));
    auto decoded = DecodeFileHeader(bytes);
    if (!decoded.ok()) {
      ASSERT_TRUE(absl::IsDataLoss(decoded.status()) || absl::IsUnimplemented(decoded.status())) << decoded.status();
      continue;
    }
    ++accepted;
    ASSERT_EQ(EncodeFileHeader(*decoded), bytes);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace shardkit::format
