// Files and datasets behind URLs. However the server misbehaves, a dataset reads as it does from memory.
#include "remote/object_filesystem.h"

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "dataset/dataset_support.h"
#include "io/started_read.h"
#include "unit/remote/test_server.h"

namespace shardkit::remote {
namespace {

using std::chrono::milliseconds;

// What "/b/KEY" is answered from a file system in memory, with a fault in every `fault_every`-th request.
class UrlFileSystemTest : public testing::Test {
 protected:
  ServedAnswer Serve(const ServedRequest& request) {
    if (request.target.find("list-type=2") != std::string::npos) {
      const bool folder =
          request.target.find("prefix=data%2F&") != std::string::npos || request.target.ends_with("prefix=data%2F");
      return {200,
              {},
              std::string("<ListBucketResult>") +
                  (folder ? "<Contents><Key>data/x</Key><Size>1</Size></Contents>" : "") + "</ListBucketResult>",
              {},
              {},
              false};
    }
    const absl::StatusOr<std::string> object = memory_->ReadFile(request.target.substr(2), 1 << 30);
    if (!object.ok() || object->empty()) return {404, {}, "", {}, {}, false};
    ServedAnswer answer = ServeObject(request, *object, "\"" + request.target + "\"");
    answer.latency = latency_;
    if (flip_every_ != 0 && request.target.ends_with(".shard") && ++served_ % flip_every_ == 0) {
      answer.body[answer.body.size() / 2] ^= 1;
    }
    if (flip_first_) {
      const std::lock_guard lock(mutex_);
      if (asked_.insert(request.target + request.headers.at("range")).second) answer.body[answer.body.size() / 2] ^= 1;
    }
    const int fault = fault_every_ == 0 || ++served_ % fault_every_ != 0 ? -1 : served_ / fault_every_ % 5;
    if (fault == 0) return {503, {}, "<Error><Code>SlowDown</Code></Error>", {}, {}, false};
    if (fault == 1) answer.cut_after = answer.body.size() / 2;
    if (fault == 2) answer.cut_after = answer.body.size() / 2, answer.reset = true;
    if (fault == 3) answer.body = answer.body.substr(1);
    if (fault == 4) answer.latency = milliseconds(30);
    return answer;
  }

  std::string Url(const std::string& path) const { return "s3://b/" + path; }

  std::atomic<int> fault_every_ = 0, flip_every_ = 0, served_ = 0;
  std::atomic<bool> flip_first_ = false;  // a bit of each range, when it is asked for the first time
  std::mutex mutex_;
  std::set<std::string> asked_;  // guarded by mutex_
  std::atomic<milliseconds> latency_ = milliseconds(0);
  std::unique_ptr<FileSystem> memory_ = NewMemoryFileSystem();
  TestServer server_{[this](const ServedRequest& request) { return Serve(request); }};
  std::unique_ptr<FileSystem> files_ = NewUrlFileSystem(
      *memory_,
      {
          .environment = [this](const char* name) -> std::optional<std::string> {
            for (const std::string_view endpoint : {"AWS_ENDPOINT_URL", "HF_ENDPOINT", "STORAGE_EMULATOR_HOST"}) {
              if (name == endpoint) return server_.origin();
            }
            if (name == std::string_view("AWS_NO_SIGN_REQUEST")) return "1";
            return std::nullopt;
          },
          .files = memory_.get(),
          .retry = {.first_delay = milliseconds(1), .longest_delay = milliseconds(4)},
      });
};

TEST_F(UrlFileSystemTest, OpeningWithASizeSendsNoRequest) {
  test::WriteFile(*memory_, "/k", "0123456789");
  const auto file = files_->OpenForReading(Url("k"), ReadMode::kMapped, 10);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(server_.requests().size(), 0u);
  EXPECT_EQ((*file)->size(), 10u);
  EXPECT_EQ((*file)->path(), "s3://b/k");
  std::string a(4, '?'), b(3, '?'), none;
  const std::vector<ReadRequest> requests = {{6, a}, {0, b}, {10, none}};
  ASSERT_TRUE((*file)->ReadBatch(requests).ok());
  EXPECT_EQ(a + b, "6789012");
  EXPECT_EQ(server_.requests().size(), 2u);
  EXPECT_TRUE(absl::IsOutOfRange((*file)->ReadAt(8, b)));
  ASSERT_TRUE((*file)->ReadAt(1, b).ok());
  EXPECT_EQ(server_.requests().back().headers.at("if-match"), "\"/b/k\"") << "the first answer decides on the version";
}

TEST_F(UrlFileSystemTest, AWholeFileIsOneRequestUpToAMegabyte) {
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{1} << 20, (size_t{1} << 20) + 1, size_t{3} << 20}) {
    std::string content(size, '?');
    for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 31 >> 3);
    const std::string name = "k" + std::to_string(size);
    test::WriteFile(*memory_, "/" + name, content);
    const size_t before = server_.requests().size();
    const auto read = files_->ReadFile(Url(name), 4 << 20);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == content) << size;
    EXPECT_EQ(server_.requests().size() - before, size <= (1 << 20) ? 1u : 2u);
    EXPECT_EQ(files_->ReadFile(Url(name), size).status(), absl::OkStatus());
    EXPECT_TRUE(absl::IsResourceExhausted(files_->ReadFile(Url(name), size - 1).status())) << size;
  }
  EXPECT_TRUE(absl::IsNotFound(files_->ReadFile(Url("other"), 10).status()));
}

TEST_F(UrlFileSystemTest, WhatHoldsObjectsIsNoObject) {
  // hf://datasets/x, which is no repository, and the name of a file that is looked for in it.
  for (const std::string path : {"s3://b", "s3://b/", "gs://b", "hf://datasets/x/dataset.json", "hf://datasets/o/n/"}) {
    EXPECT_TRUE(absl::IsNotFound(files_->ReadFile(path, 10).status())) << path;
    EXPECT_TRUE(absl::IsNotFound(files_->OpenForReading(path).status())) << path;
  }
  EXPECT_EQ(server_.requests().size(), 0u);
}

TEST_F(UrlFileSystemTest, ReadsAreCancelled) {
  test::WriteFile(*memory_, "/k", std::string(20 << 20, 'x'));
  latency_ = milliseconds(60'000);
  const auto file = files_->OpenForReading(Url("k"), ReadMode::kBuffered, 20 << 20);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string all(20 << 20, '?');
  const ReadRequest request{0, all};
  const io::StartedRead read(**file, std::span(&request, 1));
  (*file)->CancelReads();
  EXPECT_TRUE(absl::IsCancelled(read.Wait())) << read.Wait();
  EXPECT_TRUE(absl::IsCancelled((*file)->ReadAt(0, all)));
}

TEST_F(UrlFileSystemTest, TellsObjectsFromFoldersAndLeavesLocalPathsAlone) {
  test::WriteTree(*memory_, "/data", {{"x", "1"}});
  EXPECT_EQ(files_->Stat(Url("data/x"))->type, FileType::kRegular);
  EXPECT_EQ(files_->Stat(Url("data/x"))->size, 1u);
  EXPECT_EQ(files_->Stat(Url("data"))->type, FileType::kDirectory);
  EXPECT_EQ(files_->Stat(Url("data/"))->type, FileType::kDirectory);
  EXPECT_TRUE(absl::IsNotFound(files_->Stat(Url("other")).status()));
  EXPECT_TRUE(absl::IsNotFound(files_->OpenForReading(Url("other")).status()));
  EXPECT_EQ(files_->List(Url("data"))->at(0).name, "x");
  EXPECT_EQ(*files_->ReadFile(Url("data/x"), 10), "1");
  const size_t requests = server_.requests().size();
  EXPECT_EQ(*files_->ReadFile("/data/x", 10), "1");
  EXPECT_EQ(files_->Stat("/data")->type, FileType::kDirectory);
  EXPECT_EQ(server_.requests().size(), requests);
  EXPECT_TRUE(absl::IsUnimplemented(files_->Create(server_.origin() + "/new").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(files_->Link("/data/x", Url("data/x"))));
  EXPECT_TRUE(absl::IsInvalidArgument(files_->Stat("s3://").status()));
}

TEST_F(UrlFileSystemTest, DatasetsReadTheSameUnderFaults) {
  const std::vector<test::OwnedSample> samples = test::MakeSamples(60);
  const auto written = test::WriteDataset(*memory_, "/data", samples, test::SmallShards(9, 4));
  ASSERT_TRUE(written.ok()) << written.status();
  for (const int every : {0, 3}) {
    fault_every_ = every;
    EXPECT_EQ(test::ScanRows(*files_, Url("data")), test::RowsOf(samples)) << every;
  }
  EXPECT_GT(served_, 15) << "there were faults";
  const std::string page = server_.origin() + "/b/data";
  EXPECT_EQ(test::ScanRows(*files_, page), test::RowsOf(samples));
  EXPECT_EQ(files_->Stat(page)->type, FileType::kDirectory) << "known by its manifest";
  EXPECT_TRUE(absl::IsNotFound(files_->Stat(server_.origin() + "/b/other").status()));
}

// What arrives damaged is asked for again; what is damaged stays so.
TEST_F(UrlFileSystemTest, BitsThatFlipOnTheWayAreReadAgain) {
  const std::vector<test::OwnedSample> samples = test::MakeSamples(60);
  ASSERT_TRUE(test::WriteDataset(*memory_, "/data", samples, test::SmallShards(60, 4)).ok());
  const auto dataset = DatasetReader::Open(*files_, Url("data"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  flip_every_ = 2;
  BlockBuffer buffer;
  BlockView view;
  for (size_t block = 0; block < 15; ++block) {
    const absl::Status status = (*dataset)->ReadBlock(0, block, &buffer, &view);
    EXPECT_TRUE(status.ok()) << status;
  }
  const size_t image = *(*dataset)->FindColumn("image");
  std::vector<uint64_t> all(samples.size());
  std::vector<std::string_view> values(samples.size());
  for (uint64_t i = 0; i < all.size(); ++i) {
    all[i] = i;
    const auto value = (*dataset)->ReadValue(i, image, &buffer);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, samples[i].fields[0].second);
  }
  flip_every_ = 61;  // one of them, and not the second time
  served_ = 0;
  ASSERT_TRUE((*dataset)->ReadValues(all, image, &buffer, values).ok());
  flip_every_ = 1;
  EXPECT_TRUE(absl::IsDataLoss((*dataset)->ReadBlock(0, 0, &buffer, &view)));
}

TEST_F(UrlFileSystemTest, WhateverFlipsOnTheWayIsReadAgain) {
  const std::vector<test::OwnedSample> samples = test::MakeSamples(60);
  ASSERT_TRUE(test::WriteDataset(*memory_, "/data", samples, test::SmallShards(60, 4)).ok());
  flip_first_ = true;
  const auto dataset = DatasetReader::Open(*files_, Url("data"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_TRUE((*dataset)->ReadManifest().ok());
  BlockBuffer buffer;
  const size_t image = *(*dataset)->FindColumn("image");
  for (uint64_t i = 0; i < samples.size(); ++i) {
    const auto value = (*dataset)->ReadValue(i, image, &buffer);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, samples[i].fields[0].second);
    const auto found = (*dataset)->FindKey(samples[i].key, &buffer);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, i);
  }
  BlockView view;
  for (size_t block = 0; block < 15; ++block) {
    const absl::Status status = (*dataset)->ReadBlock(0, block, &buffer, &view);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(UrlFileSystemTest, AnObjectThatIsReplacedIsAnErrorOfTheReader) {
  test::WriteFile(*memory_, "/k", "0123456789");
  const auto file = files_->OpenForReading(Url("k"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(memory_->RemoveFile("/k").ok());
  test::WriteFile(*memory_, "/k", "0123456789 and more");
  std::string buffer(4, '?');
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->ReadAt(0, buffer)));
}

}  // namespace
}  // namespace shardkit::remote
