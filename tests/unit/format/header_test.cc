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

// Repairs the checksum, so that the checks behind it are reached.
std::string Repaired(std::string bytes) {
  StoreLittle(bytes.data() + bytes.size() - 8, Hash64(bytes.data(), bytes.size() - 8));
  return bytes;
}

std::string WithByte(std::string bytes, size_t offset, char value) {
  bytes[offset] = value;
  return Repaired(std::move(bytes));
}

template <typename T>
std::string With(std::string bytes, size_t offset, T value) {
  StoreLittle(bytes.data() + offset, value);
  return Repaired(std::move(bytes));
}

FileHeader Example() {
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

TEST(FileHeader, SchemaBytesAreThoseOfTheSpecification) {
  FileHeader header = Example();
  const std::string bytes = EncodeFileHeader(header);
  const std::string_view schema{
      "\2\0"
      "\3key\2\0\0\0\1\2\2\0\0\0\0\0"
      "\2ab\x20\0\x1a\0\0\1\1\2\x18\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0",
      57};
  EXPECT_EQ(LoadLittle<uint32_t>(bytes.data() + 28), schema.size());
  EXPECT_EQ(std::string_view(bytes).substr(40, schema.size()), schema);
  EXPECT_EQ(header.length, 40u + 57 + 7 + 8);
}

TEST(FileHeader, EveryTruncationIsDamage) {
  FileHeader header = Example();
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
  FileHeader header = Example();
  const std::string bytes = EncodeFileHeader(header);
  std::string flipped = bytes;
  flipped[9] ^= 1;
  EXPECT_EQ(Message(flipped), "DATA_LOSS: header checksum is wrong");
  EXPECT_EQ(Message(With<uint16_t>(bytes, 8, 2)),
            "UNIMPLEMENTED: header: major version 2 is not supported (this version reads 1)");
  EXPECT_EQ(Message(With<uint16_t>(bytes, 8, 0)),
            "UNIMPLEMENTED: header: major version 0 is not supported (this version reads 1)");
}

// Every major version has the fields up to header_length, and a checksum at the end.
TEST(FileHeader, TheShortestHeadersTellTheirVersion) {
  FileHeader header = Example();
  const std::string bytes = EncodeFileHeader(header);
  for (uint32_t length = 24; length <= 56; length += 8) {
    const std::string one = With(bytes.substr(0, length), 12, length);
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(one).status())) << length;
    EXPECT_TRUE(absl::IsUnimplemented(DecodeFileHeader(With<uint16_t>(one, 8, 2)).status())) << length;
  }
}

// Each change makes a defect that comes before those of the changes in front of it.
TEST(FileHeader, TheFirstDefectOfTheTableIsReported) {
  FileHeader header = Example();
  header.dictionaries.push_back({0, "words"});
  std::string bytes = EncodeFileHeader(header);
  const auto damage = [&](size_t offset, std::string_view found, auto value) {
    bytes = With(bytes, offset, value);
    EXPECT_NE(Message(bytes).find(found), std::string::npos) << Message(bytes) << "\nnot: " << found;
  };
  damage(97, "DATA_LOSS: header: dictionary 0 belongs to column 9", uint32_t{9});
  damage(43, "DATA_LOSS: schema: a column name is not valid UTF-8", uint8_t{0xff});
  damage(93, "DATA_LOSS: schema: column 1: metadata: entry 0 is cut short", uint32_t{1});
  damage(68, "DATA_LOSS: schema: column 1: more than 8 dimensions", uint8_t{9});
  damage(67, "DATA_LOSS: schema: column 1: reserved flag bits", uint8_t{0x80});
  damage(66, "DATA_LOSS: schema: column 1: storage 4 is not 1, 2 or 3", uint8_t{4});
  damage(52, "DATA_LOSS: schema: column 0: reserved flag bits", uint8_t{0x80});
  damage(40, "DATA_LOSS: schema: 0 columns", uint16_t{0});
  damage(36, "DATA_LOSS: header: reserved bytes at offset 36", uint32_t{1});
  damage(16, "DATA_LOSS: header: alignment 96", uint32_t{96});
  damage(20, "UNIMPLEMENTED: header: incompatible flag bit 5", uint32_t{1 << 5 | 1 << 9});
  damage(8, "UNIMPLEMENTED: header: major version 3", uint16_t{3});
  bytes.back() ^= 1;
  EXPECT_EQ(Message(bytes), "DATA_LOSS: header checksum is wrong");
}

TEST(FileHeader, EveryReservedField) {
  FileHeader header = Example();
  const std::string bytes = EncodeFileHeader(header);
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_EQ(Message(With<uint32_t>(bytes, 20, uint32_t{1} << bit)),
              StrCat("UNIMPLEMENTED: header: incompatible flag bit ", bit,
                     " is set; a newer version of Shardkit may read it"));
    EXPECT_TRUE(DecodeFileHeader(With<uint32_t>(bytes, 24, uint32_t{1} << bit)).ok());
    EXPECT_EQ(Message(With<uint32_t>(bytes, 36, uint32_t{1} << bit)),
              "DATA_LOSS: header: reserved bytes at offset 36 are not zero");
  }
  for (int bit = 2; bit < 8; ++bit) {
    EXPECT_EQ(Message(WithByte(bytes, 52, static_cast<char>(2 | 1 << bit))),
              "DATA_LOSS: schema: column 0: reserved flag bits are set");
  }
  for (size_t offset = 97; offset < 104; ++offset) {
    EXPECT_EQ(Message(WithByte(bytes, offset, 1)), "DATA_LOSS: header: padding before the checksum is not zero");
  }
}

TEST(FileHeader, EveryTypeCodecAndAlignment) {
  FileHeader header = Example();
  header.schema = *Schema::Create({{.name = "x", .type = Type::kU8}});
  const std::string bytes = EncodeFileHeader(header);
  for (int value = 0; value < 256; ++value) {
    const auto decoded = DecodeFileHeader(WithByte(bytes, 44, static_cast<char>(value)));
    const bool known = IsKnownType(static_cast<Type>(value));
    // Storage fixed with a value_size of 1.
    EXPECT_EQ(decoded.ok(), known && ScalarSize(static_cast<Type>(value)) == 1) << value;
    if (!known || static_cast<Type>(value) == Type::kNdarray) {
      EXPECT_TRUE(absl::IsUnimplemented(decoded.status())) << decoded.status();
    }
    const auto codec = DecodeFileHeader(WithByte(bytes, 48, static_cast<char>(value)));
    EXPECT_EQ(codec.ok(), value < 2) << value;
    if (value >= 2) {
      EXPECT_TRUE(absl::IsUnimplemented(codec.status())) << codec.status();
    }
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 46, static_cast<char>(value))).ok(), value == 0) << "dtype";
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 51, static_cast<char>(value))).ok(), value == 0) << "rank";
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 49, static_cast<char>(value))).ok(), value == 1) << "storage";
    EXPECT_EQ(DecodeFileHeader(WithByte(bytes, 52, static_cast<char>(value))).ok(), value == 1) << "value_size";
  }
  for (int bit = 0; bit < 32; ++bit) {
    const bool allowed = bit >= 6 && bit <= 20;
    EXPECT_EQ(DecodeFileHeader(With<uint32_t>(bytes, 16, uint32_t{1} << bit)).ok(), allowed) << bit;
    EXPECT_FALSE(DecodeFileHeader(With<uint32_t>(bytes, 16, (uint32_t{1} << bit) + 3)).ok()) << bit;
  }
  EXPECT_FALSE(DecodeFileHeader(With<uint32_t>(bytes, 16, 0)).ok());
}

TEST(FileHeader, LengthsAndCounts) {
  FileHeader header = Example();
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
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(With(bytes, 28, length)).status())) << length;
  }
  for (const uint32_t count : {1u, 2u, 0xffffffffu}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(With(bytes, 32, count)).status())) << count;
  }
  for (const uint16_t count : {0, 1, 3, 4097, 65535}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFileHeader(With(bytes, 40, count)).status())) << count;
  }
}

TEST(FileHeader, DictionaryRules) {
  const auto decode = [](std::vector<Dictionary> dictionaries) {
    FileHeader header = Example();
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
