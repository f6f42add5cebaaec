
#include <algorithm>
#include <set>
#include <thread>

#include "base/hash.h"
#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "shardctl/latency_filesystem.h"
#include "shardkit/filesystem.h"
#include "support/counting_filesystem.h"
#include "support/fault_filesystem.h"
#include "support/read_in_parts.h"
#include "unit/container/shard_maker.h"

namespace shardkit::test {
namespace {

class DatasetReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto summary = WriteDataset(*files_, "/data", samples_, SmallShards(9, 4));
    ASSERT_TRUE(summary.ok()) << summary.status();
  }
  std::unique_ptr<DatasetReader> Open(const DatasetOptions& options = {}, const std::string& path = "/data") {
    auto dataset = DatasetReader::Open(*files_, path, options);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  const std::vector<OwnedSample> samples_ = MakeSamples(100);
};

TEST_F(DatasetReaderTest, ReadsEveryValueInEveryModeWithAndWithoutTheIndex) {
  for (const bool index : {true, false}) {
    if (!index) {
      ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
    }
    for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect}) {
      DatasetOptions options;
      options.mode = mode;
      const auto dataset = Open(options);
      EXPECT_EQ(dataset->index_problem().empty(), index) << dataset->index_problem();
      EXPECT_EQ(dataset->sample_count(), 100u);
      BlockBuffer buffer;
      for (uint64_t i = 0; i < 100; ++i) {
        const uint64_t sample = i * 37 % 100;
        Row row, copied, in_parts;
        for (size_t column = 0; column < dataset->columns().size(); ++column) {
          const std::string& name = dataset->columns()[column].name;
          const auto value = dataset->ReadValue(sample, column, &buffer);
          ASSERT_TRUE(value.ok()) << value.status();
          if (*value) row[name] = **value;
          std::string pieces;
          const auto present = dataset->CopyValue(sample, column, [&](std::string_view piece) {
            pieces += piece;
            return absl::OkStatus();
          });
          ASSERT_TRUE(present.ok()) << present.status();
          if (*present) copied[name] = pieces;
          const auto parts = ReadInParts(dataset->OpenValue(sample, column));
          ASSERT_TRUE(parts.ok()) << parts.status();
          if (*parts) in_parts[name] = **parts;
        }
        EXPECT_EQ(row, RowOf(samples_[sample]));
        EXPECT_EQ(copied, row);
        EXPECT_EQ(in_parts, row);
      }
    }
  }
}

TEST_F(DatasetReaderTest, AnOpenValueOutlivesItsDatasetAndEndsWhereItEnds) {
  for (const bool index : {true, false}) {
    if (!index) {
      ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
    }
    for (const char* const column : {"image", "text"}) {
      auto dataset = Open();
      EXPECT_TRUE(absl::IsOutOfRange(dataset->OpenValue(100, 0).status()));
      EXPECT_TRUE(absl::IsInvalidArgument(dataset->OpenValue(0, dataset->columns().size()).status()));
      const auto open = dataset->OpenValue(7, *dataset->FindColumn(column));
      dataset = nullptr;
      ASSERT_TRUE(open.ok() && *open) << open.status();
      const RandomAccessFile& value = **open;
      const std::string wanted = RowOf(samples_[7]).at(column);
      ASSERT_EQ(value.size(), wanted.size());
      std::string bytes(wanted.size() + 1, '\0');
      EXPECT_TRUE(value.ReadAt(wanted.size(), std::span(bytes).first(0)).ok());
      EXPECT_TRUE(value.ReadAt(1, std::span(bytes).first(wanted.size() - 1)).ok());
      EXPECT_EQ(bytes.substr(0, wanted.size() - 1), wanted.substr(1));
      for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, UINT64_MAX}) {
        EXPECT_TRUE(absl::IsOutOfRange(value.ReadAt(offset, bytes))) << offset;
      }
    }
  }
}

// A map stays open while a buffer has views of it, even when its dataset has closed the shard since.
TEST_F(DatasetReaderTest, ABufferKeepsTheShardThatAKeyWasFoundIn) {
  DatasetOptions options;
  options.mode = ReadMode::kMapped;
  options.max_open_shards = 1;
  const auto dataset = Open(options);
  const std::weak_ptr<const ShardReader> shard = *dataset->OpenShard(0);
  BlockBuffer buffer, other;
  ASSERT_EQ(*dataset->FindKey(samples_[2].key, &buffer), 2u);
  ASSERT_TRUE(dataset->ReadValue(99, 0, &other).ok());  // closes the first shard
  ASSERT_FALSE(shard.expired());
  EXPECT_TRUE(buffer.CheckMapped().ok());
  ASSERT_EQ(*dataset->FindKey(samples_[99].key, &buffer), 99u);
  EXPECT_TRUE(shard.expired());
  EXPECT_TRUE(buffer.CheckMapped().ok());
}

TEST_F(DatasetReaderTest, ReadsManyValuesAtOnce) {
  std::vector<uint64_t> wanted;
  for (uint64_t i = 0; i < 300; ++i) wanted.push_back(i * 61 % 100);  // out of order and repeated
  std::vector<std::string_view> values(wanted.size());
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect}) {
    DatasetOptions options;
    options.mode = mode;
    const auto dataset = Open(options);
    const size_t image = *dataset->FindColumn("image");
    BlockBuffer buffer;
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = dataset->ReadValues(wanted, image, &buffer, values);
      ASSERT_TRUE(status.ok()) << status;
      for (size_t k = 0; k < wanted.size(); ++k) {
        ASSERT_EQ(values[k], samples_[wanted[k]].fields[0].second) << wanted[k];
      }
    }
    const std::vector<uint64_t> outside = {1, 100};
    EXPECT_TRUE(absl::IsOutOfRange(dataset->ReadValues(outside, image, &buffer, std::span(values).first(2))));
    // Not a blob: for each value, a chunk of many values would have to be decompressed.
    EXPECT_TRUE(absl::IsFailedPrecondition(dataset->ReadValues(wanted, *dataset->FindColumn("text"), &buffer, values)));
    EXPECT_TRUE(dataset->ReadValues({}, image, &buffer, {}).ok());
  }
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
  const auto dataset = Open();
  BlockBuffer buffer;
  EXPECT_TRUE(absl::IsFailedPrecondition(dataset->ReadValues(wanted, 1, &buffer, values)));
}

// Of its shards, no read that is started ends before `count` of them are under way.
class TogetherFileSystem final : public ForwardingReadableFileSystem {
 public:
  TogetherFileSystem(ReadableFileSystem& base, size_t count) : ForwardingReads(base), count_(count) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = base().OpenForReading(path, mode, size);
    if (!file.ok() || !path.ends_with(".shard")) return file;
    return std::make_unique<File>(*std::move(file), *this);
  }

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<RandomAccessFile> base, TogetherFileSystem& all)
        : ForwardingFile(std::move(base)), all_(all) {}
    void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
      all_.waiting_.push_back([this, done = std::move(done), copy = std::vector(requests.begin(), requests.end())] {
        done(ForwardingFile::ReadBatch(copy));
      });
      if (all_.waiting_.size() < all_.count_) return;
      for (const auto& read : std::exchange(all_.waiting_, {})) read();
    }

   private:
    TogetherFileSystem& all_;
  };

  const size_t count_;
  std::vector<std::function<void()>> waiting_;
};

TEST_F(DatasetReaderTest, ReadsManyShardsAtOnce) {
  const auto samples = MakeSamples(300);
  ASSERT_TRUE(WriteDataset(*files_, "/many", samples, SmallShards(1, 1)).ok());
  std::vector<uint64_t> wanted;
  for (uint64_t i = 0; i < 300; i += 3) wanted.push_back(i);
  TogetherFileSystem together(*files_, wanted.size());
  const auto dataset = DatasetReader::Open(together, "/many");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::string_view> values(wanted.size());
  BlockBuffer buffer;
  const size_t image = *(*dataset)->FindColumn("image");
  const absl::Status status = (*dataset)->ReadValues(wanted, image, &buffer, values);
  ASSERT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(values[i], samples[wanted[i]].fields[0].second);
}

TEST_F(DatasetReaderTest, AbsentBlobsAreNullViews) {
  auto samples = MakeSamples(6);
  samples[1].fields.erase(samples[1].fields.begin());
  samples[2].fields[0].second.clear();
  ASSERT_TRUE(WriteDataset(*files_, "/gaps", samples, SmallShards(3, 2)).ok());
  const auto dataset = Open({}, "/gaps");
  const size_t image = *dataset->FindColumn("image");
  BlockBuffer buffer;
  EXPECT_EQ(*dataset->ReadValue(1, image, &buffer), std::nullopt);
  EXPECT_EQ(*dataset->ReadValue(2, image, &buffer), "");
  const std::vector<uint64_t> wanted = {2, 1, 0};
  std::vector<std::string_view> values(3);
  ASSERT_TRUE(dataset->ReadValues(wanted, image, &buffer, values).ok());
  EXPECT_NE(values[0].data(), nullptr);
  EXPECT_EQ(values[0], "");
  EXPECT_EQ(values[1].data(), nullptr);
  EXPECT_EQ(values[2], samples[0].fields[0].second);
}

TEST_F(DatasetReaderTest, FindsKeysInAllShards) {
  const auto dataset = Open();
  BlockBuffer buffer;
  for (uint64_t i = 0; i < samples_.size(); ++i) {
    EXPECT_EQ(*dataset->FindKey(samples_[i].key, &buffer), i);
  }
  EXPECT_EQ(*dataset->FindKey("", &buffer), std::nullopt);
  EXPECT_EQ(*dataset->FindKey("k100", &buffer), std::nullopt);
}

TEST_F(DatasetReaderTest, FindsKeysWithoutOpeningShardsInVain) {
  FaultFileSystem counting(files_.get());
  auto dataset = DatasetReader::Open(counting, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto opened = [&] {
    std::vector<std::string> paths;
    for (const FileSystemCall& call : counting.calls()) {
      if (call.operation == "open" && call.path.ends_with(".shard")) paths.push_back(call.path);
    }
    return paths;
  };
  BlockBuffer buffer;
  EXPECT_EQ(*(*dataset)->FindKey("k100", &buffer), std::nullopt);
  EXPECT_EQ(opened(), std::vector<std::string>());
  EXPECT_EQ(*(*dataset)->FindKey(samples_[95].key, &buffer), 95u);
  EXPECT_EQ(opened(), std::vector<std::string>{"/data/00000010.shard"});
}

TEST_F(DatasetReaderTest, FindsTheFirstOfEqualKeys) {
  auto samples = MakeSamples(20);
  samples[3].key = samples[11].key = samples[17].key;
  ASSERT_TRUE(WriteDataset(*files_, "/equal", samples, SmallShards(5, 2)).ok());
  BlockBuffer buffer;
  EXPECT_EQ(*Open({}, "/equal")->FindKey(samples[17].key, &buffer), 3u);
  EXPECT_EQ(*Open({}, "/equal")->FindKey(samples[4].key, &buffer), 4u);
}

TEST_F(DatasetReaderTest, FindsKeysInTheShardsWhereTheSegmentIsMissingOrDamaged) {
  const std::string path = "/data/dataset.segment", good = ReadAll(*files_, path);
  // How many shards are opened to find a key, of 10.
  const auto searched = [&](bool index) {
    FaultFileSystem counting(files_.get());
    const auto dataset = *DatasetReader::Open(counting, "/data");
    BlockBuffer buffer;
    EXPECT_EQ(*dataset->FindKey(samples_[60].key, &buffer), 60u);
    std::set<std::string> shards;
    for (const FileSystemCall& call : counting.calls()) {
      if (call.operation == "open" && call.path.ends_with(".shard")) shards.insert(call.path);
    }
    EXPECT_EQ(*dataset->FindKey("k100", &buffer), std::nullopt);
    EXPECT_EQ(dataset->index_problem().empty(), index);
    return shards.size();
  };
  EXPECT_EQ(searched(true), 1u);
  std::string flipped = good;
  const auto entry = Hash64(samples_[60].key);
  flipped[good.find(std::string_view(reinterpret_cast<const char*>(&entry), 8))] ^= 1;
  WriteFile(*files_, path, flipped);
  EXPECT_EQ(searched(true), 7u) << "of the index no byte is damaged";
  WriteFile(*files_, path, good.substr(0, good.size() - 8));
  EXPECT_EQ(searched(false), 7u);
  auto samples = MakeSamples(100);
  samples[5].key = "another";
  ASSERT_TRUE(WriteDataset(*files_, "/changed", samples, SmallShards(9, 4)).ok());
  WriteFile(*files_, path, ReadAll(*files_, "/changed/dataset.segment"));
  EXPECT_EQ(searched(false), 7u);
  ASSERT_TRUE(files_->RemoveFile(path).ok());
  EXPECT_EQ(searched(false), 7u);
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  EXPECT_EQ(ReadAll(*files_, path), good);
  EXPECT_EQ(searched(true), 1u);
}

// Requests that wait for each other, at any number of shards: of an index that is read with its root, and of a larger.
TEST_F(DatasetReaderTest, RoundTrips) {
  for (const size_t shards : {300u, 15000u}) {
    const bool large = shards == 15000;
    const auto samples = MakeSamples(shards);
    const std::string path = "/many" + std::to_string(shards);
    ASSERT_TRUE(WriteDataset(*files_, path, samples, SmallShards(1, 1)).ok());
    EXPECT_EQ(files_->Stat(path + "/dataset.segment")->size > (1 << 20), large);
    const auto slow = shardctl::NewLatencyFileSystem(*files_, {.latency = std::chrono::milliseconds(10)});
    CountingFileSystem counting(slow.get());
    const auto dataset = DatasetReader::Open(counting, path);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ(counting.requests(), 2u) << "the manifest, and the root of the segment";
    EXPECT_EQ(counting.round_trips(), 2u);

    const size_t image = *(*dataset)->FindColumn("image");
    BlockBuffer buffer;
    counting.Reset();
    ASSERT_TRUE((*dataset)->ReadValue(200, image, &buffer).ok());
    EXPECT_EQ(counting.round_trips(), large ? 2u : 1u) << "a page of the index, and the record";

    // The shard's ends, the front of the block, whose key is compared, and the record; of a large segment pages of the
    // keys, and where no value was read yet of list and index, too.
    for (const size_t sample : {250, 100}) {
      counting.Reset();
      EXPECT_EQ(*(*dataset)->FindKey(samples[sample].key, &buffer), sample);
      ASSERT_TRUE((*dataset)->ReadValue(sample, image, &buffer).ok());
      EXPECT_EQ(counting.round_trips(), large ? 4u : 3u) << sample;
    }
    const auto another = DatasetReader::Open(counting, path);
    ASSERT_TRUE(another.ok()) << another.status();
    counting.Reset();
    EXPECT_EQ(*(*another)->FindKey(samples[250].key, &buffer), 250u);
    ASSERT_TRUE((*another)->ReadValue(250, image, &buffer).ok());
    EXPECT_EQ(counting.round_trips(), large ? 6u : 3u) << "the most";

    // Many values at once: their pages, and they.
    const auto third = DatasetReader::Open(counting, path);
    ASSERT_TRUE(third.ok()) << third.status();
    counting.Reset();
    const std::vector<uint64_t> wanted = {shards - 1, 0, shards / 2, 7};
    std::vector<std::string_view> values(wanted.size());
    ASSERT_TRUE((*third)->ReadValues(wanted, image, &buffer, values).ok());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(values[i], RowOf(samples[wanted[i]]).at("image"));
    EXPECT_EQ(counting.round_trips(), large ? 2u : 1u);
  }
}

// Each thread asks for a sample of the same shard.
TEST_F(DatasetReaderTest, NoShardIsOpenedTwice) {
  FaultFileSystem counting(files_.get());
  const auto dataset = DatasetReader::Open(counting, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_TRUE((*dataset)->OpenShard(0).ok()); });
  for (std::thread& thread : threads) thread.join();
  const std::string path = JoinPath("/data", (*dataset)->Shard(0)->name);
  EXPECT_EQ(std::ranges::count_if(counting.calls(),
                                  [&](const auto& call) { return call.operation == "open" && call.path == path; }),
            1);
}

// However many shards there are.
TEST_F(DatasetReaderTest, AKeyTakesThreeReadsAndThoseOfItsSample) {
  const auto samples = MakeSamples(300);
  ASSERT_TRUE(WriteDataset(*files_, "/many", samples, SmallShards(1, 1)).ok());
  CountingFileSystem counting(files_.get());
  for (const bool found : {true, false}) {
    auto dataset = DatasetReader::Open(counting, "/many");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    BlockBuffer buffer;
    counting.Reset();
    const auto sample = (*dataset)->FindKey(found ? samples[250].key : "there is none", &buffer);
    ASSERT_TRUE(sample.ok()) << sample.status();
    EXPECT_EQ(*sample, found ? std::optional<uint64_t>(250) : std::nullopt);
    const uint64_t of_shard = found ? 3 : 0;  // its header, its end, and the block's front
    EXPECT_LE(counting.reads().size(), 3 + of_shard);
    EXPECT_LE(counting.bytes(), (uint64_t{256} << 10) + (found ? uint64_t{32} << 10 : 0));
    counting.Reset();
    ASSERT_TRUE((*dataset)->FindKey("nor this", &buffer).ok());
    EXPECT_EQ(counting.reads().size(), 0u);  // the page is known
  }
}

TEST_F(DatasetReaderTest, LocatesAndDescribes) {
  const auto dataset = Open();
  const auto location = dataset->Locate(28);
  ASSERT_TRUE(location.ok());
  EXPECT_EQ(location->shard, 3u);
  EXPECT_EQ(location->local, 1u);
  EXPECT_TRUE(absl::IsOutOfRange(dataset->Locate(100).status()));
  EXPECT_TRUE(absl::IsOutOfRange(dataset->OpenShard(12).status()));
  BlockBuffer buffer;
  EXPECT_TRUE(absl::IsOutOfRange(dataset->ReadValue(100, 0, &buffer).status()));
  EXPECT_TRUE(absl::IsOutOfRange(dataset->ReadValue(100, 1, &buffer).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(dataset->ReadValue(0, 4, &buffer).status()));
  EXPECT_TRUE(absl::IsOutOfRange(dataset->FindColumn("no").status()));
  const auto statistics = dataset->ReadStatistics();
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  EXPECT_EQ((*statistics)[0].present_count, 100u);
  EXPECT_EQ((*statistics)[2].present_count, 33u);
}

TEST_F(DatasetReaderTest, AShardIsADatasetOfOne) {
  const auto dataset = Open({}, "/data/00000001.shard");
  EXPECT_EQ(dataset->sample_count(), 9u);
  EXPECT_FALSE(dataset->index_problem().empty());
  EXPECT_EQ(ScanRows(*dataset), RowsOf(std::vector<OwnedSample>(samples_.begin() + 9, samples_.begin() + 18)));
  BlockBuffer buffer;
  EXPECT_EQ(*dataset->FindKey(samples_[10].key, &buffer), 1u);
}

// Over many pages of the index, and without it.
TEST_F(DatasetReaderTest, GivesTheBlocksOfSomeShards) {
  DatasetWriterOptions options = SmallShards(50, 1);
  options.shard.storage["image"] = Storage::kBlob;
  options.sync = false;
  ASSERT_TRUE(WriteDataset(*files_, "/many", MakeSamples(5000), options).ok());
  for (const bool lists : {true, false}) {
    const std::string manifest = ReadAll(*files_, "/many/dataset.json");
    if (lists) ListShardsApart(*files_, "/many");
    for (const bool index : {true, false}) {
      if (lists && !index) continue;  // nothing else lists the shards
      if (!index) {
        ASSERT_TRUE(files_->RemoveFile("/many/" + Open({}, "/many")->summary().segments[0].table.name).ok());
      }
      for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
        DatasetOptions reading;
        reading.mode = mode;
        const auto dataset = Open(reading, "/many");
        ASSERT_EQ(dataset->index_problem().empty(), index);
        const auto blocks = dataset->ReadBlockDirectory();
        ASSERT_TRUE(blocks.ok()) << blocks.status();
        ASSERT_EQ(blocks->size(), 5000u);
        ExpectBlocksOfShards(*dataset, *blocks);
      }
    }
    WriteFile(*files_, "/many/dataset.json", manifest);
  }
}

TEST_F(DatasetReaderTest, GivesTheShardsInOrder) {
  for (const bool lists : {false, true}) {
    if (lists) ListShardsApart(*files_, "/data");
    const auto dataset = Open();
    std::vector<ManifestShard> shards;
    const auto take = [&](const ManifestShard& shard) {
      shards.push_back(shard);
      return absl::OkStatus();
    };
    ASSERT_TRUE(dataset->ForEachShard(take).ok());
    EXPECT_EQ(shards, dataset->ReadManifest()->shards);
    const absl::Status enough = absl::CancelledError("enough");
    EXPECT_EQ(dataset->ForEachShard([&](const ManifestShard&) { return enough; }), enough);
  }
}

TEST_F(DatasetReaderTest, KeepsFewShardsOpen) {
  DatasetOptions options;
  options.max_open_shards = 2;
  FaultFileSystem counting(files_.get());
  auto dataset = DatasetReader::Open(counting, "/data", options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto opens = [&] {
    size_t count = 0;
    for (const FileSystemCall& call : counting.calls()) {
      count += call.operation == "open" && call.path.ends_with(".shard");
    }
    return count;
  };
  BlockBuffer buffer;
  const auto read = [&](uint64_t sample) {
    EXPECT_EQ(*(*dataset)->ReadValue(sample, 0, &buffer), samples_[sample].key);
  };
  EXPECT_EQ(opens(), 0u);
  read(0), read(1), read(10), read(2);
  EXPECT_EQ(opens(), 2u);
  read(20);  // closes the second shard, because the first was used later
  EXPECT_EQ(opens(), 3u);
  read(0), read(20);
  EXPECT_EQ(opens(), 3u);
  read(10);
  EXPECT_EQ(opens(), 4u);

  // A shard in use outlives its place in the cache.
  const auto shard = (*dataset)->OpenShard(5);
  read(0), read(10), read(20);
  EXPECT_EQ((*shard)->sample_count(), 9u);
  EXPECT_EQ(*(*shard)->ReadValue(0, 0, &buffer), samples_[45].key);
}

TEST_F(DatasetReaderTest, NoticesShardsThatAreNotThoseOfTheManifest) {
  WriteFile(*files_, "/data/00000002.shard", ReadAll(*files_, "/data/00000003.shard"));
  const auto dataset = Open();
  BlockBuffer buffer;
  EXPECT_TRUE(dataset->ReadValue(0, 0, &buffer).ok());
  const absl::Status status = dataset->ReadValue(20, 0, &buffer).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("/data/00000002.shard"), std::string::npos) << status;
  ASSERT_TRUE(files_->RemoveFile("/data/00000002.shard").ok());
  EXPECT_TRUE(absl::IsNotFound(dataset->ReadValue(20, 0, &buffer).status()));
  EXPECT_NE(ValidateText(*files_, "/data"), "");
}

// Values of the same sizes lie at the same places, and the index alone tells where they are.
TEST_F(DatasetReaderTest, NoticesAShardOfTheSameLength) {
  Random random(4);
  const auto make = [&](const std::string& path) {
    std::vector<OwnedSample> samples = MakeSamples(40);
    for (OwnedSample& sample : samples) sample.fields = {{&ImageColumn(), random.Bytes(3000)}};
    EXPECT_TRUE(WriteDataset(*files_, path, samples, SmallShards(9, 4)).ok());
    return samples;
  };
  const auto samples = make("/a");
  make("/b");
  const std::string right = ReadAll(*files_, "/a/00000002.shard"), wrong = ReadAll(*files_, "/b/00000002.shard");
  ASSERT_EQ(right.size(), wrong.size());
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect}) {
    for (const bool many : {false, true}) {
      for (const bool exchanged : {true, false}) {
        WriteFile(*files_, "/a/00000002.shard", exchanged ? wrong : right);
        DatasetOptions options;
        options.mode = mode;
        const auto dataset = Open(options, "/a");
        const size_t image = *dataset->FindColumn("image");
        for (int again = 0; again < 2; ++again) {
          for (const uint64_t sample : {0, 20}) {
            BlockBuffer buffer;
            std::vector<std::string_view> values(1);
            absl::Status status;
            if (many) {
              status = dataset->ReadValues({&sample, 1}, image, &buffer, values);
            } else if (const auto value = dataset->ReadValue(sample, image, &buffer); value.ok()) {
              values[0] = **value;
            } else {
              status = value.status();
            }
            if (exchanged && sample == 20) {
              EXPECT_TRUE(absl::IsDataLoss(status)) << status;
              EXPECT_NE(Message(status).find("is not shard 2 of the manifest"), std::string::npos) << status;
            } else {
              ASSERT_TRUE(status.ok()) << status;
              EXPECT_EQ(values[0], samples[sample].fields[0].second);
            }
          }
        }
      }
    }
  }
}

TEST_F(DatasetReaderTest, AnIndexOfOtherShardsIsNotUsed) {
  ASSERT_TRUE(WriteDataset(*files_, "/other", MakeSamples(50), SmallShards(9, 4)).ok());
  const std::string index = ReadAll(*files_, "/data/dataset.segment");
  WriteFile(*files_, "/data/dataset.segment", ReadAll(*files_, "/other/dataset.segment"));
  auto dataset = Open();
  EXPECT_FALSE(dataset->index_problem().empty());
  EXPECT_EQ(ScanRows(*dataset), RowsOf(samples_));
  WriteFile(*files_, "/data/dataset.segment", index.substr(0, index.size() / 2));
  dataset = Open();
  EXPECT_FALSE(dataset->index_problem().empty());
  BlockBuffer buffer;
  EXPECT_EQ(*dataset->ReadValue(7, 1, &buffer), samples_[7].fields[0].second);
}

class FailingSegments final : public ForwardingFileSystem {
 public:
  FailingSegments(FileSystem& base, absl::Status status) : ForwardingFileSystem(base), status_(std::move(status)) {}
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    if (path.ends_with(".segment")) return status_;
    return ForwardingFileSystem::OpenForReading(path, mode, size);
  }

 private:
  const absl::Status status_;
};

// Without index and keys a reader may need hours, so it does not begin so because of an error that passes.
TEST_F(DatasetReaderTest, ASegmentThatCannotBeReadNowIsAnError) {
  for (const absl::Status& status :
       {absl::UnavailableError("no answer"), absl::DeadlineExceededError("no answer"), absl::CancelledError("ended"),
        absl::ResourceExhaustedError("too many open files")}) {
    FailingSegments files(*files_, status);
    EXPECT_EQ(DatasetReader::Open(files, "/data").status().code(), status.code());
  }
  for (const absl::Status& status : {absl::NotFoundError("gone"), absl::PermissionDeniedError("not allowed")}) {
    FailingSegments files(*files_, status);
    const auto opened = DatasetReader::Open(files, "/data");
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(ScanRows(**opened), RowsOf(samples_));
  }
}

TEST_F(DatasetReaderTest, WhatIsNoDatasetIsNotOpened) {
  EXPECT_TRUE(absl::IsNotFound(DatasetReader::Open(*files_, "/nothing").status()));
  ASSERT_TRUE(files_->CreateDirectory("/empty").ok());
  EXPECT_TRUE(absl::IsNotFound(DatasetReader::Open(*files_, "/empty").status()));
  WriteFile(*files_, "/text", "no shard");
  EXPECT_TRUE(absl::IsDataLoss(DatasetReader::Open(*files_, "/text").status()));
}

}  // namespace
}  // namespace shardkit::test
