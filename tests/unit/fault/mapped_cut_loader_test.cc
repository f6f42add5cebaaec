// A loader whose files are truncated while they are mapped: correct batches, then an error.
#include <chrono>
#include <functional>
#include <thread>

#include "fault/cut_support.h"
#include "shardkit/loader.h"

namespace shardkit::test {
namespace {

LoaderOptions Options(const std::string& column, uint64_t seed, uint64_t epochs) {
  LoaderOptions options;
  options.read.mode = ReadMode::kMapped;
  options.plan = {.seed = seed, .batch_size = 3, .shuffle_buffer_bytes = 20000};
  options.epochs = epochs;
  options.memory_bytes = 4 << 20;
  options.decode_threads = options.read_threads = 2;
  options.columns = {{.name = column}};
  return options;
}

std::vector<std::string> Shards(const std::string& path) {
  std::vector<std::string> shards;
  for (const auto& [name, bytes] : ReadTree(*PosixFileSystem(), path)) {
    if (name.ends_with(".shard") || name.ends_with(".mds") || name.ends_with(".tar"))
      shards.push_back(JoinPath(path, name));
  }
  return shards;
}

// Reads batches until the end or an error, and compares each batch with its samples. Calls `at_step` before each batch.
absl::Status Follow(Loader& loader, const std::vector<OwnedSample>& samples,
                    const std::function<void(size_t)>& at_step) {
  for (size_t step = 0;; ++step) {
    at_step(step);
    auto batch = loader.Next();
    if (!batch.ok()) return batch.status();
    if (*batch == nullptr) return absl::OkStatus();
    std::string expected;
    for (const BatchSample& sample : (*batch)->samples()) expected += samples[sample.ordinal].fields[0].second;
    const auto values = (*batch)->column(0).values;
    if (std::string_view(reinterpret_cast<const char*>(values.data()), values.size()) != expected) {
      return absl::UnknownError("a batch has other bytes than its samples");
    }
  }
}

class MappedCutLoaderTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { WriteContainer(GetParam(), directory_, path_); }

  std::unique_ptr<Loader> Open(uint64_t seed, uint64_t epochs) {
    const std::string column = GetParam().starts_with("tar") ? "image.jpg" : "image";
    auto loader = Loader::Open(*PosixFileSystem(), {{.path = path_}}, Options(column, seed, epochs));
    EXPECT_TRUE(loader.ok()) << loader.status();
    return loader.ok() ? *std::move(loader) : nullptr;
  }

  const SystemDirectory directory_;
  const std::string path_ = directory_.Path("data");
  const std::vector<OwnedSample> samples_ = LargeSamples();
};

TEST_P(MappedCutLoaderTest, BetweenBatches) {
  const auto whole = Open(1, 2);
  ASSERT_TRUE(Follow(*whole, samples_, [](size_t) {}).ok());
  const auto loader = Open(1, 0);  // for ever
  const absl::Status status = Follow(*loader, samples_, [&](size_t step) {
    if (step != 2) return;
    for (const std::string& shard : Shards(path_)) Cut(shard, 5000);
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("was cut while it was mapped"), std::string::npos) << status;
}

// The file is truncated at any moment: while a block is hashed, parsed or copied. Samples and keys contain no zeros, so
// that truncated bytes are noticed.
TEST_P(MappedCutLoaderTest, AtAnyMoment) {
  const Tree tree = ReadTree(*PosixFileSystem(), path_);
  for (uint64_t round = 0; round < 12; ++round) {
    const auto loader = Open(round, 3);
    ASSERT_NE(loader, nullptr);
    std::thread cutter([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 200));
      for (const std::string& shard : Shards(path_)) Cut(shard, round * 4500 % 30000);
    });
    const absl::Status status = Follow(*loader, samples_, [](size_t) {});
    cutter.join();
    // The loader may have finished before.
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
    for (const std::string& shard : Shards(path_)) {
      ASSERT_TRUE(PosixFileSystem()->RemoveFile(shard).ok());
      WriteFile(*PosixFileSystem(), shard, tree.at(shard.substr(path_.size() + 1)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MappedCutLoaderTest, testing::Values("shard", "mds", "tar"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace shardkit::test
