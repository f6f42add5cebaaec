// Values that are copied from the page cache into batches: the same batches whatever the cache holds.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <numeric>

#include "base/strings.h"
#include "fault/cut_support.h"
#include "loader/loader_support.h"
#include "shardkit/filesystem.h"

namespace shardkit::test {
namespace {

// What the page cache holds, as far as this file system says.
enum class Cache {
  kNothing,
  kEverything,
  kForAWhile,  // everything when a block is looked at; then every other value is gone
  kPatches,    // every page of one bit of its number
};

struct Device {
  std::atomic<uint64_t> looks = 0;
  std::atomic<bool> gone = false;  // what is not in the cache cannot be read
};

class PatchyFile final : public ForwardingFile {
 public:
  PatchyFile(std::unique_ptr<RandomAccessFile> base, Cache cache, std::shared_ptr<Device> device)
      : ForwardingFile(std::move(base)), cache_(cache), device_(std::move(device)) {}

  std::string identity() const override { return path(); }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (device_->gone) return absl::UnavailableError(path() + ": the device is gone");
    return ForwardingFile::ReadAt(offset, buffer);
  }

  bool ReadCached(uint64_t offset, std::span<const std::span<char>> buffers) const override {
    const uint64_t call = device_->looks++;
    const uint64_t bytes = std::accumulate(buffers.begin(), buffers.end(), uint64_t{0},
                                           [](uint64_t sum, std::span<char> buffer) { return sum + buffer.size(); });
    const bool held = cache_ == Cache::kEverything || (cache_ == Cache::kForAWhile && (bytes == 1 || call % 2 == 0)) ||
                      (cache_ == Cache::kPatches && (offset >> 15) % 2 == 0);
    if (!held) {
      for (const std::span<char> buffer : buffers) std::ranges::fill(buffer, '?');
      return false;
    }
    return base().ReadCached(offset, buffers);
  }

 private:
  const Cache cache_;
  const std::shared_ptr<Device> device_;
};

class PatchyFileSystem final : public ForwardingFileSystem {
 public:
  PatchyFileSystem(FileSystem& base, Cache cache) : ForwardingFileSystem(base), cache_(cache) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = ForwardingFileSystem::OpenForReading(path, mode, size);
    if (!file.ok()) return file.status();
    return std::make_unique<PatchyFile>(*std::move(file), cache_, device_);
  }

  Device& device() { return *device_; }

 private:
  const Cache cache_;
  const std::shared_ptr<Device> device_ = std::make_shared<Device>();
};

constexpr size_t kLeftSamples = 400;
constexpr uint64_t kMemory = 2 << 20;  // less than the dataset, whose blocks would stay in memory otherwise

// Long and short, absent and empty.
std::optional<std::string> BlobOf(size_t i) {
  if (i % 11 == 3) return std::nullopt;
  std::string bytes(i % 13 == 5 ? 0 : (i * 7919) % (i % 5 == 0 ? 100000 : 36000), '\0');
  for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<char>((k + 1) * (i + 3) >> 3);
  return bytes;
}

class LeftValuesTest : public testing::Test {
 protected:
  void Write(FileSystem& files, const std::string& path) {
    const std::vector<Column> columns = {
        KeyColumn(), {.name = "blob", .type = Type::kBytes, .nullable = true}, TextColumn()};
    for (size_t i = 0; i < kLeftSamples; ++i) {
      rows_.push_back({"k" + std::to_string(i), BlobOf(i), "text " + std::to_string(i)});
    }
    DatasetWriterOptions options = SmallShards(100, 10);
    options.shard.alignment = 4096;
    options.shard.storage = {{"blob", Storage::kBlob}};
    WriteRows(files, path, columns, rows_, options);
  }

  void SetUp() override { Write(*files_, "/data"); }

  static LoaderOptions Options(SampleOrder order, int threads) {
    LoaderOptions options;
    options.plan = {.seed = 7, .order = order, .batch_size = 16, .shuffle_buffer_bytes = 300000};
    options.epochs = 2;
    options.memory_bytes = kMemory;
    options.decode_threads = options.read_threads = threads;
    options.columns = {{.name = "blob"}, {.name = "text"}};
    return options;
  }

  // Changes the byte `offset` after the place of `bytes` in the file of a shard.
  void Damage(size_t shard, const std::string& bytes, size_t offset) {
    const auto dataset = DatasetReader::Open(*files_, "/data");
    const std::string path = "/data/" + (*dataset)->Shard(shard)->name;
    std::string file = ReadAll(*files_, path);
    const size_t at = file.find(bytes);
    ASSERT_NE(at, std::string::npos);
    file[at + offset] = static_cast<char>(file[at + offset] ^ 64);
    ASSERT_TRUE(files_->RemoveFile(path).ok());
    WriteFile(*files_, path, file);
  }

  // The batches, and the error at the end, are those of blocks read whole.
  void ExpectSameBatches(uint64_t least_from_cache) {
    for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled}) {
      for (const BadSamples policy : {BadSamples::kFail, BadSamples::kSkip}) {
        LoaderOptions options = Options(order, 1);
        options.bad_samples = policy;
        options.read.mode = ReadMode::kBuffered;
        const std::vector<std::string> expected = Deliver(*OpenLoader(*files_, options));
        options.read.mode = ReadMode::kAuto;
        for (const Cache cache : {Cache::kNothing, Cache::kEverything, Cache::kForAWhile, Cache::kPatches}) {
          for (const int threads : {1, 3}) {
            options.decode_threads = options.read_threads = threads;
            PatchyFileSystem patchy(*files_, cache);
            const auto loader = OpenLoader(patchy, options);
            EXPECT_EQ(Deliver(*loader), expected);
            const uint64_t from_cache = loader->Report().bytes_from_cache;
            if (cache == Cache::kNothing) {
              EXPECT_EQ(from_cache, 0u);
            }
            if (cache == Cache::kEverything) {
              EXPECT_GE(from_cache, least_from_cache);
            }
            if (cache == Cache::kForAWhile) {
              EXPECT_GT(from_cache, 0u);
            }
          }
        }
      }
    }
  }

  uint64_t AllBlobs() const {
    uint64_t bytes = 0;
    for (const Values& row : rows_) bytes += row[1] ? row[1]->size() : 0;
    return bytes;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::vector<Values> rows_;
};

TEST_F(LeftValuesTest, TheSameBatches) { ExpectSameBatches(AllBlobs()); }

TEST_F(LeftValuesTest, TheSameBadSamples) {
  Damage(1, *rows_[145][1], 17);
  Damage(1, *rows_[149][1], rows_[149][1]->size());  // its checksum
  Damage(2, *rows_[230][1], 0);
  ExpectSameBatches(1);
}

TEST_F(LeftValuesTest, TheSameDamageOutsideOfValues) {
  const auto dataset = DatasetReader::Open(*files_, "/data");
  const auto shard = (*dataset)->OpenShard(1);
  const BlockInfo& block = (*shard)->blocks()[2];
  // The last value ends before the block's padding. What follows it up to a multiple of 8 belongs to the values chunk.
  const std::string& last = *rows_[129][1];
  ASSERT_NE(last.size() % 8, 0u);
  const std::string file = ReadAll(*files_, (*shard)->path());
  const size_t padding = file.find(last) + last.size() + 8;
  ASSERT_LT(padding, block.offset + block.length);
  const std::string path = (*shard)->path();
  for (const size_t at : {padding, static_cast<size_t>(block.offset + block.length)}) {
    std::string damaged = file;
    damaged[at] = 1;
    ASSERT_TRUE(files_->RemoveFile(path).ok());
    WriteFile(*files_, path, damaged);
    ExpectSameBatches(1);
  }
}

TEST_F(LeftValuesTest, WithoutChecksumsDamagePasses) {
  Damage(0, *rows_[40][1], 0);
  LoaderOptions options = Options(SampleOrder::kSequential, 2);
  options.read.verify = Verify::kNever;
  const auto loader = OpenLoader(*files_, options);
  EXPECT_EQ(Deliver(*loader).size(), 2 * kLeftSamples / 16);
  EXPECT_GT(loader->Report().bytes_from_cache, 0u);
}

// Files in memory have no identity: no block is known to be right, so none is left where it would not be compared.
TEST_F(LeftValuesTest, WhatIsNotComparedAgainIsComparedFirst) {
  LoaderOptions options = Options(SampleOrder::kSequential, 1);
  options.memory_bytes = 2 * kMemory;  // so that no block is read twice in an epoch
  options.read.verify = Verify::kFirst;
  const auto loader = OpenLoader(*files_, options);
  EXPECT_EQ(Deliver(*loader).size(), 2 * kLeftSamples / 16);
  EXPECT_EQ(loader->Report().bytes_from_cache, 0u);

  PatchyFileSystem named(*files_, Cache::kEverything);
  options.epochs = 1;
  for (const bool known : {false, true}) {
    const auto reader = OpenLoader(named, options);
    EXPECT_EQ(Deliver(*reader).size(), kLeftSamples / 16);
    EXPECT_EQ(reader->Report().bytes_from_cache > 0, known);
  }
}

TEST_F(LeftValuesTest, TheShuffleBufferHoldsNoValues) {
  std::vector<Values> rows;
  for (size_t i = 0; i < 512; ++i) rows.push_back({"k" + std::to_string(i), std::string(32768, static_cast<char>(i))});
  DatasetWriterOptions options = SmallShards(0, 32);
  options.shard.storage = {{"blob", Storage::kBlob}};
  WriteRows(*files_, "/large", {KeyColumn(), {.name = "blob", .type = Type::kBytes}}, rows, options);
  const auto peak = [&](ReadMode mode) {
    LoaderOptions shuffled = Options(SampleOrder::kShuffled, 1);
    shuffled.plan.shuffle_buffer_bytes = 7 << 20;
    shuffled.memory_bytes = 16 << 20;
    shuffled.columns = {{.name = "blob"}};
    shuffled.read.mode = mode;
    const auto loader = OpenLoader(*files_, shuffled, "/large");
    EXPECT_EQ(Deliver(*loader).size(), 2 * 512 / 16);
    return loader->Report().peak_block_memory;
  };
  EXPECT_LT(2 * peak(ReadMode::kAuto), peak(ReadMode::kBuffered));
}

TEST_F(LeftValuesTest, BlocksStayWholeWhereTheyAreNeeded) {
  LoaderOptions views = Options(SampleOrder::kSequential, 1);
  views.columns[0].decode = ColumnDecode::kViews;
  LoaderOptions buffered = Options(SampleOrder::kSequential, 1);
  buffered.read.mode = ReadMode::kBuffered;
  for (const LoaderOptions& options : {views, buffered}) {
    const auto loader = OpenLoader(*files_, options);
    EXPECT_EQ(Deliver(*loader).size(), 2 * kLeftSamples / 16);
    EXPECT_EQ(loader->Report().bytes_from_cache, 0u);
  }
}

TEST_F(LeftValuesTest, WhereBlocksStayInMemoryThoseOfTheFirstBatchAreLeft) {
  LoaderOptions options = Options(SampleOrder::kSequential, 1);
  options.memory_bytes = 64 << 20;
  const auto loader = OpenLoader(*files_, options);
  EXPECT_EQ(Deliver(*loader).size(), 2 * kLeftSamples / 16);
  EXPECT_GT(loader->Report().bytes_from_cache, 0u);
  EXPECT_LT(loader->Report().bytes_from_cache, AllBlobs() / 10);
}

TEST_F(LeftValuesTest, TheFirstBatchInRandomOrderIsOfValuesReadAlone) {
  for (const size_t size : {4096, 1024}) {
    std::vector<Values> rows;
    for (size_t i = 0; i < 512; ++i) rows.push_back({"k" + std::to_string(i), std::string(size, static_cast<char>(i))});
    DatasetWriterOptions written = SmallShards(0, 32);
    written.shard.storage = {{"blob", Storage::kBlob}};
    const std::string path = StrCat("/of-", size);
    WriteRows(*files_, path, {KeyColumn(), {.name = "blob", .type = Type::kBytes}}, rows, written);
    LoaderOptions options = Options(SampleOrder::kShuffled, 1);
    options.plan.shuffle_buffer_bytes = options.memory_bytes = 64 << 20;
    options.columns = {{.name = "blob"}};
    options.epochs = 4;
    const auto loader = OpenLoader(*files_, options, path);
    options.read.mode = ReadMode::kBuffered;
    EXPECT_EQ(Deliver(*loader), Deliver(*OpenLoader(*files_, options, path)));
    // Smaller values stay with their blocks. Later batches take all from memory.
    EXPECT_EQ(loader->Report().bytes_from_cache > 0, size == 4096) << size;
    EXPECT_LT(loader->Report().bytes_from_cache, rows.size() * size);
    EXPECT_EQ(loader->Report().blocks_read, 16u);
  }
}

// It is not the samples that are bad.
TEST_F(LeftValuesTest, AnErrorOfTheDeviceEndsTheLoaderUnderEitherPolicy) {
  for (const BadSamples policy : {BadSamples::kFail, BadSamples::kSkip}) {
    PatchyFileSystem patchy(*files_, Cache::kForAWhile);
    LoaderOptions options = Options(SampleOrder::kSequential, 2);
    options.bad_samples = policy;
    options.epochs = 0;
    const auto loader = OpenLoader(patchy, options);
    ASSERT_TRUE(loader->Next().ok());
    patchy.device().gone = true;
    auto batch = loader->Next();
    while (batch.ok()) {
      EXPECT_TRUE((*batch)->skipped().empty());
      batch = loader->Next();
    }
    EXPECT_TRUE(absl::IsUnavailable(batch.status())) << batch.status();
  }
}

TEST_F(LeftValuesTest, CancelledAtAnyTime) {
  for (int batches = 0; batches < 20; ++batches) {
    const auto loader = OpenLoader(*files_, Options(SampleOrder::kShuffled, 3));
    for (int i = 0; i < batches; ++i) ASSERT_TRUE(loader->Next().ok());
    if (batches % 2 == 0) continue;
    loader->Cancel();
    EXPECT_TRUE(absl::IsCancelled(loader->Next().status()));
  }
}

// A handler that is installed after any of the library's own, as Python's faulthandler is: it ends the process.
TEST_F(LeftValuesTest, AFileCutWhileItIsReadIsDataLoss) {
  const SystemDirectory directory;
  const std::string path = directory.Path("data");
  rows_.clear();
  Write(*PosixFileSystem(), path);
  struct sigaction fatal {
  }, before{};
  fatal.sa_handler = [](int) { _exit(99); };
  for (const ReadMode mode : {ReadMode::kAuto, ReadMode::kBuffered}) {
    for (const BadSamples policy : {BadSamples::kFail, BadSamples::kSkip}) {
      LoaderOptions options = Options(SampleOrder::kSequential, 2);
      options.read.mode = mode;
      options.bad_samples = policy;
      options.epochs = 0;
      const auto loader = OpenLoader(*PosixFileSystem(), options, path);
      ASSERT_EQ(sigaction(SIGBUS, &fatal, &before), 0);
      for (size_t i = 0; i < kLeftSamples / 16; ++i) ASSERT_TRUE(loader->Next().ok());  // all shards are open
      const auto dataset = DatasetReader::Open(*PosixFileSystem(), path);
      const std::string file = (*(*dataset)->OpenShard(2))->path();
      const std::string bytes = ReadAll(*PosixFileSystem(), file);
      Cut(file, 100000);
      if (policy == BadSamples::kFail) {
        auto batch = loader->Next();
        while (batch.ok()) batch = loader->Next();
        EXPECT_TRUE(absl::IsDataLoss(batch.status())) << batch.status();
        for (const std::string& word : {file, std::string("sample"), std::string("ends at byte 100000"),
                                        std::string("at offset"), std::string("was cut since it was opened")}) {
          EXPECT_NE(Message(batch.status()).find(word), std::string::npos) << batch.status();
        }
      } else {
        uint64_t skipped = 0;
        for (size_t step = 0; step < 2 * kLeftSamples / 16; ++step) {
          const auto batch = loader->Next();
          ASSERT_TRUE(batch.ok()) << batch.status();
          skipped += (*batch)->skipped().size();
        }
        EXPECT_GT(skipped, 0u);
        EXPECT_LE(skipped, 200u);  // of the shard that was cut, in two epochs
      }
      ASSERT_EQ(sigaction(SIGBUS, &before, nullptr), 0);
      ASSERT_TRUE(PosixFileSystem()->RemoveFile(file).ok());
      WriteFile(*PosixFileSystem(), file, bytes);
    }
  }
}

}  // namespace
}  // namespace shardkit::test
