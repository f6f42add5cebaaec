// Footer sections, section table, trailer, offset index and ndarray values.
#include <gtest/gtest.h>

#include <functional>

#include "base/checked.h"
#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "format/footer.h"
#include "format/index_layout.h"
#include "shardkit/schema.h"
#include "support/effort.h"
#include "unit/container/shard_maker.h"

namespace shardkit::format {
namespace {

constexpr uint64_t kFooterOffset = 4096;

struct Footer {
  std::string bytes;  // with the trailer
  uint64_t file_length() const { return kFooterOffset + bytes.size(); }
  std::string_view trailer() const { return std::string_view(bytes).substr(bytes.size() - kTrailerBytes); }
};

Footer MakeFooter(const std::vector<std::pair<SectionKind, std::string>>& sections, Trailer trailer = {}) {
  FooterBuilder builder(kFooterOffset);
  for (const auto& [kind, content] : sections) builder.Add(kind, content);
  return {builder.Finish(trailer)};
}

Footer ExampleFooter() {
  return MakeFooter({{SectionKind::kMetadata, EncodeMetadata({{"a", "b"}})},
                     {SectionKind::kStatistics, std::string(64, '\0')},
                     {SectionKind::kBlockDirectory, ""}});
}

std::string RepairedTrailer(std::string trailer) {
  StoreLittle(trailer.data() + 88, Hash64(trailer.data(), 88));
  return trailer;
}

template <typename T>
std::string With(std::string bytes, size_t offset, T value) {
  StoreLittle(bytes.data() + offset, value);
  return bytes;
}

TEST(Trailer, ComesBack) {
  Trailer trailer;
  trailer.sample_count = 7;
  trailer.block_count = 3;
  trailer.content_hash.fill(9);
  trailer.shard_id = 11;
  const Footer footer = MakeFooter({{SectionKind::kMetadata, "abc"}}, trailer);
  const auto decoded = DecodeTrailer(footer.trailer(), footer.file_length());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->footer_offset, kFooterOffset);
  EXPECT_EQ(decoded->footer_length, 8u + 32);
  EXPECT_EQ(decoded->section_count, 1u);
  EXPECT_EQ(decoded->sample_count, 7u);
  EXPECT_EQ(decoded->block_count, 3u);
  EXPECT_EQ(decoded->content_hash, trailer.content_hash);
  EXPECT_EQ(decoded->file_length, footer.file_length());
  EXPECT_EQ(decoded->shard_id, 11u);
}

TEST(Trailer, EveryRule) {
  const Footer footer = ExampleFooter();
  const std::string good(footer.trailer());
  const auto decode = [&](const std::string& bytes) {
    return std::string(ToStd(DecodeTrailer(bytes, footer.file_length()).status().message()));
  };
  EXPECT_EQ(decode(good), "");
  for (size_t length = 0; length < kTrailerBytes; ++length) EXPECT_NE(decode(good.substr(0, length)), "");
  for (size_t i = 0; i < 8 * kTrailerBytes; ++i) {
    EXPECT_NE(decode(With(good, i / 8, static_cast<char>(good[i / 8] ^ (1 << i % 8)))), "");
  }
  const auto repaired = [&](size_t offset, uint64_t value) {
    return decode(RepairedTrailer(With(good, offset, value)));
  };
  const uint64_t section_count = LoadLittle<uint64_t>(good.data() + 16);
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t one = uint64_t{1} << bit;
    EXPECT_EQ(repaired(80, one), "trailer: reserved bytes are not zero");
    if (bit >= 32) {
      EXPECT_EQ(repaired(16, section_count ^ one), "trailer: reserved bytes are not zero");
    }
    EXPECT_EQ(repaired(0, kFooterOffset ^ one), "trailer: footer offset or length does not fit the file");
    EXPECT_NE(repaired(8, LoadLittle<uint64_t>(good.data() + 8) ^ one), "");
    EXPECT_NE(repaired(64, footer.file_length() ^ one), "");
  }
  EXPECT_EQ(repaired(16, 1000), "trailer: footer offset or length does not fit the file");
  EXPECT_EQ(repaired(32, kMaxShardSamples), "");
  EXPECT_EQ(repaired(32, kMaxShardSamples + 1), "trailer: sample count passes 2^32 - 1");
}

TEST(SectionTable, EveryRule) {
  const Footer footer = ExampleFooter();
  const Trailer good = *DecodeTrailer(footer.trailer(), footer.file_length());
  const std::string table = footer.bytes.substr(good.table_offset() - kFooterOffset, 32 * good.section_count);
  const auto decode = [&](const std::string& bytes, bool has_key = false) {
    Trailer trailer = good;
    trailer.table_checksum = Hash64(bytes);
    return DecodeSectionTable(bytes, trailer, has_key).status();
  };
  EXPECT_TRUE(decode(table).ok());
  EXPECT_TRUE(absl::IsDataLoss(decode(table, true)));
  EXPECT_EQ(DecodeSectionTable(With(table, 0, 'x'), good, false).status().message(), "section table checksum is wrong");
  for (int bit = 1; bit < 32; ++bit) {
    EXPECT_EQ(decode(With(table, 36, uint32_t{1} << bit)).message(),
              "section table: entry 1 has reserved flag bits set");
  }
  for (const uint32_t kind : {3, 4, 8}) {
    EXPECT_EQ(decode(With(table, 32, kind)).message(), "section table: kinds do not descend at entry 1");
  }
  EXPECT_EQ(decode(With(table, 64, uint32_t{0})).message(), "section table: entry 2 has kind 0, which is never given");
  EXPECT_TRUE(absl::IsUnimplemented(decode(With(table, 0, uint32_t{8}))));
  EXPECT_TRUE(absl::IsUnimplemented(decode(With(table, 0, uint32_t{0xffffffff}))));
  // Ignorable, but then the metadata are missing.
  EXPECT_EQ(decode(With(With(table, 0, uint32_t{8}), 4, uint32_t{1})).message(),
            "section table: a section is missing, or there is a key index without a key column");
  EXPECT_EQ(decode(With(table, 4, uint32_t{1})).message(), "section table: entry 0 (metadata) has wrong flags");
  EXPECT_EQ(decode(With(With(table, 0, uint32_t{4}), 4, uint32_t{1})).message(),
            "section table: entry 0 (key index) has wrong flags");
  EXPECT_EQ(decode(With(table, 0, uint32_t{5})).message(), "section table: entry 0 (block headers) has wrong flags");
  EXPECT_EQ(decode(With(table, 0, uint32_t{6})).message(), "section table: entry 0 (block ranges) has wrong flags");
  for (size_t entry = 0; entry < 3; ++entry) {
    for (int bit = 0; bit < 64; ++bit) {
      const std::string changed =
          With(table, 32 * entry + 8, LoadLittle<uint64_t>(table.data() + 32 * entry + 8) ^ uint64_t{1} << bit);
      EXPECT_TRUE(absl::IsDataLoss(decode(changed))) << entry << " offset bit " << bit;
      const uint64_t length = LoadLittle<uint64_t>(table.data() + 32 * entry + 16);
      const uint64_t other = length ^ uint64_t { 1 } << bit;
      // When the length ends in the same multiple of 8, the section's own decoder must refuse it.
      if (RoundUp(other, 8) == RoundUp(length, 8)) continue;
      EXPECT_TRUE(absl::IsDataLoss(decode(With(table, 32 * entry + 16, other)))) << entry << " length bit " << bit;
    }
  }
}

TEST(Section, ChecksumAndPadding) {
  const std::string bytes("abc\0\0\0\0\0", 8), padded("abc\0\0\1\0\0", 8);
  Section section{.kind = 3, .offset = 0, .length = 3, .checksum = Hash64(bytes)};
  EXPECT_TRUE(CheckSection(section, bytes).ok());
  EXPECT_EQ(CheckSection(section, padded).message(), "metadata section checksum is wrong");
  section.checksum = Hash64(padded);
  EXPECT_EQ(CheckSection(section, padded).message(), "metadata section: padding is not zero");
}

TEST(Metadata, RandomOnesComeBackAndEveryTruncationIsDamage) {
  Random random(7);
  for (int round = 0; round < test::Thinned(300); ++round) {
    Metadata metadata;
    for (uint64_t i = random.Below(6); i-- > 0;)
      metadata[StrCat("ż", random.Below(1000))] = std::string(random.Below(20), 'v');
    const std::string bytes = EncodeMetadata(metadata);
    const auto decoded = DecodeMetadata(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(*decoded, metadata);
    for (size_t length = 0; length < bytes.size(); ++length) {
      ASSERT_TRUE(absl::IsDataLoss(DecodeMetadata(bytes.substr(0, length)).status()));
    }
    ASSERT_TRUE(absl::IsDataLoss(DecodeMetadata(bytes + "x").status()));
    std::string mutated = bytes;
    mutated[random.Below(bytes.size())] = static_cast<char>(random.Next());
    const auto other = DecodeMetadata(mutated);
    if (other.ok()) {
      ASSERT_EQ(EncodeMetadata(*other), mutated);
    }
  }
  EXPECT_EQ(DecodeMetadata(EncodeMetadata({{"\xff", ""}})).status().message(), "metadata: entry 0 is not valid UTF-8");
  EXPECT_EQ(DecodeMetadata(EncodeMetadata({{"a", "\xc0"}})).status().message(), "metadata: entry 0 is not valid UTF-8");
  EXPECT_EQ(DecodeMetadata(std::string((64 << 20) + 1, '\0')).status().message(), "metadata: over 64 MiB");
}

TEST(Statistics, RandomOnesComeBack) {
  Random random(9);
  for (int round = 0; round < test::Thinned(200); ++round) {
    const Schema schema = RandomSchema(random, 5);
    std::vector<ColumnStatistics> statistics(schema.size());
    for (int i = 0; i < 10; ++i) {
      for (size_t c = 0; c < schema.size(); ++c) {
        const auto value = RandomValue(random, schema[c], 300);
        if (value) statistics[c].Add(schema[c], value->data(), value->size());
      }
    }
    const std::string bytes = EncodeStatistics(statistics);
    const auto decoded = DecodeStatistics(schema, bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_TRUE(*decoded == statistics);
    for (size_t length = 0; length < bytes.size(); ++length) {
      ASSERT_TRUE(absl::IsDataLoss(DecodeStatistics(schema, bytes.substr(0, length)).status())) << length;
    }
    ASSERT_TRUE(absl::IsDataLoss(DecodeStatistics(schema, bytes + "x").status()));
    for (int bit = 2; bit < 64; ++bit) {
      ASSERT_TRUE(absl::IsDataLoss(DecodeStatistics(schema, With(bytes, 40, uint64_t{1} << bit)).status()));
    }
  }
}

TEST(Statistics, TheHistogramReachesFromTheShortestToTheLongestValue) {
  const Schema schema = *Schema::Create({{.name = "x", .type = Type::kBytes}});
  const auto bytes_of = [&](std::vector<uint64_t> lengths) {
    ColumnStatistics column;
    for (const uint64_t length : lengths) column.Add(schema[0], nullptr, length);
    return EncodeStatistics({{column}}).substr(64);
  };
  const auto counts = [](std::vector<uint64_t> numbers) {
    std::string out;
    for (const uint64_t number : numbers) AppendLittle(out, number);
    return out;
  };
  EXPECT_EQ(bytes_of({}), "");
  EXPECT_EQ(bytes_of({0}), counts({1}));
  EXPECT_EQ(bytes_of({7, 4, 5}), counts({3}));
  EXPECT_EQ(bytes_of({8, 1, 0, 1}), counts({1, 2, 0, 0, 1}));
  EXPECT_EQ(bytes_of({0, UINT64_MAX}).size(), 65u * 8);
}

TEST(BlockRanges, RandomOnesComeBackAndMergeToTheStatistics) {
  Random random(12);
  for (int round = 0; round < test::Thinned(200); ++round) {
    const Schema schema = RandomSchema(random, 6);
    std::vector<ColumnStatistics> shard(schema.size());
    std::vector<std::vector<ColumnStatistics>> blocks(random.Below(4), std::vector<ColumnStatistics>(schema.size()));
    std::vector<BlockInfo> infos(blocks.size());
    std::string bytes;
    for (size_t k = 0; k < blocks.size(); ++k) {
      infos[k].sample_count = static_cast<uint32_t>(1 + random.Below(5));
      for (uint32_t i = 0; i < infos[k].sample_count; ++i) {
        for (size_t c = 0; c < schema.size(); ++c) {
          const auto value = RandomValue(random, schema[c], 30);
          if (value) blocks[k][c].Add(schema[c], value->data(), value->size());
        }
      }
      for (size_t c = 0; c < schema.size(); ++c) shard[c].Merge(blocks[k][c]);
      AppendBlockRanges(schema, blocks[k], &bytes);
    }
    const auto ranges = DecodeBlockRanges(schema, infos, bytes);
    ASSERT_TRUE(ranges.ok()) << ranges.status();
    ASSERT_TRUE(CompareBlockRanges(schema, *ranges, shard).ok());
    for (size_t k = 0; k < blocks.size(); ++k) {
      for (size_t c = 0; c < schema.size(); ++c) {
        const BlockRange* const found = ranges->Find(k, c);
        ASSERT_EQ(found != nullptr, RangeKindOf(schema[c].type) != RangeKind::kNone);
        if (found == nullptr) continue;
        const ColumnStatistics& wanted = blocks[k][c];
        const BlockRange range = {static_cast<uint32_t>(wanted.present_count), wanted.range_kind, wanted.minimum,
                                  wanted.maximum};
        ASSERT_EQ(*found, range);
      }
    }
    ASSERT_TRUE(absl::IsDataLoss(DecodeBlockRanges(schema, infos, bytes + "x").status()));
    if (bytes.empty()) continue;
    for (size_t length = 0; length < bytes.size(); ++length) {
      ASSERT_TRUE(
          absl::IsDataLoss(DecodeBlockRanges(schema, infos, std::string_view(bytes).substr(0, length)).status()));
    }
    ++shard[ranges->columns[0]].present_count;
    ASSERT_TRUE(absl::IsDataLoss(CompareBlockRanges(schema, *ranges, shard)));
  }
}

TEST(BlockRanges, EveryRule) {
  const Schema schema = *Schema::Create({{.name = "text", .type = Type::kUtf8}, {.name = "n", .type = Type::kI16}});
  std::vector<ColumnStatistics> statistics(2);
  for (const int16_t number : {-3, 9}) {
    statistics[1].Add(schema[1], reinterpret_cast<const char*>(&number), 2);
  }
  std::string bytes;
  AppendBlockRanges(schema, statistics, &bytes);
  std::vector<BlockInfo> blocks(1);
  blocks[0].sample_count = 2;
  const auto decode = [&](const std::string& changed) {
    return std::string(ToStd(DecodeBlockRanges(schema, blocks, changed).status().message()));
  };
  const std::string place = "block ranges: block 0: column 1 \"n\": ";
  EXPECT_EQ(decode(bytes), "");
  for (int bit = 1; bit < 32; ++bit) {
    EXPECT_EQ(decode(With(bytes, 4, uint32_t{1} << bit | 1)), place + "reserved flag bits are set");
  }
  EXPECT_EQ(decode(With(bytes, 4, uint32_t{0})), place + "a range where its flag says none");
  EXPECT_EQ(decode(With(With(bytes, 4, uint32_t{0}), 8, uint64_t{0})), place + "a range where its flag says none");
  EXPECT_EQ(decode(With(bytes, 0, uint32_t{3})), place + "present_count does not fit the block");
  EXPECT_EQ(decode(With(bytes, 0, uint32_t{0})), place + "present_count does not fit the block");
  EXPECT_EQ(decode(With(bytes, 8, int64_t{10})), place + "the minimum is above the maximum, or not a number");
  EXPECT_EQ(decode(With(bytes, 8, int64_t{9})), "");
  EXPECT_EQ(decode(std::string(24, '\0')), "") << "nothing present";
  EXPECT_EQ(decode(bytes + bytes), "block ranges: their length does not fit 1 blocks of 1 numeric columns");
  const auto ranges = DecodeBlockRanges(schema, blocks, With(bytes, 16, int64_t{10}));
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  EXPECT_EQ(CompareBlockRanges(schema, *ranges, statistics).message(),
            "block ranges: column 1 \"n\": the ranges of all blocks are not together what the statistics say");
}

TEST(BlockDirectory, EveryRule) {
  std::vector<BlockInfo> blocks = {{128, 192, 128, 0, 3, 11}, {320, 640, 640, 3, 2, 22}};
  Trailer trailer;
  trailer.footer_offset = 960;
  trailer.sample_count = 5;
  trailer.block_count = 2;
  const auto decode = [&](const std::function<void(std::vector<BlockInfo>&)>& change) {
    std::vector<BlockInfo> changed = blocks;
    change(changed);
    return std::string(ToStd(DecodeBlockDirectory(EncodeBlockDirectory(changed), trailer, 128, 64).status().message()));
  };
  const auto good = DecodeBlockDirectory(EncodeBlockDirectory(blocks), trailer, 128, 64);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(*good, blocks);
  EXPECT_NE(decode([](auto& b) { b.pop_back(); }), "");
  for (const size_t k : {0, 1}) {
    const std::string place = StrCat("block directory: offset or length of block ", k, " is wrong");
    EXPECT_EQ(decode([&](auto& b) { b[k].offset += 64; }), place);
    EXPECT_EQ(decode([&](auto& b) { b[k].length = 0; }), place);
    EXPECT_EQ(decode([&](auto& b) { b[k].length += 1; }), place);
    EXPECT_EQ(decode([&](auto& b) { b[k].length = ~uint64_t{63}; }), place);
    EXPECT_EQ(decode([&](auto& b) { b[k].front_length = b[k].length + 1; }), place);
    const std::string samples = StrCat("block directory: first sample or sample count of block ", k, " is wrong");
    EXPECT_EQ(decode([&](auto& b) { b[k].first_sample += 1; }), samples);
    EXPECT_EQ(decode([&](auto& b) { b[k].sample_count = 0; }), samples);
    EXPECT_EQ(decode([&](auto& b) { b[k].sample_count = kMaxBlockSamples + 1; }), samples);
  }
  EXPECT_EQ(decode([](auto& b) { b[1].sample_count = 3; }), "block directory: 6 samples, but the trailer says 5");
  EXPECT_EQ(decode([](auto& b) { b[1].length = b[1].front_length = 576; }),
            "block directory: the blocks do not end where the footer begins");
  const std::string reserved = With<uint32_t>(EncodeBlockDirectory(blocks), 48 + 36, 1);
  EXPECT_EQ(DecodeBlockDirectory(reserved, trailer, 128, 64).status().message(),
            "block directory: reserved bytes of block 1 are not zero");
}

// All decoders of the footer, with bytes changed at random and a correct checksum.
TEST(Footer, RandomDamage) {
  Random random(10);
  const Schema schema = *Schema::Create({{.name = "x", .type = Type::kF32}});
  Trailer counts;
  counts.sample_count = 5;
  counts.block_count = 2;
  const std::vector<BlockInfo> blocks = {{128, 192, 128, 0, 3, 11}, {320, 3776, 640, 3, 2, 22}};
  const std::string directory = EncodeBlockDirectory(blocks);
  ColumnStatistics four_bytes;
  for (int i = 0; i < 5; ++i) four_bytes.Add(schema[0], "\0\0\0\0", 4);
  const std::string statistics = EncodeStatistics({{four_bytes}});
  const Footer footer = MakeFooter({{SectionKind::kMetadata, EncodeMetadata({{"a", "b"}, {"c", "d"}})},
                                    {SectionKind::kStatistics, statistics},
                                    {SectionKind::kBlockDirectory, directory}},
                                   counts);
  const Trailer good = *DecodeTrailer(footer.trailer(), footer.file_length());
  for (int round = 0; round < test::Thinned(20000); ++round) {
    const auto mutate = [&](std::string bytes) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Chance(2) ? random.Below(4) : random.Next());
      return bytes;
    };
    const auto trailer = DecodeTrailer(
        RepairedTrailer(mutate(std::string(footer.trailer())).substr(0, 96) + std::string(footer.trailer().substr(96))),
        footer.file_length());
    if (trailer.ok()) {
      ASSERT_LE(trailer->table_offset() + 32 * trailer->section_count, footer.file_length());
      const std::string table =
          mutate(footer.bytes.substr(trailer->table_offset() - kFooterOffset, 32 * trailer->section_count) + "x");
      Trailer believed = *trailer;
      const std::string_view entries = std::string_view(table).substr(0, table.size() - 1);
      believed.table_checksum = Hash64(entries);
      const auto sections = DecodeSectionTable(entries, believed, false);
      if (sections.ok()) {
        for (const Section& section : *sections) {
          ASSERT_TRUE(RangeWithin(section.offset, PaddedLength(section), footer.file_length()));
        }
      }
    }
    const auto decoded = DecodeBlockDirectory(mutate(directory), good, 128, 64);
    if (decoded.ok()) {
      for (const BlockInfo& block : *decoded) ASSERT_LE(block.offset + block.length, kFooterOffset);
    }
    (void)DecodeStatistics(schema, mutate(statistics));
  }
}

TEST(IndexRoot, RandomOnesComeBackAndEveryTruncationIsDamage) {
  Random random(11);
  for (int round = 0; round < test::Thinned(50); ++round) {
    IndexRoot root{.shard_count = random.Next(),
                   .block_count = random.Next(),
                   .sample_count = random.Next(),
                   .dataset_hash = random.Next()};
    std::vector<std::string> names;
    for (uint64_t i = random.Below(6); i > 0; --i) names.push_back(StrCat(i, random.Bytes(random.Below(9))));
    for (uint64_t i = random.Below(4); i > 0; --i) {
      auto& layout = root.layouts.emplace_back();
      for (const std::string& name : names) {
        if (random.Chance(2)) layout.push_back(name);
      }
    }
    const std::string bytes = EncodeIndexRoot(root);
    ASSERT_EQ(bytes.size() % 8, 0u);
    const auto decoded = DecodeIndexRoot(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->layouts, root.layouts);
    ASSERT_EQ(EncodeIndexRoot(*decoded), bytes);
    for (size_t length = 0; length + 8 <= bytes.size(); ++length) {
      ASSERT_TRUE(absl::IsDataLoss(DecodeIndexRoot(bytes.substr(0, length)).status())) << length;
    }
    ASSERT_TRUE(absl::IsDataLoss(DecodeIndexRoot(bytes + std::string(8, '\0')).status()));
    // What a flipped bit leaves is damage, or another root.
    for (size_t bit = 8 * 32; bit < 8 * bytes.size(); ++bit) {
      std::string changed = bytes;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
      const auto other = DecodeIndexRoot(changed);
      if (other.ok()) {
        ASSERT_EQ(EncodeIndexRoot(*other), changed);
      } else {
        ASSERT_TRUE(absl::IsDataLoss(other.status())) << other.status();
      }
    }
  }
}

TEST(IndexRoot, RefusesRepeatedColumnsAndTooManyOfThem) {
  EXPECT_TRUE(absl::IsDataLoss(DecodeIndexRoot(EncodeIndexRoot({.layouts = {{"a", "b", "a"}}})).status()));
  EXPECT_TRUE(DecodeIndexRoot(EncodeIndexRoot({.layouts = {{"a"}, {"b", "a"}}})).ok());
  std::vector<std::string> names;
  for (size_t i = 0; i <= kMaxColumns; ++i) names.push_back(StrCat(i));
  IndexRoot many{.layouts = {{names.begin(), names.end()}}};
  EXPECT_TRUE(absl::IsDataLoss(DecodeIndexRoot(EncodeIndexRoot(many)).status()));
  many.layouts[0].pop_back();
  EXPECT_TRUE(DecodeIndexRoot(EncodeIndexRoot(many)).ok());
}

TEST(IndexPage, BlocksComeBackWithTheirPlaces) {
  IndexPageBuilder builder;
  const IndexBlock blocks[] = {
      {1, 2, 3, 4, 2, 6, 7, 8, 0, 0}, {11, 12, 13, 6, 5, 16, 17, 0, 1, 0}, {21, 22, 23, 11, 1, 26, 27, 1, 0, 0}};
  const uint64_t places[] = {100, 200, 300};
  builder.Add(blocks[0], std::span(places).first(2));
  builder.Add(blocks[1], {});
  builder.Add(blocks[2], std::span(places).last(1));
  EXPECT_EQ(builder.first_sample(), 4u);
  EXPECT_EQ(builder.SizeWith(2), 8 + 64 * 4 + 8 * 5u);
  const std::string page = builder.Take();
  EXPECT_TRUE(builder.empty());
  ASSERT_EQ(page.size(), 8 + 64 * 3 + 8 * 3u);
  ASSERT_EQ(*DecodeIndexPageHead(page), 3u);
  const uint64_t begins[] = {200, 0, 216};
  for (uint32_t i = 0; i < 3; ++i) {
    IndexBlock wanted = blocks[i];
    wanted.places_begin = begins[i];
    EXPECT_EQ(LoadIndexBlock(page, i), wanted) << i;
  }
  EXPECT_EQ(LoadLittle<uint64_t>(page.data() + 216), 300u);
  // Neither no block, nor more than fit, nor a reserved byte.
  for (const auto& [at, value] : {std::pair{0, '\0'}, {0, '\4'}, {3, '\1'}, {4, '\1'}}) {
    std::string changed = page;
    changed[at] = value;
    EXPECT_TRUE(absl::IsDataLoss(DecodeIndexPageHead(changed).status())) << at;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeIndexPageHead(page.substr(0, 7)).status()));
}

TEST(Ndarray, RandomOnesComeBackAndEveryTruncationIsDamage) {
  Random random(12);
  const Column column{.name = "a", .type = Type::kNdarray, .dtype = Type::kI16};
  for (int round = 0; round < test::Thinned(500); ++round) {
    std::vector<uint64_t> shape(random.Below(kMaxRank + 1));
    uint64_t count = 1;
    for (uint64_t& dimension : shape) count *= dimension = random.Below(4);
    const std::string data = random.Bytes(2 * count);
    std::string value;
    ASSERT_TRUE(AppendNdarray(Type::kI16, shape, data, &value).ok());
    ASSERT_EQ(value.size() % 8, 0u);
    const auto view = ParseNdarray(column, value);
    ASSERT_TRUE(view.ok()) << view.status();
    ASSERT_EQ(view->shape, shape);
    ASSERT_EQ(view->data, data);
    for (size_t length = 0; length < value.size(); ++length) {
      ASSERT_TRUE(absl::IsDataLoss(ParseNdarray(column, value.substr(0, length)).status())) << length;
    }
    ASSERT_TRUE(absl::IsDataLoss(ParseNdarray(column, value + std::string(8, '\0')).status()));
  }
}

TEST(Ndarray, Limits) {
  const Column column{.name = "a", .type = Type::kNdarray, .dtype = Type::kF64};
  std::string value;
  const std::vector<uint64_t> nine(9, 1), huge = {uint64_t{1} << 62, 8}, empty = {uint64_t{1} << 62, 8, 0};
  EXPECT_TRUE(absl::IsInvalidArgument(AppendNdarray(Type::kF64, nine, "12345678", &value)));
  EXPECT_TRUE(absl::IsInvalidArgument(AppendNdarray(Type::kF64, huge, "", &value)));
  EXPECT_TRUE(absl::IsInvalidArgument(AppendNdarray(Type::kUtf8, {}, "", &value)));
  EXPECT_EQ(value, "");
  // No elements, whatever the order of the dimensions.
  ASSERT_TRUE(AppendNdarray(Type::kF64, empty, "", &value).ok());
  EXPECT_TRUE(ParseNdarray(column, value).ok());
  EXPECT_TRUE(absl::IsDataLoss(ParseNdarray(column, With<uint64_t>(value, 0, 9)).status()));
  EXPECT_TRUE(absl::IsDataLoss(ParseNdarray(column, With<uint64_t>(value, 0, 3 | 1 << 8)).status()));
}

}  // namespace
}  // namespace shardkit::format
