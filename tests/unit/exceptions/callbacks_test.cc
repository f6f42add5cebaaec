// User functions that throw, on any thread. The exception becomes an error with its text, nothing hangs, and nothing is
// left behind.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

#include "gpu/pinned_pool.h"
#include "gpu/staging_ring.h"
#include "gpu/uploader.h"
#include "loader/loader_support.h"
#include "shardkit/copy.h"
#include "shardkit/repair.h"
#include "shardkit/source.h"
#include "support/disturbing_filesystem.h"
#include "support/fault_backend.h"
#include "unit/gpu/device/device_loader_support.h"

namespace shardkit::test {
namespace {

constexpr uint64_t kBad = 21;  // the sample at which functions throw

void ExpectError(const absl::Status& status, absl::StatusCode code, std::vector<std::string> words) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& word : words) {
    EXPECT_NE(Message(status).find(word), std::string::npos) << status << "\nlacks " << word;
  }
}

class CallbacksTest : public testing::Test {
 protected:
  // 48 samples, shards of 16, blocks of 4.
  void SetUp() override {
    std::vector<Values> rows;
    for (int i = 0; i < 48; ++i)
      rows.push_back({"k" + std::to_string(100 + i), std::string(100, static_cast<char>(i))});
    WriteRows(*files_, "/data", {KeyColumn(), {.name = "blob", .type = Type::kBytes}}, rows, SmallShards(16, 4));
  }

  static LoaderOptions Options(int threads, const std::function<void(uint64_t ordinal)>& decode = nullptr) {
    LoaderOptions options;
    options.plan = {.seed = 1, .order = SampleOrder::kSequential, .batch_size = 6};
    options.memory_bytes = 4 << 20;
    options.decode_threads = options.read_threads = threads;
    LoaderColumn column{.name = "blob"};
    if (decode) {
      column.decode = ColumnDecode::kFunction;
      column.shape = {1};
      column.function = [decode](const FunctionInput& input, AugmentationRandom&, std::span<uint8_t>) {
        decode(input.ordinal);
        return absl::OkStatus();
      };
    }
    options.columns = {column};
    return options;
  }

  // Continues until the error, which stays, and counts the batches before it.
  static absl::Status Follow(Loader& loader, uint64_t* batches = nullptr) {
    while (true) {
      const auto batch = loader.Next();
      if (!batch.ok()) {
        EXPECT_EQ(loader.Next().status(), batch.status());
        return batch.status();
      }
      if (*batch == nullptr) return absl::OkStatus();
      if (batches != nullptr) ++*batches;
    }
  }

  absl::Status Run(const LoaderOptions& options, uint64_t* batches = nullptr) {
    auto loader = Loader::Open(*files_, {{.path = "/data"}}, options);
    return loader.ok() ? Follow(**loader, batches) : loader.status();
  }

  // A file system that throws when a shard is opened.
  DisturbingFileSystem ThrowingFiles() {
    return {*files_,
            [](std::string path) {
              if (path.ends_with("000001.shard")) throw std::runtime_error("no such bucket");
              return path;
            },
            nullptr};
  }

  const std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(CallbacksTest, ADecodeFunctionsExceptionNamesItsSample) {
  const auto run = [&](const std::function<void()>& fail, absl::StatusCode code, const std::string& text) {
    for (const int threads : {1, 4}) {
      for (const BadSamples policy : {BadSamples::kFail, BadSamples::kSkip}) {
        LoaderOptions options = Options(threads, [&](uint64_t ordinal) {
          if (ordinal == kBad || ordinal == kBad + 2) fail();
        });
        options.bad_samples = policy;
        uint64_t batches = 0;
        ExpectError(Run(options, &batches), code,
                    {"/data: sample 21 (shard 1, block 1): column \"blob\": decoding: " + text});
        EXPECT_EQ(batches, kBad / 6);
      }
    }
  };
  run([] { throw std::runtime_error("a torn page"); }, absl::StatusCode::kInternal, "threw an exception: a torn page");
  run([] { throw std::bad_alloc(); }, absl::StatusCode::kResourceExhausted, "there is no memory");
  run([] { throw 7; }, absl::StatusCode::kInternal, "threw an exception that is no std::exception");
}

// A bad sample before it in the batch is skipped. The exception still ends the loader.
TEST_F(CallbacksTest, SkippingBadSamplesSkipsNoException) {
  LoaderOptions options = Options(2);
  options.bad_samples = BadSamples::kSkip;
  options.columns[0].decode = ColumnDecode::kFunction;
  options.columns[0].shape = {1};
  options.columns[0].function = [](const FunctionInput& input, AugmentationRandom&,
                                   std::span<uint8_t>) -> absl::Status {
    if (input.ordinal == kBad) throw std::runtime_error("a torn page");
    return input.ordinal == kBad - 1 ? absl::DataLossError("blurred") : absl::OkStatus();
  };
  ExpectError(Run(options), absl::StatusCode::kInternal, {"sample 21 ", "a torn page"});
  options.bad_samples = BadSamples::kFail;
  ExpectError(Run(options), absl::StatusCode::kDataLoss, {"sample 20 ", "blurred"});
}

TEST_F(CallbacksTest, EveryThreadThrows) {
  for (int round = 0; round < 50; ++round) {
    LoaderOptions options = Options(4, [](uint64_t ordinal) { throw std::runtime_error(std::to_string(ordinal)); });
    options.epochs = 0;
    options.observer = nullptr;
    ExpectError(Run(options), absl::StatusCode::kInternal, {"sample 0 ", "threw an exception: 0"});
  }
}

TEST_F(CallbacksTest, ABatchFunctionsExceptionComesInTheBatchsStead) {
  for (const int threads : {1, 4}) {
    LoaderOptions options = Options(threads);
    options.batch_function = [](Batch& batch) -> absl::Status {
      if (batch.step() >= 3) throw std::runtime_error("step " + std::to_string(batch.step()));
      return absl::OkStatus();
    };
    uint64_t batches = 0;
    ExpectError(Run(options, &batches), absl::StatusCode::kInternal,
                {"batch_function on the batch of epoch 0, step 3: threw an exception: step 3"});
    EXPECT_EQ(batches, 3u);
    options.batch_function = [](Batch&) -> absl::Status { throw std::bad_alloc(); };
    ExpectError(Run(options), absl::StatusCode::kResourceExhausted, {"batch_function"});
  }
}

TEST_F(CallbacksTest, ObserversThatThrow) {
  struct Observer : StageObserver {
    explicit Observer(std::string at, bool at_end) : stage(std::move(at)), end(at_end) {}
    void Begin(const char* name) override {
      if (!end && name == stage) throw std::runtime_error("begin " + stage);
    }
    void End() override {
      if (end) throw std::runtime_error("end");
    }
    const std::string stage;
    const bool end;
  };
  for (const char* stage : {"read block", "lay out", "fill"}) {
    LoaderOptions options = Options(3);
    options.epochs = 0;
    options.observer = std::make_shared<Observer>(stage, false);
    ExpectError(Run(options), absl::StatusCode::kInternal, {"loader: the observer", "begin " + std::string(stage)});
  }
  LoaderOptions options = Options(3);
  options.epochs = 0;
  options.observer = std::make_shared<Observer>("", true);
  ExpectError(Run(options), absl::StatusCode::kInternal, {"loader: the observer: threw an exception: end"});
}

TEST_F(CallbacksTest, FileSystemsThatThrow) {
  DisturbingFileSystem files = ThrowingFiles();
  for (const int threads : {1, 3}) {
    auto loader = Loader::Open(files, {{.path = "/data"}}, Options(threads));
    ASSERT_TRUE(loader.ok()) << loader.status();
    uint64_t batches = 0;
    ExpectError(Follow(**loader, &batches), absl::StatusCode::kInternal,
                {"/data: shard 1, block 0: reading it: threw an exception: no such bucket"});
    EXPECT_EQ(batches, 2u);  // samples 0 to 11; the shard begins at 16

    const auto dataset = DatasetReader::Open(files, "/data");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    const auto scanner = (*dataset)->Scan({.threads = threads});
    absl::Status status;
    while (status.ok()) status = (*scanner)->Next().status();
    ExpectError(status, absl::StatusCode::kInternal, {"reading blocks: threw an exception: no such bucket"});
    EXPECT_EQ((*scanner)->Next().status(), status);
  }
  ExpectError(Validate(files, "/data").status(), absl::StatusCode::kInternal, {"no such bucket"});
}

TEST_F(CallbacksTest, UnpackingToAFileSystemThatThrows) {
  std::atomic<int> made = 0;
  DisturbingFileSystem files(*files_, nullptr, [&](const std::string&) {
    if (++made == 20) throw std::runtime_error("full");
  });
  const auto dataset = DatasetReader::Open(files, "/data");
  UnpackOptions options;
  options.threads = 3;
  ExpectError(Unpack(files, **dataset, "/out", options).status(), absl::StatusCode::kInternal,
              {"writing files: threw an exception: full"});
  EXPECT_FALSE(Exists(*files_, "/out"));
  made = 1000;
  options.progress = [](uint64_t, uint64_t) { throw std::runtime_error("a bar"); };
  ExpectError(Unpack(files, **dataset, "/out", options).status(), absl::StatusCode::kInternal, {"unpacking", "a bar"});
  EXPECT_FALSE(Exists(*files_, "/out"));
}

// Two samples per unit. `at` says which call throws.
class ThrowingSource : public Source {
 public:
  explicit ThrowingSource(std::string at) : at_(std::move(at)) {}
  std::string_view name() const override { return "throwing"; }
  absl::StatusOr<std::vector<Column>> InitialColumns() override {
    return std::vector<Column>{KeyColumn(), TextColumn()};
  }
  bool keys_ascend() const override { return true; }
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t) override {
    if (at_ == "next" && listed_ == 10) throw std::runtime_error("next");
    if (listed_ == 40) return nullptr;
    auto unit = std::make_unique<Unit>();
    unit->first = listed_;
    unit->sample_count = 2;
    listed_ += 2;
    return unit;
  }
  void Load(WorkUnit& unit, SampleBatch* batch) override {
    batch->Clear();
    for (size_t i = 0; i < 2; ++i) {
      const uint64_t ordinal = static_cast<Unit&>(unit).first + i;
      if (at_ == "load" && ordinal >= 20) throw std::runtime_error("load");
      if (at_ == "memory" && ordinal >= 20) throw std::bad_alloc();
      batch->samples.push_back({batch->arena.Copy("k" + std::to_string(100 + ordinal)), {}});
      batch->indexes.push_back(i);
    }
  }
  absl::StatusOr<uint64_t> Count() override { return 40; }

 private:
  struct Unit : WorkUnit {
    uint64_t first = 0;
  };
  const std::string at_;
  uint64_t listed_ = 0;
};

TEST_F(CallbacksTest, SourcesThatThrow) {
  for (const int threads : {1, 4}) {
    for (const bool skip : {false, true}) {
      const std::pair<const char*, absl::StatusCode> calls[] = {{"next", absl::StatusCode::kInternal},
                                                                {"load", absl::StatusCode::kInternal},
                                                                {"memory", absl::StatusCode::kResourceExhausted}};
      for (const auto& [at, code] : calls) {
        PackOptions options;
        options.dataset = SmallShards(6, 3);
        options.dataset.threads = threads;
        options.skip_errors = skip;
        ThrowingSource source(at);
        const std::string stage = std::string(at) == "next" ? "packing: " : "packing samples: ";
        ExpectError(Pack(*files_, source, "/packed", options).status(), code, {stage});
        EXPECT_FALSE(Exists(*files_, "/packed"));
        ThrowingSource again(at);
        ExpectError(DryRunPack(again, options).status(), code, {stage});
      }
    }
  }
}

// After an exception on the caller's own thread, a failed pack still keeps its finished shards.
TEST_F(CallbacksTest, PackingGoesOnAfterAnExceptionOfProgress) {
  PackOptions options;
  options.dataset = SmallShards(6, 3);
  options.dataset.job = "a job";
  options.keep_on_cancel = true;
  options.progress = [](const PackProgress& progress) {
    if (progress.samples >= 24) throw std::runtime_error("a bar");
  };
  ThrowingSource source("");
  ExpectError(Pack(*files_, source, "/packed", options).status(), absl::StatusCode::kInternal,
              {"packing: threw an exception: a bar"});
  options.progress = nullptr;
  options.dataset.resume = true;
  ThrowingSource rest("");
  const auto report = Pack(*files_, rest, "/packed", options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->manifest.sample_count, 40u);
  EXPECT_LT(report->samples, 40u);  // some were there
}

TEST_F(CallbacksTest, OtherProgressFunctions) {
  const auto fail = [](auto...) { throw std::runtime_error("a bar"); };
  ValidateOptions validate;
  validate.threads = 3;
  validate.progress = fail;
  ExpectError(Validate(*files_, "/data", validate).status(), absl::StatusCode::kInternal, {"validating", "a bar"});
  RepairOptions repair;
  repair.progress = fail;
  ExpectError(RepairDataset(*files_, "/data", "/repaired", repair).status(), absl::StatusCode::kInternal, {"a bar"});
  ConvertOptions convert;
  convert.to = Container::kMds;
  convert.pack.progress = fail;
  ExpectError(Convert(*files_, "/data", "/mds", convert).status(), absl::StatusCode::kInternal, {"packing", "a bar"});
  EXPECT_FALSE(Exists(*files_, "/mds"));
}

TEST_F(CallbacksTest, WorkOfTheHostDeviceThatThrows) {
  gpu::HostBackend device;
  const auto stream = *device.CreateStream();
  ASSERT_TRUE(device.Enqueue(stream, []() -> absl::Status { throw std::runtime_error("a kernel"); }).ok());
  const auto event = *device.CreateEvent(true);
  ASSERT_TRUE(device.Record(event, stream).ok());
  ExpectError(device.Synchronize(event), absl::StatusCode::kInternal, {"threw an exception: a kernel"});
  ExpectError(device.SynchronizeStream(stream), absl::StatusCode::kInternal, {"a kernel"});
  device.DestroyEvent(event);
  device.DestroyStream(stream);
}

TEST_F(CallbacksTest, AnUploadsDoneThatThrows) {
  const auto device = std::make_shared<FaultBackend>();
  const auto ring = gpu::StagingRing::Create(*gpu::PinnedPool::Create(device, {.bytes = 1 << 20}));
  const auto uploader = *gpu::Uploader::Create(device, ring, {});
  std::vector<uint8_t> from(1000, 7), to(1000);
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    const gpu::UploadPiece pieces[] = {{to.data(), from.data(), from.size(), false}};
    const auto transfer = uploader->Upload(pieces, nullptr, nullptr,
                                           [](const absl::Status&, double) { throw std::runtime_error("done"); });
    status = transfer.status();
    if (status.ok()) {
      EXPECT_TRUE((*transfer)->Synchronize().ok());
    }
  }
  ExpectError(status, absl::StatusCode::kInternal, {"threw an exception: done"});
  EXPECT_EQ(to, from);
}

TEST_F(CallbacksTest, FunctionsOfADeviceLoader) {
  const auto device = std::make_shared<FaultBackend>();
  LoaderOptions options = Options(2, [](uint64_t ordinal) {
    if (ordinal == kBad) throw std::runtime_error("a torn page");
  });
  options.pinned_bytes = 4 << 20;
  const auto loader = OpenDeviceLoader(device, *files_, options);
  absl::Status status;
  int batches = -1;
  for (; status.ok(); ++batches) status = loader->Next().status();
  ExpectError(status, absl::StatusCode::kInternal, {"/data: sample 21 (shard 1, block 1)", "a torn page"});
  EXPECT_EQ(batches, 3);
}

}  // namespace
}  // namespace shardkit::test
