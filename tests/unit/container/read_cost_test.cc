// The cost of reading: bytes of the file and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/buffer.h"
#include "base/strings.h"
#include "format/block_header.h"
#include "shardctl/latency_filesystem.h"
#include "shardkit/shard.h"
#include "support/counting_filesystem.h"
#include "unit/container/shard_maker.h"

namespace shardkit {
namespace {

class ReadCost : public testing::Test {
 protected:
  ReadCost() : memory_(NewMemoryFileSystem()), files_(memory_.get()) {
    Random random(200);
    schema_ = *Schema::Create({{.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd},
                               {.name = "blob", .type = Type::kBytes},
                               {.name = "label", .type = Type::kI64},
                               {.name = "other", .type = Type::kBytes}});
    for (int i = 0; i < 24; ++i) {
      rows_.push_back({random.Bytes(2000), random.Bytes(size_t{1} << 20), random.Bytes(8), random.Bytes(50000)});
    }
    EXPECT_TRUE(WriteShard(*memory_, "/s.shard", schema_, rows_, {.block_size = 8 << 20}).ok());
  }

  std::unique_ptr<ShardReader> Open(const ReadOptions& options = {}) {
    auto shard = ShardReader::Open(files_, "/s.shard", options);
    EXPECT_TRUE(shard.ok()) << shard.status();
    files_.Reset();
    return *std::move(shard);
  }

  std::unique_ptr<FileSystem> memory_;
  test::CountingFileSystem files_;
  Schema schema_;
  std::vector<ShardRow> rows_;
};

// One value of a page: the front and the page. The page's other values cost nothing more.
TEST(PageCost, OfASingleValueIsAPage) {
  Random random(201);
  const auto memory = NewMemoryFileSystem();
  const Schema schema = *Schema::Create({{.name = "small", .type = Type::kBytes}});
  std::vector<ShardRow> rows;
  for (int i = 0; i < 30000; ++i) rows.push_back({random.Bytes(100)});
  ASSERT_TRUE(WriteShard(*memory, "/s.shard", schema, rows, {}).ok());
  test::CountingFileSystem files(memory.get());
  const auto shard = ShardReader::Open(files, "/s.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  ASSERT_TRUE((*shard)->schema()[0].is_paged());
  BlockBuffer buffer;
  for (const uint64_t first : {0, 12000, 29900}) {
    files.Reset();
    const auto value = (*shard)->ReadValue(first, 0, &buffer);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(**value, *rows[first][0]);
    EXPECT_LE(files.reads().size(), 2u);
    EXPECT_LE(files.bytes(), 65536u + 4096u);
  }
  files.Reset();
  for (uint64_t i = 20000; i < 21000; ++i) {
    const auto value = (*shard)->ReadValue(i, 0, &buffer);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(**value, *rows[i][0]);
  }
  EXPECT_LE(files.bytes(), 4u * 65536u);
}

TEST_F(ReadCost, ProjectionReadsOnlyItsColumns) {
  for (const std::vector<size_t>& columns : std::vector<std::vector<size_t>>{{0}, {0, 2}, {2}, {3}, {0, 2, 3}, {1}}) {
    const auto shard = Open();
    const auto statistics = shard->ReadStatistics();
    ASSERT_TRUE(statistics.ok()) << statistics.status();
    files_.Reset();
    BlockBuffer buffer;
    BlockView view;
    uint64_t sample = 0;
    for (size_t k = 0; k < shard->blocks().size(); ++k) {
      const absl::Status status = shard->ReadBlock(k, columns, &buffer, &view);
      ASSERT_TRUE(status.ok()) << status;
      for (uint32_t i = 0; i < view.sample_count(); ++i, ++sample) {
        for (const size_t c : columns) ASSERT_EQ(view.column(c).value(i), *rows_[sample][c]);
      }
    }
    // Besides: the padding of two chunks of each column, small head chunks between them, and the copies of the headers.
    uint64_t wanted = 0;
    for (const size_t c : columns) wanted += (*statistics)[c].stored_bytes;
    const uint64_t headers = format::BlockHeaderLength(4) * shard->blocks().size();
    EXPECT_LE(files_.bytes(), wanted + headers + 64 * 8 * shard->blocks().size());
    EXPECT_GE(files_.bytes(), wanted + headers);
  }
}

// Requests and bytes of a projection, from opening the shard on. The numbers are exact, so that a change shows.
class ProjectionCost : public testing::Test {
 protected:
  static constexpr size_t kColumns = 4;
  static constexpr uint64_t kHeaderLength = 64 * (kColumns + 1);
  static constexpr uint64_t kFrontLength = kHeaderLength + 64 + 3 * 128;

  ProjectionCost() : memory_(NewMemoryFileSystem()), files_(memory_.get()) {
    Random random(201);
    schema_ = *Schema::Create({{.name = "text", .type = Type::kUtf8, .codec = Codec::kZstd},
                               {.name = "image", .type = Type::kBytes},
                               {.name = "label", .type = Type::kI64},
                               {.name = "depth", .type = Type::kBytes}});
    for (int i = 0; i < 240; ++i) {
      rows_.push_back({std::string(40, 'a'), random.Bytes(20000), random.Bytes(8), random.Bytes(9000)});
    }
    EXPECT_TRUE(WriteShard(*memory_, "/s.shard", schema_, rows_, {.max_block_samples = 10}).ok());
  }

  // Opens the shard and reads one column of all its blocks. Returns the requests for blocks.
  std::vector<ReadRecord> Project(size_t column, const ReadOptions& options = {}) {
    files_.Reset();
    auto shard = ShardReader::Open(files_, "/s.shard", options);
    EXPECT_TRUE(shard.ok()) << shard.status();
    blocks_.assign((*shard)->blocks().begin(), (*shard)->blocks().end());
    EXPECT_EQ(blocks_.size(), 24u);
    EXPECT_EQ(files_.reads().size(), 2u) << "the front, and the tail with trailer, table and directory";
    EXPECT_EQ(files_.round_trips(), 2u) << "the size, which was not given, and both of them at once";
    BlockBuffer buffer;
    BlockView view;
    const size_t columns[] = {column};
    for (size_t k = 0; k < blocks_.size(); ++k) {
      const absl::Status status = (*shard)->ReadBlock(k, columns, &buffer, &view);
      EXPECT_TRUE(status.ok()) << status;
      for (uint32_t i = 0; i < view.sample_count(); ++i) {
        EXPECT_EQ(view.column(column).value(i), *rows_[view.first_sample() + i][column]);
      }
    }
    const uint64_t footer = blocks_.back().offset + blocks_.back().length;
    std::vector<ReadRecord> reads = files_.reads();
    reads.erase(reads.begin(), reads.begin() + 2);
    other_reads_ = static_cast<size_t>(std::erase_if(reads, [&](const auto& read) { return read.offset >= footer; }));
    return reads;
  }

  bool TouchesAHeader(const ReadRecord& read) const {
    return std::ranges::any_of(blocks_, [&](const BlockInfo& block) {
      return read.offset < block.offset + kHeaderLength && read.offset + read.length > block.offset;
    });
  }

  std::unique_ptr<FileSystem> memory_;
  test::CountingFileSystem files_;
  Schema schema_;
  std::vector<ShardRow> rows_;
  std::vector<BlockInfo> blocks_;
  size_t other_reads_ = 0;  // of the footer, after opening
};

TEST_F(ProjectionCost, OfAnInlineColumnIsItsChunks) {
  for (const size_t column : {0, 2}) {
    const auto reads = Project(column);
    EXPECT_EQ(other_reads_, 1u) << "the copies of the headers";
    ASSERT_EQ(reads.size(), blocks_.size());
    for (const ReadRecord& read : reads) {
      EXPECT_FALSE(TouchesAHeader(read));
      EXPECT_EQ(read.length, column == 0 ? 64u : 128u);  // equal texts compressed, or ten numbers of 8 bytes
    }
  }
}

TEST_F(ProjectionCost, OfABlobColumnIsOneRequestWhereItsChunksAreClose) {
  const auto reads = Project(1);
  EXPECT_EQ(other_reads_, 1u);
  ASSERT_EQ(reads.size(), blocks_.size());
  for (const ReadRecord& read : reads) {
    EXPECT_FALSE(TouchesAHeader(read));
    // Its ends, the head chunks of the next two columns, its values.
    EXPECT_EQ(read.length, 3 * 128 + 200128u);
  }
}

TEST_F(ProjectionCost, OfABlobColumnBehindAnotherIsTwoRequests) {
  const auto reads = Project(3);
  EXPECT_EQ(other_reads_, 1u);
  ASSERT_EQ(reads.size(), 2 * blocks_.size());
  for (size_t i = 0; i < reads.size(); ++i) {
    EXPECT_FALSE(TouchesAHeader(reads[i]));
    EXPECT_EQ(reads[i].length, i % 2 == 0 ? 128u : 90112u);
  }
}

TEST_F(ProjectionCost, WithoutCopiesReadsTheFronts) {
  const std::string whole = ReadWhole(*memory_, "/s.shard");
  WriteWhole(*memory_, "/s.shard", WithSections(whole, false, [](format::SectionKind kind, std::string_view content) {
    return kind == format::SectionKind::kBlockHeaders ? std::nullopt : std::optional<std::string>(content);
  }));
  const auto reads = Project(0);
  EXPECT_EQ(other_reads_, 0u);
  ASSERT_EQ(reads.size(), blocks_.size());
  for (const ReadRecord& read : reads) EXPECT_EQ(read.length, kFrontLength);
}

TEST_F(ProjectionCost, OfAllColumnsIsTheBlockAlone) {
  const auto shard = ShardReader::Open(files_, "/s.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  files_.Reset();
  BlockBuffer buffer;
  BlockView view;
  const size_t columns[] = {0, 1, 2, 3};
  ASSERT_TRUE((*shard)->ReadBlock(1, columns, &buffer, &view).ok());
  for (const ReadRecord& read : files_.reads()) {
    EXPECT_GE(read.offset, (*shard)->blocks()[1].offset);
    EXPECT_LT(read.offset, (*shard)->blocks()[2].offset);
  }
}

// The ends of column 3 and its values lie 200 KiB apart.
TEST_F(ProjectionCost, GapsAreBridgedWhereThatIsCheaperThanARequest) {
  using std::chrono::microseconds;
  for (const shardctl::LatencyOptions& network :
       {shardctl::LatencyOptions{.latency = microseconds(10), .bytes_per_second = 1000000000},
        shardctl::LatencyOptions{.latency = microseconds(1000), .bytes_per_second = 1000000000}}) {
    const bool bridged = network.latency == microseconds(1000);  // worth 1 MB; the other one, 10 KB
    const auto slow = shardctl::NewLatencyFileSystem(*memory_, network);
    test::CountingFileSystem files(slow.get());
    const auto shard = ShardReader::Open(files, "/s.shard");
    ASSERT_TRUE(shard.ok()) << shard.status();
    BlockBuffer buffer;
    BlockView view;
    const size_t columns[] = {3};
    ASSERT_TRUE((*shard)->ReadBlock(0, columns, &buffer, &view).ok());  // and the copies of the headers
    files.Reset();
    ASSERT_TRUE((*shard)->ReadBlock(1, columns, &buffer, &view).ok());
    EXPECT_EQ(files.reads().size(), bridged ? 1u : 2u);
    EXPECT_EQ(files.round_trips(), 1u) << "both at once";
    EXPECT_EQ(view.column(3).value(0), *rows_[10][3]);
  }
}

TEST_F(ProjectionCost, OfAllColumnsIsOneRequestWhereRequestsAreSlow) {
  const auto slow = shardctl::NewLatencyFileSystem(*memory_, {});
  test::CountingFileSystem files(slow.get());
  const auto shard = ShardReader::Open(files, "/s.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  files.Reset();
  BlockBuffer buffer;
  BlockView view;
  ASSERT_TRUE((*shard)->ReadBlock(1, {}, &buffer, &view).ok());
  ASSERT_EQ(files.reads().size(), 1u);
  EXPECT_GT(files.bytes(), uint64_t{256} << 10) << "more than a read of a local file";
}

TEST_F(ProjectionCost, CopiesAreReadOnceByAllThreads) {
  files_.Reset();
  const auto shard = ShardReader::Open(files_, "/s.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      BlockBuffer buffer;
      BlockView view;
      const size_t columns[] = {t};
      for (size_t k = 0; k < (*shard)->blocks().size(); ++k) {
        EXPECT_TRUE((*shard)->ReadBlock(k, columns, &buffer, &view).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(files_.reads(), kHeaderLength * (*shard)->blocks().size(), &ReadRecord::length), 1);
}

// A value by itself costs two requests, and does not begin with a request for the copies of all headers.
TEST_F(ProjectionCost, OfASingleValueIsTwoRequests) {
  const auto shard = ShardReader::Open(files_, "/s.shard");
  ASSERT_TRUE(shard.ok()) << shard.status();
  BlockBuffer buffer;
  BlockView view;
  files_.Reset();
  ASSERT_TRUE((*shard)->ReadValue(35, 1, &buffer).ok());
  ASSERT_EQ(files_.reads().size(), 2u);
  EXPECT_EQ(files_.bytes(), kFrontLength + 20008);
  // Where they are there, it uses them.
  const size_t columns[] = {2};
  ASSERT_TRUE((*shard)->ReadBlock(0, columns, &buffer, &view).ok());
  files_.Reset();
  ASSERT_TRUE((*shard)->ReadValue(75, 1, &buffer).ok());
  ASSERT_EQ(files_.reads().size(), 2u);
  EXPECT_EQ(files_.bytes(), 128u + 20008);
}

TEST(HeaderCopies, AreNotKeptWhenTheyAreTooLarge) {
  std::vector<Column> columns(kMaxColumns);
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = {.name = StrCat(i), .type = Type::kBool};
  const Schema schema = *Schema::Create(std::move(columns));
  const auto memory = NewMemoryFileSystem();
  test::CountingFileSystem files(memory.get());
  const uint64_t header_length = format::BlockHeaderLength(schema.size());
  for (const size_t blocks : {63, 65}) {
    const std::string path = StrCat("/", blocks);
    const std::vector<ShardRow> rows(blocks, ShardRow(schema.size(), std::string(1, '\1')));
    ASSERT_TRUE(WriteShard(*memory, path, schema, rows, {.max_block_samples = 1}).ok());
    const auto shard = ShardReader::Open(files, path);
    ASSERT_TRUE(shard.ok()) << shard.status();
    files.Reset();
    BlockBuffer buffer;
    BlockView view;
    const size_t wanted[] = {4000};
    ASSERT_TRUE((*shard)->ReadBlock(5, wanted, &buffer, &view).ok());
    EXPECT_EQ(view.column(4000).value(0), std::string(1, '\1'));
    const bool kept = blocks * header_length <= uint64_t{16} << 20;
    EXPECT_EQ(kept, blocks == 63);
    EXPECT_EQ(files.bytes(), kept ? blocks * header_length + 64 : header_length + 64);
  }
}

TEST_F(ReadCost, SingleValuesTakeTheirFrontOnceAndTheirBytes) {
  const auto shard = Open();
  BlockBuffer buffer;
  ASSERT_TRUE(shard->ReadValue(3, 1, &buffer).ok());
  EXPECT_LE(files_.bytes(), (1u << 20) + shard->blocks()[0].front_length + 8);
  files_.Reset();
  const auto value = shard->ReadValue(4, 1, &buffer);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(**value, *rows_[4][1]);
  EXPECT_EQ(files_.bytes(), (1u << 20) + 8);
  files_.Reset();
  ASSERT_TRUE(shard->CopyValue(5, 1, [](std::string_view) { return absl::OkStatus(); }).ok());
  EXPECT_LE(files_.bytes(), (1u << 20) + shard->blocks()[0].front_length + 8);
}

// The value and its checksum come with one request, and a large one's with as many as it has pieces.
TEST_F(ReadCost, ACopyOfAValueTakesItsFrontAndItsPieces) {
  for (const auto& [column, pieces] :
       {std::pair<size_t, uint64_t>{3, 1}, {1, (rows_[5][1]->size() - 1) / kCopyPiece + 1}}) {
    const auto shard = Open();
    std::string copied;
    const auto found = shard->CopyValue(5, column, [&](std::string_view piece) {
      copied += piece;
      return absl::OkStatus();
    });
    ASSERT_TRUE(found.ok() && *found) << found.status();
    EXPECT_EQ(copied, *rows_[5][column]);
    EXPECT_EQ(files_.reads().size(), 1 + pieces);
  }
}

TEST_F(ReadCost, APartOfAnOpenValueIsReadAlone) {
  const auto shard = Open();
  const auto value = shard->OpenValue(4, 1);
  ASSERT_TRUE(value.ok() && *value) << value.status();
  EXPECT_LE(files_.bytes(), shard->blocks()[0].front_length);
  files_.Reset();
  std::string part(1000, '\0');
  ASSERT_TRUE((*value)->ReadAt(500000, part).ok());
  EXPECT_EQ(part, rows_[4][1]->substr(500000, 1000));
  EXPECT_EQ(files_.bytes(), 1000u);
}

TEST_F(ReadCost, MemoryLimitIsHonoured) {
  const auto shard = Open({.max_block_memory = 100000});
  BlockBuffer buffer;
  BlockView view;
  const absl::Status whole = shard->ReadBlock(0, {}, &buffer, &view);
  EXPECT_TRUE(absl::IsResourceExhausted(whole)) << whole;
  EXPECT_NE(whole.message().find("block 0"), absl::string_view::npos) << whole;
  const size_t blob[] = {1}, label[] = {2};
  EXPECT_TRUE(absl::IsResourceExhausted(shard->ReadBlock(0, blob, &buffer, &view)));
  EXPECT_TRUE(shard->ReadBlock(0, label, &buffer, &view).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(shard->ReadValue(0, 1, &buffer).status()));
  EXPECT_TRUE(shard->ReadValue(0, 3, &buffer).ok());
  EXPECT_LT(files_.bytes(), 300000u);
  // A copy needs only a few MiB, whatever the limit.
  uint64_t copied = 0;
  const auto present = shard->CopyValue(0, 1, [&](std::string_view piece) {
    copied += piece.size();
    return absl::OkStatus();
  });
  ASSERT_TRUE(present.ok()) << present.status();
  EXPECT_EQ(copied, 1u << 20);

  // The decompressed size of a chunk counts too.
  const Schema schema = *Schema::Create({{.name = "zeros", .type = Type::kBytes, .codec = Codec::kZstd}});
  ASSERT_TRUE(WriteShard(*memory_, "/zeros.shard", schema, {{std::string(1 << 20, '\0')}}, {}).ok());
  const auto zeros = ShardReader::Open(*memory_, "/zeros.shard", {.max_block_memory = 100000});
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  EXPECT_TRUE(absl::IsResourceExhausted((*zeros)->ReadBlock(0, {}, &buffer, &view)));
}

}  // namespace
}  // namespace shardkit
