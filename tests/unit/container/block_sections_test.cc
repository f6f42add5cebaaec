// The sections of the footer that readers can do without: copies of the block headers, and ranges of the blocks.
#include <gtest/gtest.h>

#include <bit>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "container/read/native_shard_reader.h"
#include "container/write/block_builder.h"
#include "format/block_header.h"
#include "shardkit/validate.h"
#include "support/effort.h"
#include "unit/container/shard_maker.h"

namespace shardkit::container {
namespace {

using format::SectionKind;

const std::string kSectionsPath = "/s.shard";

std::string WithSection(std::string_view shard, SectionKind wanted, const std::optional<std::string>& replacement) {
  return WithSections(shard, true, [&](SectionKind kind, std::string_view content) {
    return kind == wanted ? replacement : std::optional<std::string>(content);
  });
}

std::vector<std::string> Problems(FileSystem& files) {
  const auto report = Validate(files, kSectionsPath);
  EXPECT_TRUE(report.ok()) << report.status();
  std::vector<std::string> messages;
  if (report.ok()) {
    for (const Problem& problem : report->problems) messages.push_back(problem.message);
  }
  return messages;
}

class BlockSections : public testing::Test {
 protected:
  BlockSections() : files_(NewMemoryFileSystem()) {
    schema_ = *Schema::Create({{.name = "key", .type = Type::kUtf8, .codec = Codec::kZstd, .is_key = true},
                               {.name = "blob", .type = Type::kBytes, .nullable = true},
                               {.name = "n", .type = Type::kI16, .nullable = true},
                               {.name = "x", .type = Type::kF32}});
    Random random(400);
    rows_ = RandomRows(random, schema_, 11, 60);
    EXPECT_TRUE(WriteShard(*files_, kSectionsPath, schema_, rows_, {.max_block_samples = 4, .alignment = 64}).ok());
    good_ = ReadWhole(*files_, kSectionsPath);
  }

  std::unique_ptr<ShardReader> Open(ReadMode mode = ReadMode::kBuffered) {
    auto shard = ShardReader::Open(*files_, kSectionsPath, {.mode = mode});
    EXPECT_TRUE(shard.ok()) << shard.status();
    return *std::move(shard);
  }

  std::string Section(SectionKind wanted) {
    std::string found;
    WithSections(good_, true, [&](SectionKind kind, std::string_view content) {
      if (kind == wanted) found = content;
      return std::optional<std::string>(content);
    });
    EXPECT_FALSE(found.empty());
    return found;
  }

  // Reads column `column` of block `k` and compares it with the rows.
  absl::Status Project(const ShardReader& shard, size_t k, size_t column) {
    BlockBuffer buffer;
    BlockView view;
    const size_t columns[] = {column};
    const absl::Status status = shard.ReadBlock(k, columns, &buffer, &view);
    for (uint32_t i = 0; status.ok() && i < view.sample_count(); ++i) {
      EXPECT_EQ(view.column(column).value(i), rows_[view.first_sample() + i][column]);
    }
    return status;
  }

  std::unique_ptr<FileSystem> files_;
  Schema schema_;
  std::vector<ShardRow> rows_;
  std::string good_;
};

TEST_F(BlockSections, AreNotNeeded) {
  for (const std::vector<SectionKind>& without :
       std::vector<std::vector<SectionKind>>{{SectionKind::kBlockHeaders},
                                             {SectionKind::kBlockRanges},
                                             {SectionKind::kBlockHeaders, SectionKind::kBlockRanges}}) {
    std::string shard = good_;
    for (const SectionKind kind : without) shard = WithSection(shard, kind, std::nullopt);
    EXPECT_LT(shard.size(), good_.size());
    WriteWhole(*files_, kSectionsPath, shard);
    EXPECT_EQ(Problems(*files_), std::vector<std::string>());
    for (const ReadMode mode : kReadModes) {
      const auto reader = Open(mode);
      for (size_t k = 0; k < reader->blocks().size(); ++k) {
        for (size_t c = 0; c < schema_.size(); ++c) EXPECT_TRUE(Project(*reader, k, c).ok());
      }
      EXPECT_EQ(absl::IsNotFound(reader->ReadBlockRanges().status()), without.back() == SectionKind::kBlockRanges);
    }
  }
}

// The blocks themselves say nothing then about where their chunks are.
TEST_F(BlockSections, CopiesStandForTheHeaders) {
  std::string shard = good_;
  const uint64_t length = format::BlockHeaderLength(schema_.size());
  const auto whole = Open();
  for (const BlockInfo& block : whole->blocks()) shard.replace(block.offset, length, length, '\0');
  WriteWhole(*files_, kSectionsPath, shard);
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kDirect}) {
    const auto reader = Open(mode);
    for (size_t k = 0; k < reader->blocks().size(); ++k) {
      for (size_t c = 0; c < schema_.size(); ++c) EXPECT_TRUE(Project(*reader, k, c).ok());
      BlockBuffer buffer;
      BlockView view;
      EXPECT_TRUE(absl::IsDataLoss(reader->ReadBlock(k, {}, &buffer, &view)));
    }
  }
  EXPECT_EQ(Problems(*files_).size(), 3u);
}

// With every checksum right except the one that the bit is under, a copy never says anything but the header.
TEST_F(BlockSections, EveryBitOfACopyMatters) {
  const std::string copies = Section(SectionKind::kBlockHeaders);
  const uint64_t length = format::BlockHeaderLength(schema_.size());
  for (size_t bit = 0; bit < 8 * copies.size(); bit += test::TestStep()) {
    std::string changed = copies;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    const size_t block = bit / 8 / length;
    for (const bool sealed : {false, true}) {
      if (sealed) StoreLittle(&changed[length * (block + 1) - 8], Hash64(changed.data() + length * block, length - 8));
      if (changed == copies) continue;
      WriteWhole(*files_, kSectionsPath, WithSection(good_, SectionKind::kBlockHeaders, changed));
      const auto reader = Open();
      for (size_t k = 0; k < 3; ++k) {
        const absl::Status status = Project(*reader, k, 1);
        EXPECT_EQ(absl::IsDataLoss(status), k == block) << "bit " << bit << ": " << status;
        if (k == block) {
          const std::string_view message = ToStd(status.message());
          EXPECT_TRUE(message.starts_with(StrCat(kSectionsPath, ": block ", k, " "))) << status;
          EXPECT_NE(message.find("copy in the block headers section"), message.npos) << status;
        }
      }
      // Who reads the whole block, or a single value, or what is left of a damaged one, takes its own header.
      BlockBuffer buffer;
      BlockView view;
      BlockDamage damage;
      const size_t columns[] = {0, 1};
      EXPECT_TRUE(reader->ReadBlock(block, {}, &buffer, &view).ok());
      EXPECT_TRUE(reader->SalvageBlock(block, columns, &buffer, &view, &damage).ok());
      EXPECT_TRUE(Open()->ReadValue(4 * block, 0, &buffer).ok());
      EXPECT_EQ(Problems(*files_), std::vector<std::string>{StrCat(kSectionsPath, ": block headers: the copy of block ",
                                                                   block, " is not the header of that block")});
      if (HasFailure()) return;
    }
  }
}

TEST_F(BlockSections, DamagedCopiesAreReported) {
  const std::string copies = Section(SectionKind::kBlockHeaders);
  std::string flipped = good_;
  flipped[good_.rfind(copies)] ^= 1;
  for (const std::string& shard :
       {flipped, WithSection(good_, SectionKind::kBlockHeaders, copies.substr(0, copies.size() - 8)),
        WithSection(good_, SectionKind::kBlockHeaders, copies + copies)}) {
    WriteWhole(*files_, kSectionsPath, shard);
    const absl::Status status = Project(*Open(), 0, 0);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(ToStd(status.message()).starts_with(kSectionsPath)) << status;
    EXPECT_EQ(Problems(*files_), std::vector<std::string>{std::string(ToStd(status.message()))});
    EXPECT_TRUE(Project(*Open(ReadMode::kMapped), 0, 0).ok()) << "a map has the block's own header";
  }
}

TEST_F(BlockSections, RangesAreThoseOfTheValues) {
  const auto reader = Open();
  const auto ranges = reader->ReadBlockRanges();
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  EXPECT_EQ(ranges->columns, (std::vector<size_t>{2, 3}));
  ASSERT_EQ(ranges->ranges.size(), 6u);
  EXPECT_EQ(ranges->Find(0, 0), nullptr);
  EXPECT_EQ(ranges->Find(2, 1), nullptr);
  for (size_t k = 0; k < 3; ++k) {
    const BlockInfo& block = reader->blocks()[k];
    for (const size_t column : ranges->columns) {
      ColumnStatistics wanted;
      for (uint64_t i = 0; i < block.sample_count; ++i) {
        const auto& value = rows_[block.first_sample + i][column];
        if (value) wanted.Add(schema_[column], value->data(), value->size());
      }
      const BlockRange& found = *ranges->Find(k, column);
      EXPECT_EQ(found.present_count, wanted.present_count);
      EXPECT_EQ(found.range_kind, wanted.range_kind);
      EXPECT_EQ(found.minimum, wanted.minimum);
      EXPECT_EQ(found.maximum, wanted.maximum);
    }
  }
}

TEST_F(BlockSections, EveryBitOfRangesMatters) {
  const std::string ranges = Section(SectionKind::kBlockRanges);
  for (size_t bit = 0; bit < 8 * ranges.size(); bit += test::TestStep()) {
    std::string changed = ranges;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    WriteWhole(*files_, kSectionsPath, WithSection(good_, SectionKind::kBlockRanges, changed));
    const auto problems = Problems(*files_);
    ASSERT_EQ(problems.size(), 1u) << "bit " << bit;
    EXPECT_TRUE(problems[0].starts_with(kSectionsPath + ": block ranges: ")) << problems[0];
    const auto read = Open()->ReadBlockRanges();
    if (!read.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
      EXPECT_TRUE(ToStd(read.status().message()).starts_with(kSectionsPath)) << read.status();
    }
    // A count of present values is that of the statistics together with the other blocks.
    if (bit / 8 % 24 < 4) {
      EXPECT_FALSE(read.ok()) << "bit " << bit;
    }
  }
  std::string flipped = good_;
  flipped[good_.rfind(ranges)] ^= 1;
  WriteWhole(*files_, kSectionsPath, flipped);
  EXPECT_TRUE(absl::IsDataLoss(Open()->ReadBlockRanges().status()));
}

TEST(BlockRangesOfAShard, WithoutNumbersThereAreNone) {
  const auto files = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "text", .type = Type::kUtf8}});
  ASSERT_TRUE(WriteShard(*files, kSectionsPath, schema, {{"a"}, {"b"}}, {}).ok());
  const auto reader = ShardReader::Open(*files, kSectionsPath);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(absl::IsNotFound((*reader)->ReadBlockRanges().status()));
}

TEST(BlockRangesOfAShard, WithoutBlocksAreEmpty) {
  const auto files = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "n", .type = Type::kU8}});
  ASSERT_TRUE(WriteShard(*files, kSectionsPath, schema, {}, {}).ok());
  const auto reader = ShardReader::Open(*files, kSectionsPath);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto ranges = (*reader)->ReadBlockRanges();
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  EXPECT_TRUE(ranges->ranges.empty());
  EXPECT_EQ(Problems(*files), std::vector<std::string>());
}

// What a filter is for: the blocks that cannot hold the value are not read.
TEST(BlockRangesOfAShard, TellWhichBlocksToSkip) {
  const auto files = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "time", .type = Type::kF64}});
  std::vector<ShardRow> rows;
  for (int i = 0; i < 100; ++i) {
    const auto bits = std::bit_cast<uint64_t>(i / 4.0);
    rows.push_back({std::string(reinterpret_cast<const char*>(&bits), 8)});
  }
  ASSERT_TRUE(WriteShard(*files, kSectionsPath, schema, rows, {.max_block_samples = 10}).ok());
  const auto reader = ShardReader::Open(*files, kSectionsPath);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto ranges = (*reader)->ReadBlockRanges();
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  std::vector<size_t> left;
  for (size_t k = 0; k < (*reader)->blocks().size(); ++k) {
    const BlockRange& range = *ranges->Find(k, 0);
    ASSERT_EQ(range.range_kind, RangeKind::kF64);
    if (std::bit_cast<double>(range.minimum) <= 12.0 && std::bit_cast<double>(range.maximum) >= 12.0) left.push_back(k);
  }
  EXPECT_EQ(left, std::vector<size_t>{4});
}

// Memory is used again, but not that of a value larger than a block.
TEST(BlockBuilder, KeepsTheMemoryOfOrdinaryBlocks) {
  const Schema schema = *Schema::Create(std::vector<Column>{{.name = "value", .type = Type::kBytes}});
  constexpr uint64_t kBlock = 16384;
  BlockBuilder builder(schema, kBlock, 1000);
  const auto add = [&](size_t bytes) {
    const std::string value(bytes, 'x');
    const std::optional<Value> row[] = {Value(std::string_view(value))};
    builder.Add(row);
  };
  add(kBlock / 2);
  RawBlock ordinary = builder.Take();
  const char* const memory = ordinary.columns[0].values.data();
  builder.Recycle(std::move(ordinary));
  add(10);
  builder.Take();
  add(10);
  EXPECT_EQ(builder.Take().columns[0].values.data(), memory);
  add(100 * kBlock);
  builder.Recycle(builder.Take());
  for (int i = 0; i < 3; ++i) {
    add(10);
    EXPECT_LE(builder.Take().columns[0].values.capacity(), 2 * kBlock) << i;
  }
}

TEST(BufferTest, GrowthKeepsTheBytes) {
  // From memory of malloc to the system's, and on within it.
  Buffer buffer;
  for (uint64_t i = 0; i < 2'000'000; ++i) StoreLittle(buffer.Extend(8), i);
  ASSERT_EQ(buffer.size(), 16'000'000u);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < 2'000'000; ++i) kept += LoadLittle<uint64_t>(buffer.data() + 8 * i) == i ? 1 : 0;
  EXPECT_EQ(kept, 2'000'000u);
}

}  // namespace
}  // namespace shardkit::container
