// Images and their masks through every geometry. Each equals the result of image.h's functions for it alone.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "loader/geometry_support.h"
#include "shardkit/image.h"

namespace shardkit::test {
namespace {

using Kind = GeometryOptions::Kind;

constexpr uint64_t kSeed = 31;

class GeometryColumnsTest : public testing::Test {
 protected:
  void SetUp() override { stored_ = WriteImagesAndMasks(*files_); }

  static LoaderOptions Options(const GeometryOptions& geometry, bool packed, bool padded, int channels = 3) {
    LoaderOptions options;
    options.plan = {.seed = kSeed, .batch_size = 7, .shuffle_buffer_bytes = 30000};
    options.memory_bytes = 32 << 20;
    options.decode_threads = options.read_threads = 2;
    options.geometry = geometry;
    options.epochs = 2;
    LoaderColumn image{.name = "image", .decode = ColumnDecode::kImage, .channels = channels};
    image.image.fill = {9, 8, 7};
    LoaderColumn masks{.name = "masks", .decode = packed ? ColumnDecode::kPackedMasks : ColumnDecode::kMasks};
    masks.pad_masks = padded;
    options.columns = {masks, image};
    return options;
  }

  // The geometry that the options give according to image.h, for one sample in one epoch.
  static Geometry Expected(const GeometryOptions& options, const Stored& stored, uint64_t epoch, uint64_t ordinal) {
    // Without an image, nothing says how the masks are turned.
    const int orientation = options.apply_orientation && stored.image ? stored.orientation : 1;
    const StoredSize size{stored.width, stored.height, orientation};
    AugmentationRandom random(kSeed, epoch, ordinal);
    Geometry geometry;
    if (options.kind == Kind::kNative) geometry = FullImage(size);
    if (options.kind == Kind::kResize) geometry = Resize(size, options.width, options.height);
    if (options.kind == Kind::kCenterCrop) geometry = CenterCrop(size, options.resize, options.width);
    if (options.kind == Kind::kLongestSide) geometry = ResizeLongestSide(size, options.width);
    if (options.kind == Kind::kRandomResizedCrop) {
      geometry = RandomResizedCrop(size, options.width, options.height, random, options.crop);
    }
    if (options.kind == Kind::kRandomCrop) {
      geometry =
          RandomCrop(size, options.width, options.height == 0 ? options.width : options.height, random, options.window);
    }
    if (options.kind == Kind::kLetterbox) geometry = Letterbox(size, options.width, options.height);
    if (random.Uniform() >= options.flip_probability) return geometry;
    // The whole output of a crop is mirrored; of others, the content in its place.
    if (options.kind == Kind::kRandomCrop) {
      geometry.content_left = geometry.output_width - geometry.content_left - geometry.content_width;
    }
    return FlipHorizontal(geometry);
  }

  void ExpectBatch(const Batch& batch, const LoaderOptions& options) {
    const BatchColumn& images = *batch.Find("image");
    const BatchColumn& masks = *batch.Find("masks");
    const bool native = options.geometry.kind == Kind::kNative;
    const size_t channels = static_cast<size_t>(options.columns[1].channels);
    EXPECT_EQ(images.layout, native ? BatchLayout::kRagged : BatchLayout::kTensor);
    EXPECT_EQ(masks.layout, BatchLayout::kMasks);
    uint64_t most = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const uint64_t ordinal = batch.samples()[i].ordinal;
      const Stored& stored = stored_[ordinal];
      const Geometry geometry = Expected(options.geometry, stored, batch.epoch(), ordinal);
      ASSERT_TRUE(CheckGeometry(geometry).ok());
      flipped_ += geometry.flip;
      const size_t bytes = size_t{geometry.output_width} * geometry.output_height * channels;
      std::vector<uint8_t> expected(bytes);
      EXPECT_EQ(images.present[i], stored.image.has_value());
      EXPECT_EQ(images.geometries[i], stored.image ? geometry : Geometry());
      if (stored.image) {
        const MutableImageView view{expected.data(), geometry.output_width, geometry.output_height,
                                    static_cast<int>(channels), geometry.output_width * channels};
        ASSERT_TRUE(ImageDecoder().Decode(*stored.image, geometry, options.columns[1].image, view).ok());
      }
      std::span<const uint8_t> got;
      if (native) {
        got = images.values.subspan(images.offsets[i], images.offsets[i + 1] - images.offsets[i]);
        const std::vector<uint64_t> shape = {stored.image ? geometry.output_height : 0,
                                             stored.image ? geometry.output_width : 0, channels};
        EXPECT_TRUE(std::ranges::equal(images.shapes.subspan(3 * i, 3), shape));
        if (!stored.image) expected.clear();
      } else {
        ASSERT_EQ(images.shape,
                  (std::vector<uint64_t>{batch.size(), geometry.output_height, geometry.output_width, channels}));
        got = images.values.subspan(i * bytes, bytes);
      }
      ASSERT_TRUE(std::ranges::equal(got, expected)) << ordinal;
      ExpectMasks(masks, i, stored, geometry, options.columns[0]);
      if (HasFatalFailure()) return;
      most = std::max<uint64_t>(most, stored.masks.size());
    }
    if (options.columns[0].pad_masks) {
      EXPECT_EQ(masks.shape[1], most);
      EXPECT_EQ(masks.values.size(), masks.shape[0] * masks.shape[1] * masks.shape[2] * masks.shape[3]);
    } else if (!native) {
      EXPECT_EQ(masks.shape[0], masks.offsets[batch.size()]);
    }
  }

  static void ExpectMasks(const BatchColumn& masks, size_t i, const Stored& stored, const Geometry& geometry,
                          const LoaderColumn& how) {
    const bool packed = how.decode == ColumnDecode::kPackedMasks;
    const size_t bytes =
        geometry.output_height * (packed ? PackedRowBytes(geometry.output_width) : geometry.output_width);
    ASSERT_EQ(masks.offsets[i + 1] - masks.offsets[i], stored.masks.size());
    std::vector<uint8_t> expected(bytes);
    for (size_t m = 0; m < stored.masks.size(); ++m) {
      const uint64_t item = masks.offsets[i] + m;
      EXPECT_EQ(masks.shapes[2 * item], geometry.output_height);
      EXPECT_EQ(masks.shapes[2 * item + 1], geometry.output_width);
      ASSERT_TRUE((packed ? RasterizeMaskPacked(stored.masks[m], geometry, expected)
                          : RasterizeMask(stored.masks[m], geometry, expected))
                      .ok());
      const uint64_t place = how.pad_masks ? (i * masks.shape[1] + m) * bytes : masks.item_offsets[item];
      if (!how.pad_masks) {
        ASSERT_EQ(masks.item_offsets[item + 1] - place, bytes);
      }
      ASSERT_TRUE(std::ranges::equal(masks.values.subspan(place, bytes), expected)) << "mask " << m;
    }
    if (!how.pad_masks) return;
    for (const uint8_t byte : masks.values.subspan((i * masks.shape[1] + stored.masks.size()) * bytes,
                                                   (masks.shape[1] - stored.masks.size()) * bytes)) {
      ASSERT_EQ(byte, 0);
    }
  }

  void Run(const GeometryOptions& geometry, bool packed, bool padded, int channels = 3) {
    const LoaderOptions options = Options(geometry, packed, padded, channels);
    const auto loader = OpenLoader(*files_, options);
    ASSERT_NE(loader, nullptr);
    size_t samples = 0;
    flipped_ = 0;
    while (true) {
      const auto batch = loader->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (*batch == nullptr) break;
      samples += (*batch)->size();
      ExpectBatch(**batch, options);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(samples, 2 * stored_.size());
    // Of 96 fair coins.
    if (geometry.flip_probability == 0) {
      EXPECT_EQ(flipped_, 0u);
    }
    if (geometry.flip_probability == 0.5) {
      EXPECT_TRUE(flipped_ > 20 && flipped_ < 76) << flipped_;
    }
    if (geometry.flip_probability == 1) {
      EXPECT_EQ(flipped_, 96u);
    }
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::vector<Stored> stored_;
  size_t flipped_ = 0;
};

TEST_F(GeometryColumnsTest, ImagesAndMasksThroughEveryGeometry) {
  for (GeometryOptions geometry : Geometries()) {
    for (const double flip : {0.0, 0.5, 1.0}) {
      for (const bool orientation : {false, true}) {
        geometry.flip_probability = flip;
        geometry.apply_orientation = orientation;
        SCOPED_TRACE(testing::Message() << static_cast<int>(geometry.kind) << " " << flip << " " << orientation);
        Run(geometry, /*packed=*/false, /*padded=*/false);
        Run(geometry, /*packed=*/true, /*padded=*/false, /*channels=*/1);
        if (geometry.kind != Kind::kNative) {
          Run(geometry, /*packed=*/false, /*padded=*/true, /*channels=*/1);
          Run(geometry, /*packed=*/true, /*padded=*/true);
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The augmentation depends only on the identity of a sample and its epoch.
TEST_F(GeometryColumnsTest, AugmentationDependsOnNeitherThreadsNorRanksNorResuming) {
  GeometryOptions geometry = Geometries()[3];
  geometry.flip_probability = 0.5;
  LoaderOptions options = Options(geometry, false, true);
  options.bad_samples = BadSamples::kSkip;
  options.plan.batch_size = 6;
  using Outcome = std::map<std::pair<uint64_t, uint64_t>, std::string>;
  const auto run = [&](const LoaderOptions& some, uint64_t most, Outcome* outcome) {
    const auto loader = OpenLoader(*files_, some);
    for (uint64_t step = 0; step < most; ++step) {
      const auto batch = *loader->Next();
      if (batch == nullptr) break;
      const BatchColumn& images = *batch->Find("image");
      const size_t bytes = images.values.size() / batch->size();
      for (size_t i = 0; i < batch->size(); ++i) {
        (*outcome)[{batch->epoch(), batch->samples()[i].ordinal}] =
            std::string(reinterpret_cast<const char*>(images.values.data()) + i * bytes, bytes);
      }
    }
    return loader->cursor();
  };
  Outcome expected;
  run(options, UINT64_MAX, &expected);
  ASSERT_EQ(expected.size(), 96u);
  EXPECT_NE((expected[{0, 1}]), (expected[{1, 1}]));
  for (const int threads : {1, 3}) {
    for (const uint64_t world_size : {1, 2, 5}) {
      for (const uint64_t stop : {0, 3, 8, 11}) {
        LoaderOptions some = options;
        some.decode_threads = some.read_threads = threads;
        Outcome outcome;
        std::optional<Cursor> cursor;
        for (some.rank = 0; some.rank < some.world_size; ++some.rank) cursor = run(some, stop, &outcome);
        some.cursor = cursor;
        some.world_size = world_size;
        some.empty_batches = true;
        for (some.rank = 0; some.rank < world_size; ++some.rank) run(some, UINT64_MAX, &outcome);
        ASSERT_EQ(outcome, expected) << threads << " " << world_size << " " << stop;
      }
    }
  }
}

// A mask whose size differs from its image does not belong to the image.
TEST_F(GeometryColumnsTest, MasksOfAnotherSizeAreBad) {
  std::mt19937_64 random(2);
  std::vector<Values> rows;
  for (uint32_t i = 0; i < 6; ++i) {
    RleList list;
    list.Append(*EncodeDense(std::vector<uint8_t>(30 * (i == 4 ? 39 : 40), 1), i == 4 ? 39 : 40, 30));
    std::string value;
    ASSERT_TRUE(AppendRleValue(list, &value).ok());
    rows.push_back({std::to_string(i), MakeJpeg(30, 40, 0, random), value});
  }
  WriteRows(*files_, "/bad",
            {KeyColumn(),
             {.name = "image", .type = Type::kJpeg},
             {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd}},
            rows);
  for (const GeometryOptions& geometry : Geometries()) {
    LoaderOptions options = Options(geometry, false, false);
    options.bad_samples = BadSamples::kSkip;
    options.plan.batch_size = 6;
    const auto loader = OpenLoader(*files_, options, "/bad");
    const auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ((*batch)->size(), 5u);
    ASSERT_EQ((*batch)->skipped().size(), 1u);
    EXPECT_EQ((*batch)->skipped()[0].sample.ordinal, 4u);
    EXPECT_NE(Message((*batch)->skipped()[0].status).find("column \"masks\": mask 0 is of 30 x 39"), std::string::npos);
  }
}

// Without an image, masks of one sample need not be of one size.
TEST_F(GeometryColumnsTest, MasksOfDifferentSizes) {
  constexpr std::pair<uint32_t, uint32_t> kSizes[] = {{4, 6}, {4, 9}, {4, 9}, {7, 9}, {4, 6}};  // height, width
  RleList list;
  std::string pixels;
  for (const auto& [height, width] : kSizes) {
    std::vector<uint8_t> dense(height * width);
    for (size_t i = 0; i < dense.size(); ++i) dense[i] = i * i % 3 == 0;
    list.Append(*EncodeDense(dense, height, width));
    pixels.append(dense.begin(), dense.end());
  }
  std::string value;
  ASSERT_TRUE(AppendRleValue(list, &value).ok());
  WriteRows(*files_, "/sizes", {KeyColumn(), {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd}},
            {{"0", value}, {"1", value}});
  LoaderOptions options = Options({}, false, false);
  options.columns.resize(1);
  options.plan.batch_size = 2;
  const auto batch = OpenLoader(*files_, options, "/sizes")->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  const std::span<const uint8_t> values = (*batch)->Find("masks")->values;
  EXPECT_EQ(std::string(values.begin(), values.end()), pixels + pixels);
}

// A few bytes of runs stand for 80 GiB of pixels. No memory is allocated for them or for the masks before them.
TEST_F(GeometryColumnsTest, MasksOfMorePixelsThanMemoryAreBad) {
  std::vector<Values> rows;
  for (uint32_t i = 0; i < 4; ++i) {
    RleList list;
    const uint32_t height = i == 2 ? 4095 : 1, width = i == 2 ? 1 << 20 : 5;
    const std::vector<uint32_t> runs{1, height * width - 1};
    for (int mask = 0; mask < 20; ++mask) list.Append(RleView(height, width, runs));
    std::string value;
    ASSERT_TRUE(AppendRleValue(list, &value).ok());
    rows.push_back({std::to_string(i), value});
  }
  WriteRows(*files_, "/bomb", {KeyColumn(), {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd}}, rows);
  LoaderOptions options;
  options.plan = {.order = SampleOrder::kSequential, .batch_size = 4};
  options.columns = {{.name = "masks", .decode = ColumnDecode::kMasks}};
  const auto failed = OpenLoader(*files_, options, "/bomb")->Next();
  EXPECT_TRUE(absl::IsResourceExhausted(failed.status())) << failed.status();
  EXPECT_NE(Message(failed.status()).find("the masks of a batch would take more than"), std::string::npos);

  options.bad_samples = BadSamples::kSkip;
  const auto loader = OpenLoader(*files_, options, "/bomb");
  const auto batch = loader->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->size(), 3u);
  ASSERT_EQ((*batch)->skipped().size(), 1u);
  EXPECT_EQ((*batch)->skipped()[0].sample.ordinal, 2u);
  EXPECT_EQ((*batch)->column(0).values.size(), 3u * 20 * 5);
  EXPECT_LT(loader->Report().peak_batch_memory, 1u << 20);
}

}  // namespace
}  // namespace shardkit::test
