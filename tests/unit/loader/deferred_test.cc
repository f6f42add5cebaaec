// Columns whose geometry is left to the consumer: what the loader delivers instead, and that the consumer gets the same
// pixels from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "loader/geometry_support.h"
#include "shardkit/image.h"

namespace shardkit::test {
namespace {

LoaderOptions Options(const GeometryOptions& geometry, bool packed, bool padded, bool deferred, int channels) {
  LoaderOptions options;
  options.plan = {.seed = 31, .batch_size = 7, .shuffle_buffer_bytes = 30000};
  options.memory_bytes = 32 << 20;
  options.decode_threads = options.read_threads = 2;
  options.geometry = geometry;
  options.epochs = 2;
  LoaderColumn image{.name = "image", .decode = ColumnDecode::kImage, .deferred = deferred, .channels = channels};
  image.image.scaled_decode = false;
  LoaderColumn masks{
      .name = "masks", .decode = packed ? ColumnDecode::kPackedMasks : ColumnDecode::kMasks, .deferred = deferred};
  masks.pad_masks = padded;
  options.columns = {masks, image};
  return options;
}

class DeferredTest : public testing::Test {
 protected:
  // `whole` is the stored image, `done` is sample i of the column after the geometry.
  static void ExpectImage(const BatchColumn& whole, const BatchColumn& done, size_t i, const Stored& stored,
                          int channels) {
    const auto samples = static_cast<uint64_t>(channels);
    ASSERT_EQ(whole.layout, BatchLayout::kRagged);
    const std::vector<uint64_t> shape = {stored.image ? stored.height : 0, stored.image ? stored.width : 0, samples};
    ASSERT_TRUE(std::ranges::equal(whole.shapes.subspan(3 * i, 3), shape));
    const std::span<const uint8_t> got =
        whole.values.subspan(whole.offsets[i], whole.offsets[i + 1] - whole.offsets[i]);
    ASSERT_EQ(got.size(), shape[0] * shape[1] * samples);
    EXPECT_EQ(whole.present[i], stored.image.has_value());
    if (!stored.image) {
      EXPECT_EQ(whole.geometries[i], Geometry{});
      return;
    }
    std::vector<uint8_t> expected(got.size());
    ASSERT_TRUE(
        JpegDecoder()
            .DecodeInto(*stored.image, {expected.data(), stored.width, stored.height, channels, stored.width * samples})
            .ok());
    ASSERT_TRUE(std::ranges::equal(got, expected));
    const Geometry& geometry = whole.geometries[i];
    std::vector<uint8_t> through(geometry.output_height * geometry.output_width * samples);
    ASSERT_TRUE(ImageDecoder()
                    .Decode(*stored.image, geometry, {.scaled_decode = false},
                            {through.data(), geometry.output_width, geometry.output_height, channels,
                             geometry.output_width * samples})
                    .ok());
    const uint64_t begin = done.layout == BatchLayout::kTensor ? i * through.size() : done.offsets[i];
    ASSERT_TRUE(std::ranges::equal(done.values.subspan(begin, through.size()), through));
  }

  static void ExpectMasks(const BatchColumn& runs, const BatchColumn& done, size_t i, const Stored& stored,
                          bool packed) {
    ASSERT_EQ(runs.layout, BatchLayout::kMaskRuns);
    ASSERT_EQ(runs.offsets[i + 1] - runs.offsets[i], stored.masks.size());
    ASSERT_EQ(runs.geometries.size(), runs.item_offsets.size() - 1);
    for (size_t mask = 0; mask < stored.masks.size(); ++mask) {
      const uint64_t item = runs.offsets[i] + mask;
      const auto got =
          runs.as<uint32_t>().subspan(runs.item_offsets[item], runs.item_offsets[item + 1] - runs.item_offsets[item]);
      ASSERT_TRUE(std::ranges::equal(got, stored.masks[mask].runs));
      EXPECT_EQ(runs.shapes[2 * item], stored.masks.heights[mask]);
      EXPECT_EQ(runs.shapes[2 * item + 1], stored.masks.widths[mask]);
      const Geometry& geometry = runs.geometries[item];
      std::vector<uint8_t> expected(geometry.output_height *
                                    (packed ? PackedRowBytes(geometry.output_width) : geometry.output_width));
      ASSERT_TRUE((packed ? RasterizeMaskPacked(stored.masks[mask], geometry, expected)
                          : RasterizeMask(stored.masks[mask], geometry, expected))
                      .ok());
      const uint64_t place =
          done.item_offsets.empty() ? (i * done.shape[1] + mask) * expected.size() : done.item_offsets[item];
      ASSERT_TRUE(std::ranges::equal(done.values.subspan(place, expected.size()), expected));
    }
  }

  void Run(const GeometryOptions& geometry, bool packed, bool padded, int channels) {
    const auto deferred = OpenLoader(*files_, Options(geometry, packed, padded, true, channels));
    const auto done = OpenLoader(*files_, Options(geometry, packed, padded, false, channels));
    size_t samples = 0;
    while (true) {
      const auto a = *deferred->Next(), b = *done->Next();
      ASSERT_EQ(a == nullptr, b == nullptr);
      if (a == nullptr) break;
      ASSERT_EQ(a->size(), b->size());
      EXPECT_GE(a->memory(), a->size() * sizeof(Geometry));
      for (size_t i = 0; i < a->size(); ++i, ++samples) {
        const uint64_t ordinal = a->samples()[i].ordinal;
        SCOPED_TRACE(ordinal);
        ASSERT_EQ(ordinal, b->samples()[i].ordinal);
        ExpectImage(*a->Find("image"), *b->Find("image"), i, stored_[ordinal], channels);
        ExpectMasks(*a->Find("masks"), *b->Find("masks"), i, stored_[ordinal], packed);
        if (HasFatalFailure()) return;
      }
      EXPECT_EQ(a->Find("image")->geometries.size(), a->size());
      EXPECT_TRUE(std::ranges::equal(a->Find("image")->geometries, b->Find("image")->geometries));
      EXPECT_TRUE(b->Find("masks")->geometries.empty());
    }
    EXPECT_EQ(samples, 2 * stored_.size());
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::vector<Stored> stored_ = WriteImagesAndMasks(*files_);
};

TEST_F(DeferredTest, GeometriesLeadToWhatTheLoaderMakes) {
  for (GeometryOptions geometry : Geometries()) {
    for (const bool orientation : {false, true}) {
      geometry.apply_orientation = orientation;
      geometry.flip_probability = 0.5;
      SCOPED_TRACE(testing::Message() << static_cast<int>(geometry.kind) << " " << orientation);
      Run(geometry, /*packed=*/false, /*padded=*/false, /*channels=*/3);
      Run(geometry, /*packed=*/true, /*padded=*/geometry.kind != GeometryOptions::Kind::kNative, /*channels=*/1);
      if (HasFatalFailure()) return;
    }
  }
}

// Without an image every mask has its own geometry.
TEST_F(DeferredTest, MasksOfOneSampleMayDifferInSize) {
  RleList list;
  for (const auto& [height, width] : {std::pair{5u, 9u}, {5u, 9u}, {7u, 3u}, {1u, 40u}}) {
    list.Append(RleView(height, width, std::vector<uint32_t>{2, height * width - 2}));
  }
  std::string value;
  ASSERT_TRUE(AppendRleValue(list, &value).ok());
  WriteRows(*files_, "/masks", {KeyColumn(), {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd}},
            {{"0", value}, {"1", value}});
  for (const GeometryOptions& geometry : Geometries()) {
    LoaderOptions options = Options(geometry, false, false, true, 3);
    options.columns.pop_back();
    options.plan.batch_size = 2;
    const auto batch = *OpenLoader(*files_, options, "/masks")->Next();
    options.columns[0].deferred = false;
    const auto done = *OpenLoader(*files_, options, "/masks")->Next();
    const Stored stored{.masks = list};
    for (size_t i = 0; i < 2; ++i) ExpectMasks(batch->column(0), done->column(0), i, stored, false);
  }
}

// The same samples are bad as without deferring, so that both give the same batches.
TEST_F(DeferredTest, BadSamplesAreTheSame) {
  std::mt19937_64 random(2);
  std::vector<Values> rows;
  for (uint32_t i = 0; i < 8; ++i) {
    RleList list;
    const uint32_t height = i == 4 ? 39 : 40;
    for (int mask = 0; mask < 2; ++mask) list.Append(*EncodeDense(std::vector<uint8_t>(30 * height, 1), height, 30));
    if (i == 5) list.Append(*EncodeDense(std::vector<uint8_t>(30 * 41, 1), 41, 30));
    std::string value;
    ASSERT_TRUE(AppendRleValue(list, &value).ok());
    std::string jpeg = MakeJpeg(30, 40, 0, random);
    if (i == 2) jpeg.resize(jpeg.size() / 2);
    if (i == 6) jpeg = "no image";
    rows.push_back({std::to_string(i), jpeg, value});
  }
  WriteRows(*files_, "/bad",
            {KeyColumn(),
             {.name = "image", .type = Type::kJpeg},
             {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd}},
            rows);
  for (const GeometryOptions& geometry : Geometries()) {
    std::vector<std::vector<std::pair<uint64_t, std::string>>> skipped;
    for (const bool deferred : {false, true}) {
      LoaderOptions options = Options(geometry, false, false, deferred, 3);
      options.bad_samples = BadSamples::kSkip;
      for (LoaderColumn& column : options.columns) column.image.strict = true;
      options.plan.batch_size = 8;
      const auto batch = *OpenLoader(*files_, options, "/bad")->Next();
      EXPECT_EQ(batch->size(), 4u);
      skipped.emplace_back();
      for (const BadSample& bad : batch->skipped())
        skipped.back().emplace_back(bad.sample.ordinal, bad.status.message());
      if (!deferred) continue;
      EXPECT_EQ(batch->Find("image")->geometries.size(), 4u);
      EXPECT_EQ(batch->Find("masks")->geometries.size(), 8u);
    }
    EXPECT_EQ(skipped[0], skipped[1]);
  }
}

TEST_F(DeferredTest, MasksOfMorePixelsThanMemoryAreBad) {
  std::vector<Values> rows;
  for (uint32_t i = 0; i < 4; ++i) {
    RleList list;
    const uint32_t height = i == 2 ? 4095 : 1, width = i == 2 ? 1 << 20 : 5;
    for (int mask = 0; mask < 20; ++mask)
      list.Append(RleView(height, width, std::vector<uint32_t>{1, height * width - 1}));
    std::string value;
    ASSERT_TRUE(AppendRleValue(list, &value).ok());
    rows.push_back({std::to_string(i), value});
  }
  WriteRows(*files_, "/bomb", {KeyColumn(), {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd}}, rows);
  LoaderOptions options;
  options.plan = {.order = SampleOrder::kSequential, .batch_size = 4};
  options.columns = {{.name = "masks", .decode = ColumnDecode::kMasks, .deferred = true}};
  options.bad_samples = BadSamples::kSkip;
  const auto batch = *OpenLoader(*files_, options, "/bomb")->Next();
  EXPECT_EQ(batch->size(), 3u);
  ASSERT_EQ(batch->skipped().size(), 1u);
  EXPECT_EQ(batch->skipped()[0].sample.ordinal, 2u);
  EXPECT_EQ(batch->column(0).geometries.size(), 60u);
}

TEST_F(DeferredTest, OnlyImagesAndMasksHaveAGeometry) {
  for (const ColumnDecode decode :
       {ColumnDecode::kStored, ColumnDecode::kViews, ColumnDecode::kTokens, ColumnDecode::kFunction}) {
    LoaderOptions options;
    options.columns = {{.name = "image", .decode = decode, .deferred = true}};
    const auto loader = Loader::Open(*files_, {{.path = "/data"}}, options);
    EXPECT_TRUE(absl::IsInvalidArgument(loader.status())) << loader.status();
    EXPECT_NE(Message(loader.status()).find("deferred"), std::string::npos);
  }
}

}  // namespace
}  // namespace shardkit::test
