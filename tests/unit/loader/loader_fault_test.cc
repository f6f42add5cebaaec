// A loader over a file system that fails at each call in turn. The loader reports the error, and delivers nothing wrong
// before it.
#include <gtest/gtest.h>

#include <set>

#include "loader/loader_support.h"
#include "support/fault_filesystem.h"

namespace shardkit::test {
namespace {

class LoaderFaultTest : public testing::Test {
 protected:
  void SetUp() override {
    DatasetWriterOptions options = SmallShards(20, 5);
    options.shard.storage = {{"image", Storage::kBlob}};
    ASSERT_TRUE(WriteDataset(*files_, "/data", MakeSamples(60), options).ok());
  }

  static LoaderOptions Options() {
    LoaderOptions options;
    options.plan = {.seed = 2, .batch_size = 7, .shuffle_buffer_bytes = 8000};
    options.memory_bytes = 4 << 20;
    options.decode_threads = options.read_threads = 2;
    return options;
  }

  // The message about a bad value depends on whether it was found through the offset index.
  static std::string WithoutReasons(const std::string& shown) {
    const size_t bad = shown.find("\n bad ");
    return bad == std::string::npos ? shown : shown.substr(0, shown.find(' ', bad + 7));
  }

  // Delivers until the end or an error. The batches before it are the beginning of `expected`.
  static absl::Status Follow(Loader& loader, const std::vector<std::string>& expected) {
    for (size_t step = 0;; ++step) {
      auto batch = loader.Next();
      if (!batch.ok()) {
        EXPECT_EQ(loader.Next().status(), batch.status());
        return batch.status();
      }
      if (*batch == nullptr) {
        EXPECT_EQ(step, expected.size());
        return absl::OkStatus();
      }
      EXPECT_LT(step, expected.size());
      if (step < expected.size()) {
        EXPECT_EQ(WithoutReasons(Show(**batch)), WithoutReasons(expected[step]));
      }
    }
  }

  // Fails each call of a whole run in turn.
  void FailEachCall(const LoaderOptions& options, const Fault& fault) {
    const std::vector<std::string> expected = Deliver(*OpenLoader(*files_, options));
    size_t errors = 0;
    for (uint64_t call = 1;; ++call) {
      FaultFileSystem faults(files_.get());
      faults.FailCall(call, fault);
      auto loader = Loader::Open(faults, {{.path = "/data"}}, options);
      const absl::Status status = loader.ok() ? Follow(**loader, expected) : loader.status();
      const auto failed = faults.failed_call();
      if (!failed) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      // The loader opens without the offset index, but not without the other files.
      if (failed->path == "/data/dataset.segment" && status.ok()) continue;
      ASSERT_FALSE(status.ok()) << failed->operation << " " << failed->path;
      EXPECT_EQ(status.code(), fault.status.code()) << status;
      // When all following calls fail too, another failure may be delivered first.
      if (!fault.all_following) {
        EXPECT_NE(Message(status).find(failed->path), std::string::npos) << status;
      }
      ++errors;
    }
    EXPECT_GT(errors, 12u);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(LoaderFaultTest, EveryCall) {
  for (const BadSamples policy : {BadSamples::kFail, BadSamples::kSkip}) {
    for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled}) {
      LoaderOptions options = Options();
      options.bad_samples = policy;
      options.plan.order = order;
      FailEachCall(options, {.status = absl::UnavailableError("the cable is out")});
    }
  }
}

TEST_F(LoaderFaultTest, ADeviceThatIsGone) {
  LoaderOptions options = Options();
  options.bad_samples = BadSamples::kSkip;
  FailEachCall(options, {.status = absl::InternalError("gone"), .all_following = true});
}

// The blocks of a section are read when the loader comes to it: from the index, or else from the shards.
TEST_F(LoaderFaultTest, InSections) {
  for (const bool index : {true, false}) {
    if (!index) {
      ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
    }
    LoaderOptions options = Options();
    options.plan.section_blocks = 1;
    options.epochs = 2;
    FailEachCall(options, {.status = absl::UnavailableError("the cable is out")});
  }
}

TEST_F(LoaderFaultTest, SomeColumnsOnly) {
  LoaderOptions options = Options();
  options.columns = {{.name = "label"}};
  FailEachCall(options, {.status = absl::UnavailableError("the cable is out")});
}

// The values of a damaged block are read one by one. An error of the device then is not damage.
TEST_F(LoaderFaultTest, ErrorsWhileADamagedBlockIsRead) {
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok());
  const std::string path = "/data/" + (*dataset)->Shard(1)->name;
  std::string file = ReadAll(*files_, path);
  const Row row = RowOf(MakeSamples(60)[27]);
  const size_t at = file.find(row.at("image"));
  ASSERT_NE(at, std::string::npos);
  file[at + 12] = static_cast<char>(file[at + 12] ^ 1);
  ASSERT_TRUE(files_->RemoveFile(path).ok());
  WriteFile(*files_, path, file);
  LoaderOptions options = Options();
  options.bad_samples = BadSamples::kSkip;
  const auto loader = OpenLoader(*files_, options);
  Deliver(*loader);
  ASSERT_EQ(loader->Report().skipped, 1u);
  FailEachCall(options, {.status = absl::UnavailableError("the cable is out")});
}

}  // namespace
}  // namespace shardkit::test
