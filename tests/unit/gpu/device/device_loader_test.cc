// A device's batches equal those of a loader with the same options, wherever the work is done.
#include "loader/device/uploading_loader.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "gpu/pinned_pool.h"
#include "loader/geometry_support.h"
#include "unit/gpu/device/device_loader_support.h"

namespace shardkit::test {
namespace {

class DeviceLoaderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = NewMemoryFileSystem().release();
    stored_ = new std::vector<Stored>(WriteImagesAndMasks(*files_));
    ASSERT_TRUE(WriteDataset(*files_, "/mixed", MakeSamples(200), SmallShards(20, 5)).ok());
  }
  static void TearDownTestSuite() {
    delete stored_;
    delete files_;
  }

  static LoaderOptions Options(uint64_t batch_size = 7) {
    LoaderOptions options;
    options.plan = {.seed = 3, .batch_size = batch_size};
    options.plan.shuffle_buffer_bytes = 1 << 20;
    options.memory_bytes = 8 << 20;
    options.epochs = 2;
    options.decode_threads = options.read_threads = 2;
    options.pinned_bytes = 8 << 20;
    return options;
  }

  static LoaderOptions ImagesAndMasks(const GeometryOptions& geometry) {
    LoaderOptions options = Options();
    options.geometry = geometry;
    options.columns = {{.name = "image", .decode = ColumnDecode::kImage},
                       {.name = "masks", .decode = ColumnDecode::kMasks}};
    return options;
  }

  void ExpectAsLoader(const LoaderOptions& options, const std::string& path = "/data", size_t hold = 0) {
    LoaderOptions host = options;
    host.device_geometry = false;
    const std::vector<std::string> expected = Deliver(*OpenLoader(*files_, host, path));
    ASSERT_GT(expected.size(), 10u);
    const auto loader = OpenDeviceLoader(device_, *files_, options, path);
    ASSERT_EQ(Deliver(*device_, *loader, hold), expected);
  }

  static FileSystem* files_;
  static std::vector<Stored>* stored_;
  const std::shared_ptr<gpu::Backend> device_ = TestDevice();
};
FileSystem* DeviceLoaderTest::files_ = nullptr;
std::vector<Stored>* DeviceLoaderTest::stored_ = nullptr;

TEST_F(DeviceLoaderTest, StoredColumnsOfEveryKind) {
  LoaderOptions options = Options();
  ExpectAsLoader(options, "/mixed");
  ExpectAsLoader(options, "/data");  // JPEGs as bytes, masks as runs
  options.device_batches = 5;
  options.plan.batch_size = 3;
  ExpectAsLoader(options, "/mixed", 9);
}

TEST_F(DeviceLoaderTest, MasksBecomeMasksOnTheDevice) {
  for (const GeometryOptions& geometry : Geometries()) {
    for (const bool upright : {false, true}) {
      LoaderOptions options = ImagesAndMasks(geometry);
      options.geometry.apply_orientation = upright;
      options.geometry.flip_probability = 0.5;
      ExpectAsLoader(options);
      options.columns[1].decode = ColumnDecode::kPackedMasks;
      ExpectAsLoader(options);
      if (geometry.kind == GeometryOptions::Kind::kNative) continue;
      options.columns[1].pad_masks = true;
      ExpectAsLoader(options);
    }
  }
}

TEST_F(DeviceLoaderTest, GeometryOnTheDevice) {
  for (const GeometryOptions& geometry : Geometries()) {
    for (const int channels : {1, 3}) {
      LoaderOptions options = ImagesAndMasks(geometry);
      options.geometry.apply_orientation = true;
      options.geometry.flip_probability = 0.5;
      options.columns[0].channels = channels;
      options.columns[0].image.scaled_decode = false;
      options.columns[0].image.fill = {10, 100, 200};
      options.device_geometry = true;
      ExpectAsLoader(options, "/data", 2);
    }
  }
}

// Planar floats, computed here again from the u8 pixels that a loader delivers.
template <typename T>
std::vector<T> Normalized(const BatchColumn& images, const PixelOutput& output, T (*round)(float)) {
  const uint64_t count = images.shape[0], pixels = images.shape[1] * images.shape[2], channels = images.shape[3];
  std::vector<T> values(count * pixels * channels);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t p = 0; p < pixels; ++p) {
      for (uint64_t c = 0; c < channels; ++c) {
        const float pixel = images.values[(i * pixels + p) * channels + c];
        values[(i * channels + c) * pixels + p] = round(std::fma(pixel, output.scale[c], output.bias[c]));
      }
    }
  }
  return values;
}

TEST_F(DeviceLoaderTest, NormalizedPixels) {
  const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
  for (const Type type : {Type::kF32, Type::kF16, Type::kU8}) {
    for (const bool on_device : {false, true}) {
      for (const int channels : {3, 1}) {
        LoaderOptions options = ImagesAndMasks(Geometries()[3]);
        options.columns[0].image.scaled_decode = false;
        options.columns[0].channels = channels;
        PixelOutput output = NormalizedOutput(type, mean, deviation);
        if (type == Type::kU8) output = {.type = type, .planar = true};
        const auto host = OpenLoader(*files_, options);
        options.columns[0].output = output;
        const auto converted = OpenLoader(*files_, options);
        options.device_geometry = on_device;
        const auto loader = OpenDeviceLoader(device_, *files_, options);
        for (auto expected = *host->Next(); expected != nullptr; expected = *host->Next()) {
          const auto batch = loader->Next();
          ASSERT_TRUE(batch.ok()) << batch.status();
          ASSERT_TRUE((*batch)->Synchronize().ok());
          const BatchColumn& images = *(*batch)->Find("image");
          EXPECT_EQ(images.dtype, type);
          const BatchColumn& pixels = *expected->Find("image");
          EXPECT_EQ(images.shape,
                    (std::vector<uint64_t>{pixels.shape[0], pixels.shape[3], pixels.shape[1], pixels.shape[2]}));
          const std::vector<uint8_t> bytes = Fetch(*device_, images.values.data(), images.values.size());
          // The decoding threads of a loader without a device make the same.
          const auto on_host = *converted->Next();
          const BatchColumn& made = *on_host->Find("image");
          EXPECT_EQ(made.dtype, type);
          EXPECT_EQ(made.shape, images.shape);
          EXPECT_EQ(std::vector<uint8_t>(made.values.begin(), made.values.end()), bytes);
          const auto same = [&](const auto& values) {
            return bytes.size() == values.size() * sizeof(values[0]) &&
                   std::memcmp(bytes.data(), values.data(), bytes.size()) == 0;
          };
          if (type == Type::kF32) {
            EXPECT_TRUE(same(Normalized<float>(pixels, output, [](float v) { return v; })));
          }
          if (type == Type::kU8) {
            EXPECT_TRUE(same(Normalized<uint8_t>(pixels, output, [](float v) { return static_cast<uint8_t>(v); })));
          }
#ifdef __FLT16_MAX__
          if (type == Type::kF16) {
            EXPECT_TRUE(same(Normalized<_Float16>(pixels, output, [](float v) { return static_cast<_Float16>(v); })));
          }
#endif
        }
        EXPECT_EQ(*loader->Next(), nullptr);
        EXPECT_EQ(*loader->Next(), nullptr);
      }
    }
  }
}

TEST_F(DeviceLoaderTest, NeitherMemoryNorThreadsNorDepthChangeTheBatches) {
  LoaderOptions options = ImagesAndMasks(Geometries()[3]);
  const std::vector<std::string> expected = Deliver(*OpenLoader(*files_, options));
  for (const int depth : {2, 4}) {
    for (const int threads : {1, 4}) {
      for (const uint64_t pinned : {uint64_t{4} << 20, uint64_t{32} << 20}) {
        for (const uint64_t device_bytes : {uint64_t{0}, uint64_t{1}, uint64_t{300'000}}) {
          options.device_batches = depth;
          options.decode_threads = options.read_threads = threads;
          options.pinned_bytes = pinned;
          options.device_bytes = device_bytes;
          for (const size_t hold : {0, 6}) {
            ASSERT_EQ(Deliver(*device_, *OpenDeviceLoader(device_, *files_, options), hold), expected);
          }
        }
      }
    }
  }
}

// Batches of 5 MB with 3.5 MB of page-locked memory for them.
TEST_F(DeviceLoaderTest, BatchesThatFindNoPinnedMemoryAreStaged) {
  LoaderOptions options = ImagesAndMasks(Geometries()[1]);
  options.geometry.width = options.geometry.height = 500;
  options.columns[0].image.scaled_decode = false;
  options.pinned_bytes = 4 << 20;
  options.memory_bytes = 64 << 20;
  const std::vector<std::string> expected = Deliver(*OpenLoader(*files_, options));
  const auto loader = OpenDeviceLoader(device_, *files_, options);
  ASSERT_EQ(Deliver(*device_, *loader), expected);
  const LoaderReport report = loader->Report();
  EXPECT_GT(report.staged_bytes, report.uploaded_bytes / 2);
  EXPECT_LE(report.peak_pinned_memory, options.pinned_bytes);
}

TEST_F(DeviceLoaderTest, RanksAndResuming) {
  LoaderOptions options = ImagesAndMasks(Geometries()[3]);
  options.plan.batch_size = 6;
  const std::vector<std::string> whole = Deliver(*OpenLoader(*files_, options));
  for (const size_t stop : {0, 1, 5, 11}) {
    std::optional<Cursor> cursor;
    uint64_t left = 0;
    {
      const auto loader = OpenDeviceLoader(device_, *files_, options);
      left = loader->steps_left();
      for (size_t i = 0; i < stop; ++i) {
        const auto batch = loader->Next();
        ASSERT_EQ(Show(*device_, **batch), whole[i]);
        EXPECT_EQ(loader->steps_left(), (*batch)->epoch() == 0 && i + 1 < left ? left - i - 1 : loader->steps_left());
      }
      // Batches that were read ahead and not taken are not lost.
      cursor = loader->cursor();
    }
    LoaderOptions rest = options;
    rest.cursor = cursor;
    const std::vector<std::string> expected = Deliver(*OpenLoader(*files_, rest));
    EXPECT_EQ(expected.size() + stop, whole.size());
    ASSERT_EQ(Deliver(*device_, *OpenDeviceLoader(device_, *files_, rest)), expected);
    rest.world_size = 2;
    for (rest.rank = 0; rest.rank < 2; ++rest.rank) {
      ASSERT_EQ(Deliver(*device_, *OpenDeviceLoader(device_, *files_, rest)), Deliver(*OpenLoader(*files_, rest)));
    }
  }
}

TEST_F(DeviceLoaderTest, ReportsAndTraces) {
  LoaderOptions options = ImagesAndMasks(Geometries()[3]);
  options.trace = true;
  const auto loader = OpenDeviceLoader(device_, *files_, options);
  const std::vector<std::string> shown = Deliver(*device_, *loader);
  LoaderReport report = loader->Report();
  while (report.uploaded_bytes == 0) report = loader->Report();
  EXPECT_EQ(report.batches, shown.size());
  EXPECT_EQ(report.samples, 96u);
  EXPECT_GT(report.uploaded_bytes / report.samples, 24 * 20 * 3);
  EXPECT_EQ(report.upload.threads, 1);
  EXPECT_GT(report.upload.busy, 0);
  EXPECT_GT(report.copy_seconds, 0);
  EXPECT_GT(report.kernel_seconds, 0);
  EXPECT_GT(report.peak_device_memory, 0u);
  EXPECT_GT(report.peak_pinned_memory, 0u);
  EXPECT_FALSE(Diagnose(report).stage.empty());
  const std::string trace = loader->Trace();
  for (const std::string& lane : {device_->info().name + " copy", device_->info().name + " kernels",
                                  std::string("device consumer"), std::string("decode 0")}) {
    EXPECT_NE(trace.find("\"" + lane + "\""), std::string::npos) << lane;
  }
}

// Between epochs the loader opens the newest generation of its dataset, on the device as on the host.
TEST_F(DeviceLoaderTest, FollowsADatasetThatGrows) {
  const auto files = NewMemoryFileSystem();
  const auto append = [&](size_t begin, size_t end) {
    const std::vector<OwnedSample> all = MakeSamples(end);
    DatasetWriterOptions options = SmallShards(20, 5);
    options.append = begin > 0;
    return WriteDataset(*files, "/growing",
                        std::vector<OwnedSample>(all.begin() + static_cast<ptrdiff_t>(begin), all.end()), options);
  };
  ASSERT_TRUE(append(0, 20).ok());
  LoaderOptions options = Options(5);
  options.follow = true;
  options.device = device_->info().name;
  auto loader = Loader::Open(*files, {{.path = "/growing"}}, options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  size_t samples[2] = {0, 0};
  std::vector<std::shared_ptr<const Batch>> held;  // of a loader that is gone
  while (true) {
    const auto batch = (*loader)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (*batch == nullptr) break;
    EXPECT_EQ((*batch)->device().name, device_->info().name);
    samples[(*batch)->epoch()] += (*batch)->size();
    held.push_back(*batch);
    if (samples[0] == 15 && samples[1] == 0) {
      ASSERT_TRUE(append(20, 30).ok());
    }
  }
  EXPECT_EQ(samples[0], 20u);
  EXPECT_EQ(samples[1], 30u);
  for (const auto& batch : held) EXPECT_TRUE(batch->Synchronize().ok());
  EXPECT_EQ((*loader)->Report().samples, 50u);
  EXPECT_EQ((*loader)->Report().upload.threads, 1);
}

// Page-locked memory is for the host where there is CUDA; a host without it says so.
TEST_F(DeviceLoaderTest, TheHost) {
  LoaderOptions options = ImagesAndMasks(Geometries()[3]);
  const auto plain = OpenLoader(*files_, options);
  const std::shared_ptr<const Batch> batch = *plain->Next();
  EXPECT_EQ(batch->device().name, "host");
  EXPECT_TRUE(batch->WaitOn(nullptr).ok());
  EXPECT_TRUE(batch->Synchronize().ok());
  EXPECT_EQ(batch->outcome(), absl::OkStatus());
  EXPECT_EQ(batch->column(0).on_device.offsets, nullptr);
  options.pin_memory = true;
  auto pinned = Loader::Open(*files_, {{.path = "/data"}}, options);
  if (!CudaDevices().ok() || CudaDevices()->empty()) {
    EXPECT_TRUE(absl::IsUnavailable(pinned.status()) || absl::IsNotFound(pinned.status())) << pinned.status();
    return;
  }
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  options.pin_memory = false;
  EXPECT_EQ(Deliver(**pinned), Deliver(*OpenLoader(*files_, options)));
  EXPECT_GT((*pinned)->Report().peak_pinned_memory, 0u);
  EXPECT_LE((*pinned)->Report().peak_pinned_memory, options.pinned_bytes);
}

TEST_F(DeviceLoaderTest, RefusesWhatCannotBe) {
  const auto message = [&](const LoaderOptions& options) {
    const absl::Status status = loader::OpenOnDevice(device_, *files_, {{.path = "/data"}}, options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  LoaderOptions options = ImagesAndMasks(Geometries()[3]);
  options.device_batches = 1;
  EXPECT_NE(message(options).find("device_batches is 1"), std::string::npos);
  options = ImagesAndMasks(Geometries()[3]);
  options.pinned_bytes = 1000;
  EXPECT_NE(message(options).find("pinned_bytes is 1000"), std::string::npos);
  options = ImagesAndMasks(Geometries()[3]);
  options.columns[0].output = {.type = Type::kF64, .planar = true};
  EXPECT_NE(message(options).find("cannot become f64"), std::string::npos);
  options.columns[0].output = {.type = Type::kF32};
  EXPECT_NE(message(options).find("are planar"), std::string::npos);
  options.columns[0].output = {};
  options.columns[1].output = {.type = Type::kF32, .planar = true};
  EXPECT_NE(message(options).find("only images have an output"), std::string::npos);
  options = ImagesAndMasks({});
  options.columns[0].output = {.type = Type::kF32, .planar = true};
  EXPECT_NE(message(options).find("their own sizes"), std::string::npos);
  options.columns[0].output = {};
  options.columns[0].decode = ColumnDecode::kViews;
  EXPECT_NE(message(options).find("views cannot be uploaded"), std::string::npos);
  options = ImagesAndMasks({});
  options.columns[0].deferred = true;
  EXPECT_NE(message(options).find("device_geometry"), std::string::npos);
  options = ImagesAndMasks({});
  options.device_geometry = true;
  const absl::Status on_host = Loader::Open(*files_, {{.path = "/data"}}, options).status();
  EXPECT_NE(on_host.message().find("device_geometry is for a device"), absl::string_view::npos) << on_host;
  options.device_geometry = false;
  options.device = "gpu";
  const absl::Status unknown = Loader::Open(*files_, {{.path = "/data"}}, options).status();
  EXPECT_NE(unknown.message().find("device \"gpu\""), absl::string_view::npos) << unknown;
  options = ImagesAndMasks({});
  options.pin_memory = true;
  EXPECT_NE(message(options).find("pin_memory is for batches on the host"), std::string::npos);
}

}  // namespace
}  // namespace shardkit::test
