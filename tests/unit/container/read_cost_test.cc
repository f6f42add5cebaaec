// The cost of reading: bytes of the file and memory.
#include <gtest/gtest.h>

#include <atomic>

#include "base/strings.h"
#include "shardkit/shard_reader.h"
#include "unit/container/shard_maker.h"

namespace shardkit {
namespace {

// Passes all calls on and adds up the requested bytes.
class CountingFile final : public RandomAccessFile {
 public:
  CountingFile(std::unique_ptr<RandomAccessFile> base, std::atomic<uint64_t>* bytes)
      : base_(std::move(base)), bytes_(bytes) {}
  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    *bytes_ += buffer.size();
    return base_->ReadAt(offset, buffer);
  }

 private:
  const std::unique_ptr<RandomAccessFile> base_;
  std::atomic<uint64_t>* const bytes_;
};

// A file system that is used only for reading.
class CountingFileSystem final : public FileSystem {
 public:
  explicit CountingFileSystem(FileSystem* base) : base_(base) {}
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode) override {
    auto file = base_->OpenForReading(path, mode);
    if (!file.ok()) return file.status();
    return std::make_unique<CountingFile>(*std::move(file), &bytes);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override { return base_->Create(path); }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return base_->OpenForAppending(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override { return base_->Rename(from, to); }
  absl::Status Link(const std::string& from, const std::string& to) override { return base_->Link(from, to); }
  absl::Status RemoveFile(const std::string& path) override { return base_->RemoveFile(path); }
  absl::Status RemoveDirectory(const std::string& path) override { return base_->RemoveDirectory(path); }
  absl::Status CreateDirectory(const std::string& path) override { return base_->CreateDirectory(path); }
  absl::Status SyncDirectory(const std::string& path) override { return base_->SyncDirectory(path); }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override { return base_->Stat(path, follow); }
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override { return base_->List(path); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override { return base_->Lock(path); }

  std::atomic<uint64_t> bytes = 0;

 private:
  FileSystem* const base_;
};

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
    files_.bytes = 0;
    return *std::move(shard);
  }

  std::unique_ptr<FileSystem> memory_;
  CountingFileSystem files_;
  Schema schema_;
  std::vector<Row> rows_;
};

TEST_F(ReadCost, ProjectionReadsOnlyItsColumns) {
  for (const std::vector<size_t>& columns : std::vector<std::vector<size_t>>{{0}, {0, 2}, {2}, {3}, {0, 2, 3}, {1}}) {
    const auto shard = Open();
    const auto statistics = shard->ReadStatistics();
    ASSERT_TRUE(statistics.ok()) << statistics.status();
    files_.bytes = 0;
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
    // The head chunks of a small front are read along: they cost less than another request.
    double wanted = 0;
    for (const size_t c : columns) wanted += static_cast<double>((*statistics)[c].stored_bytes);
    uint64_t fronts = 0;
    for (const BlockInfo& block : shard->blocks()) fronts += std::min<uint64_t>(block.front_length, 65536);
    EXPECT_LE(static_cast<double>(files_.bytes), 1.05 * wanted + static_cast<double>(fronts));
    EXPECT_GE(static_cast<double>(files_.bytes), wanted);
  }
}

TEST_F(ReadCost, SingleValuesTakeTheirFrontOnceAndTheirBytes) {
  const auto shard = Open();
  BlockBuffer buffer;
  ASSERT_TRUE(shard->ReadValue(3, 1, &buffer).ok());
  EXPECT_LE(files_.bytes, (1u << 20) + shard->blocks()[0].front_length + 8);
  files_.bytes = 0;
  const auto value = shard->ReadValue(4, 1, &buffer);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(**value, *rows_[4][1]);
  EXPECT_EQ(files_.bytes, (1u << 20) + 8);
  files_.bytes = 0;
  ASSERT_TRUE(shard->CopyValue(5, 1, [](std::string_view) { return absl::OkStatus(); }).ok());
  EXPECT_LE(files_.bytes, (1u << 20) + shard->blocks()[0].front_length + 8);
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
  EXPECT_LT(files_.bytes, 300000u);
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
