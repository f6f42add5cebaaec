// A loader that defers geometries, with the conversions after it, gives the same as a loader that does not defer them.
#include <gtest/gtest.h>

#include <algorithm>

#include "conversion_support.h"
#include "loader/geometry_support.h"

namespace shardkit::gpu::test {
namespace {

using shardkit::test::Geometries;
using shardkit::test::OpenLoader;

LoaderOptions Options(const GeometryOptions& geometry, bool packed, bool padded, bool deferred) {
  LoaderOptions options;
  options.plan = {.seed = 31, .batch_size = 7, .shuffle_buffer_bytes = 30000};
  options.memory_bytes = 32 << 20;
  options.decode_threads = options.read_threads = 2;
  options.geometry = geometry;
  LoaderColumn image{.name = "image", .decode = ColumnDecode::kImage, .deferred = deferred};
  image.image.scaled_decode = false;
  image.image.fill = {9, 8, 7};
  LoaderColumn masks{
      .name = "masks", .decode = packed ? ColumnDecode::kPackedMasks : ColumnDecode::kMasks, .deferred = deferred};
  masks.pad_masks = padded;
  options.columns = {masks, image};
  return options;
}

void ExpectSame(const Converted& converted, const BatchColumn& column) {
  const loader::DeviceLayout& plan = converted.plan;
  EXPECT_EQ(plan.layout, column.layout);
  EXPECT_EQ(plan.dtype, column.dtype);
  EXPECT_EQ(plan.shape, column.shape);
  EXPECT_EQ(plan.shape_rank, column.shape_rank);
  EXPECT_TRUE(std::ranges::equal(plan.offsets, column.offsets));
  EXPECT_TRUE(std::ranges::equal(plan.item_offsets, column.item_offsets));
  EXPECT_TRUE(std::ranges::equal(plan.shapes, column.shapes));
  EXPECT_TRUE(std::ranges::equal(converted.bytes, column.values));
}

TEST(DeferredConversion, GivesWhatTheLoaderGives) {
  const auto files = NewMemoryFileSystem();
  shardkit::test::WriteImagesAndMasks(*files);
  for (GeometryOptions geometry : Geometries()) {
    for (const bool packed : {false, true}) {
      for (const bool padded : {false, true}) {
        const bool native = geometry.kind == GeometryOptions::Kind::kNative;
        if (native && padded) continue;
        geometry.apply_orientation = packed;
        geometry.flip_probability = 0.5;
        SCOPED_TRACE(testing::Message() << static_cast<int>(geometry.kind) << " " << packed << " " << padded);
        const uint32_t width = geometry.width, height = geometry.height != 0 ? geometry.height : width;
        const auto deferred = OpenLoader(*files, Options(geometry, packed, padded, true));
        const auto done = OpenLoader(*files, Options(geometry, packed, padded, false));
        const auto masks = loader::NewMaskConversion(packed, padded, height, width);
        const auto images = loader::NewResampleConversion(PixelOutput{}, height, width, 3, {.fill = {9, 8, 7}});
        while (true) {
          const auto a = *deferred->Next(), b = *done->Next();
          if (b == nullptr) break;
          ExpectSame(ConvertEveryWay(*masks, *a->Find("masks")), *b->Find("masks"));
          if (!native) ExpectSame(ConvertEveryWay(*images, *a->Find("image")), *b->Find("image"));
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardkit::gpu::test
