// Block headers and the contents of chunks.
#include <gtest/gtest.h>

#include <functional>

#include "base/checked.h"
#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "format/block_header.h"
#include "format/chunk.h"
#include "support/effort.h"
#include "unit/container/shard_maker.h"

namespace shardkit::format {
namespace {

Schema Columns() {
  return *Schema::Create({{.name = "blob", .type = Type::kBytes, .nullable = true},
                          {.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd},
                          {.name = "x", .type = Type::kF64, .nullable = true}});
}

// A header for `schema` that follows every rule, with random lengths.
BlockHeader RandomHeader(Random& random, const Schema& schema) {
  BlockHeader header;
  header.sample_count = static_cast<uint32_t>(1 + random.Below(random.Chance(10) ? kMaxBlockSamples : 100));
  header.first_sample = random.Below(1000);
  header.shard_id = random.Next();
  for (const Column& column : schema.columns()) {
    ColumnEntry entry;
    const HeadLayout layout(column, header.sample_count);
    entry.raw_length = layout.values_offset;
    if (column.is_paged()) entry.raw_length += 16 * (1 + random.Below(header.sample_count));
    if (column.has_values_chunk()) {
      entry.values_length = random.Below(uint64_t{1} << 40);
      entry.values_checksum = random.Next();
    } else {
      entry.raw_length += column.fixed_size() ? *column.fixed_size() * header.sample_count : random.Below(5000);
    }
    entry.stored_length = entry.raw_length;
    entry.checksum = random.Next();
    if (column.codec == Codec::kZstd && entry.raw_length != 0 && random.Chance(2)) {
      entry.encoding = random.Chance(2) ? Encoding::kZstd : Encoding::kZstdDictionary;
      entry.stored_length = entry.raw_length / (1 + random.Below(100));
    }
    header.columns.push_back(entry);
  }
  LayOutBlock(schema, header);
  return header;
}

TEST(BlockHeader, RandomOnesComeBack) {
  Random random(3);
  for (int round = 0; round < test::Thinned(3000); ++round) {
    const Schema schema = RandomSchema(random, 10);
    BlockHeader header = RandomHeader(random, schema);
    std::string bytes;
    EncodeBlockHeader(header, &bytes);
    ASSERT_EQ(bytes.size(), BlockHeaderLength(schema.size()));
    BlockHeader decoded;
    const absl::Status status = DecodeBlockHeader(schema, bytes + random.Bytes(20), &decoded);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(decoded.checksum, header.checksum);
    ASSERT_EQ(decoded.block_length % kChunkAlignment, 0u);
    std::string again;
    EncodeBlockHeader(decoded, &again);
    ASSERT_EQ(again, bytes);
  }
}

TEST(BlockHeader, EveryTruncationAndEveryByte) {
  Random random(4);
  const Schema schema = Columns();
  BlockHeader header = RandomHeader(random, schema);
  std::string bytes;
  EncodeBlockHeader(header, &bytes);
  BlockHeader decoded;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeBlockHeader(schema, bytes.substr(0, length), &decoded))) << length;
  }
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(absl::IsDataLoss(DecodeBlockHeader(schema, flipped, &decoded))) << bit;
    // With a correct checksum, only fields without another check may differ: checksums, first_sample, shard_id, and
    // lengths that end in the same multiple of 64.
    const absl::Status repaired = DecodeBlockHeader(schema, Repaired(flipped), &decoded);
    if (repaired.ok()) {
      std::string again;
      EncodeBlockHeader(decoded, &again);
      EXPECT_EQ(again, Repaired(flipped));
    } else {
      EXPECT_TRUE(absl::IsDataLoss(repaired)) << repaired;
    }
  }
}

TEST(BlockHeader, EachRule) {
  const Schema schema = Columns();
  BlockHeader good;
  good.sample_count = 2;
  good.columns.resize(3);
  good.columns[0] = {.stored_length = 24, .raw_length = 24, .values_length = 20};
  good.columns[1] = {.stored_length = 21, .raw_length = 21};
  good.columns[2] = {.stored_length = 24, .raw_length = 24};
  LayOutBlock(schema, good);
  const auto decode = [&](const std::function<void(BlockHeader&)>& change, bool lay_out = true) {
    BlockHeader header = good;
    change(header);
    if (lay_out) LayOutBlock(schema, header);
    std::string bytes;
    EncodeBlockHeader(header, &bytes);
    BlockHeader decoded;
    return std::string(ToStd(DecodeBlockHeader(schema, bytes, &decoded).message()));
  };
  EXPECT_EQ(decode([](BlockHeader&) {}), "");
  EXPECT_EQ(decode([](BlockHeader& h) { h.sample_count = 0; }), "block header: sample count 0 is not allowed");
  EXPECT_EQ(decode([](BlockHeader& h) { h.sample_count = kMaxBlockSamples + 1; }),
            "block header: sample count 1048577 is not allowed");
  EXPECT_EQ(decode([](BlockHeader& h) { h.first_sample = kMaxShardSamples + 1; }),
            "block header: first sample 4294967296 is not allowed");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[0].raw_length = 25; }),
            "block header: column 0 \"blob\": stored and raw length of a raw chunk differ");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[0].encoding = Encoding::kZstd; }),
            "block header: column 0 \"blob\": compressed though the column's codec is none");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[1].encoding = static_cast<Encoding>(3); }),
            "block header: column 1 \"text\": unknown encoding");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[0].raw_length = h.columns[0].stored_length = 32; }),
            "block header: column 0 \"blob\": the chunk's length does not fit its values");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[1].raw_length = h.columns[1].stored_length = 15; }),
            "block header: column 1 \"text\": the chunk is shorter than its tables");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[2].raw_length = h.columns[2].stored_length = 32; }),
            "block header: column 2 \"x\": the chunk's length does not fit its values");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[2].values_checksum = 1; }),
            "block header: column 2 \"x\": a values chunk on a column that has none");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[0].values_length = kMaxLength + 1; }),
            "block header: column 0 \"blob\": a length passes 2^62");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[0].values_length = kMaxLength; }),
            "block header: the block passes 2^62 bytes");
  EXPECT_EQ(decode([](BlockHeader& h) { h.front_length += 64; }, false), "block header: front length is wrong");
  EXPECT_EQ(decode([](BlockHeader& h) { h.block_length += 64; }, false), "block header: block length is wrong");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[2].offset += 64; }, false),
            "block header: column 2 \"x\": chunk offset is wrong");
  EXPECT_EQ(decode([](BlockHeader& h) { h.columns[0].values_offset += 64; }, false),
            "block header: column 0 \"blob\": values chunk offset is wrong");
  const auto zstd = [&](uint64_t stored, uint64_t raw) {
    return decode([&](BlockHeader& h) {
      h.columns[1] = {.stored_length = stored, .raw_length = raw, .encoding = Encoding::kZstd};
    });
  };
  const std::string over = "block header: column 1 \"text\": the raw length of the compressed chunk passes the limit";
  EXPECT_EQ(zstd(13, 0), "block header: column 1 \"text\": compressed though the raw length is 0");
  EXPECT_EQ(zstd(1, uint64_t{64} << 20), "");
  EXPECT_EQ(zstd(1, (uint64_t{64} << 20) + 1), over);
  EXPECT_EQ(zstd(65536, (uint64_t{64} << 20) + 1), "");
  EXPECT_EQ(zstd(uint64_t{1} << 21, uint64_t{1} << 31), "");
  EXPECT_EQ(zstd(uint64_t{1} << 31, (uint64_t{1} << 31) + 1), over);
}

TEST(BlockHeader, EveryReservedByte) {
  Random random(5);
  const Schema schema = Columns();
  BlockHeader header = RandomHeader(random, schema), decoded;
  std::string bytes;
  EncodeBlockHeader(header, &bytes);
  std::vector<size_t> reserved = {44, 45, 46, 47};
  for (size_t column = 0; column < schema.size(); ++column) {
    for (size_t i = 57; i < 64; ++i) reserved.push_back(56 + 64 * column + i);
  }
  for (const size_t offset : reserved) {
    std::string changed = bytes;
    changed[offset] = 1;
    const absl::Status status = DecodeBlockHeader(schema, Repaired(changed), &decoded);
    EXPECT_NE(status.message().find("reserved bytes"), absl::string_view::npos) << offset << status;
  }
}

// A head chunk made from lengths: negative for absent.
std::string Head(const Column& column, const std::vector<int>& lengths, std::string* values) {
  std::string presence(HeadLayout(column, static_cast<uint32_t>(lengths.size())).presence_bytes, '\0'), ends;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 0) {
      if (column.nullable) presence[i / 8] = static_cast<char>(presence[i / 8] | 1 << i % 8);
      const std::string value(static_cast<size_t>(lengths[i]), static_cast<char>('a' + i % 26));
      *values += value;
      if (column.is_blob()) AppendLittle(*values, Hash64(value));
    }
    AppendLittle<uint64_t>(ends, values->size());
  }
  return presence + ends + (column.is_blob() ? "" : *values);
}

TEST(Chunk, RandomOnesComeBackAndDamageStaysInside) {
  Random random(6);
  int accepted = 0;
  for (int round = 0; round < test::Thinned(20000); ++round) {
    const Column column{
        .name = "c", .codec = random.Chance(2) ? Codec::kZstd : Codec::kNone, .nullable = random.Chance(2)};
    std::vector<int> lengths(1 + random.Below(70));
    for (int& length : lengths) length = column.nullable && random.Chance(3) ? -1 : static_cast<int>(random.Below(20));
    const uint32_t count = static_cast<uint32_t>(lengths.size());
    std::string values;
    std::string head = Head(column, lengths, &values);
    auto view = ParseColumn(column, count, head, values, values.size());
    ASSERT_TRUE(view.ok()) << view.status();
    for (uint32_t i = 0; i < count; ++i) {
      const std::optional<std::string_view> value = view->value(i);
      ASSERT_EQ(value.has_value(), lengths[i] >= 0);
      if (value) {
        ASSERT_EQ(*value, std::string(lengths[i], static_cast<char>('a' + i % 26)));
      }
    }
    if (column.is_blob()) {
      ASSERT_TRUE(CheckRecords(*view).ok());
    }

    // Exact copies on the heap, so that a sanitizer notices reads past the end.
    head[random.Below(head.size())] = static_cast<char>(random.Chance(2) ? random.Below(4) : random.Next());
    const std::vector<char> exact_head(head.begin(), head.end()), exact_values(values.begin(), values.end());
    view = ParseColumn(column, count, {exact_head.data(), exact_head.size()},
                       {exact_values.data(), exact_values.size()}, values.size());
    if (!view.ok()) {
      ASSERT_TRUE(absl::IsDataLoss(view.status()));
      continue;
    }
    ++accepted;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const std::string_view value = view->value(i).value_or("");
      for (const char byte : value) sum += static_cast<uint8_t>(byte);
    }
    ASSERT_LT(sum, uint64_t{256} * (head.size() + values.size()));
    if (column.is_blob()) (void)CheckRecords(*view);
  }
  EXPECT_GT(accepted, 100);
}

TEST(Chunk, EachRule) {
  const Column blob{.name = "c", .nullable = true};
  std::string values;
  const std::string head = Head(blob, {3, -1, 0}, &values);
  ASSERT_EQ(values.size(), 19u);
  const auto parse = [&](size_t offset, char byte) {
    std::string changed = head;
    changed[offset] = byte;
    return std::string(ToStd(ParseColumn(blob, 3, changed, values, values.size()).status().message()));
  };
  EXPECT_EQ(parse(0, 5), "");
  EXPECT_EQ(parse(0, 13), "presence bits after the last sample are not zero");
  for (size_t i = 1; i < 8; ++i) EXPECT_EQ(parse(i, 1), "presence bits after the last sample are not zero");
  EXPECT_EQ(parse(0, 1), "sample 2 of the block: an absent value has 8 bytes");
  EXPECT_EQ(parse(0, 7), "sample 1 of the block: a record of 0 bytes is too short for its checksum");
  EXPECT_EQ(parse(8, 7), "sample 0 of the block: a record of 7 bytes is too short for its checksum");
  EXPECT_EQ(parse(16, 12), "sample 1 of the block: an absent value has 1 bytes");
  EXPECT_EQ(parse(16, 10),
            "ends: value of sample 1 of the block ends at 10, before it begins at 11 or after the values' 19 "
            "bytes");
  EXPECT_EQ(parse(24, 20),
            "ends: value of sample 2 of the block ends at 20, before it begins at 11 or after the values' 19 "
            "bytes");
  EXPECT_EQ(parse(24, 18), "ends: the last value ends at 18, not at the values' 19 bytes");

  EXPECT_TRUE(absl::IsDataLoss(OpenRecord("1234567").status()));
  values[1] ^= 1;
  const auto view = ParseColumn(blob, 3, head, values, values.size());
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(CheckRecords(*view).message(), "sample 0 of the block: value checksum is wrong");

  const Column fixed{.name = "c", .type = Type::kU16, .nullable = true};
  const std::string slots{"\5\0\0\0\0\0\0\0\1\0\0\1\2\0", 14};
  const auto slot_view = ParseColumn(fixed, 3, slots, {}, 0);
  ASSERT_TRUE(slot_view.ok()) << slot_view.status();
  EXPECT_EQ(CheckAbsentSlots(*slot_view).message(), "sample 1 of the block: the slot of an absent value is not zero");
}

}  // namespace
}  // namespace shardkit::format
