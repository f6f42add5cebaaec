// The bodies of the kernels over whole grids, compared with the twins (kernels_host.cc): equal to the bit, and nothing
// is written outside the output.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu_support.h"
#include "shardkit/rle.h"
#include "support/effort.h"

namespace shardkit::gpu::test {
namespace {

constexpr Emulation kEmulations[] = {{}, {1, true}, {3, false}};

PixelOutput AnyPlanarOutput(Random& random) {
  PixelOutput output;
  constexpr Type kTypes[] = {Type::kU8, Type::kF32, Type::kF16, Type::kBf16};
  output.type = kTypes[random.Between(0, 3)];
  output.planar = true;
  for (int c = 0; c < 3; ++c) {
    output.scale[c] = static_cast<float>(random.Real(-3, 3));
    output.bias[c] = static_cast<float>(random.Real(-300, 300));
  }
  return output;
}

TEST(NormalizeBody, EqualsTwin) {
  Random random(1);
  for (int round = 0; round < shardkit::test::Thinned(300); ++round) {
    NormalizeImages arguments;
    arguments.count = random.Between(0, 5);
    // Planes that are multiples of 4, of 1024, and neither.
    arguments.height = random.Between(0, 3) == 0 ? 4 * random.Between(1, 12) : random.Between(1, 60);
    arguments.width = random.Between(0, 3) == 0 ? 256 : random.Between(1, 90);
    arguments.channels = random.Coin() ? 1 : 3;
    arguments.output = AnyPlanarOutput(random);
    const uint32_t size = ScalarSize(arguments.output.type);
    const uint64_t values =
        arguments.count * arguments.height * arguments.width * static_cast<uint64_t>(arguments.channels);
    Guarded pixels(random.Bytes(values), random.Coin() ? 0 : random.Between(0, 31));
    const uint32_t misalignment = random.Coin() ? 0 : size * random.Between(0, 20);
    Guarded expected(values * size, misalignment);
    arguments.pixels = pixels.data();
    arguments.out = expected.data();
    NormalizeOnHost(arguments);
    ASSERT_TRUE(expected.Untouched());
    for (const Emulation& emulation : kEmulations) {
      Guarded out(values * size, misalignment);
      arguments.out = out.data();
      Emulate(arguments, emulation);
      ASSERT_TRUE(out.Untouched());
      ASSERT_TRUE(std::ranges::equal(out.content(), expected.content()))
          << arguments.count << " " << arguments.height << " " << arguments.width << " " << arguments.channels;
    }
  }
}

// Runs that sum to the pixels, some of length 0.
std::vector<uint32_t> AnyRuns(Random& random, uint64_t pixels) {
  std::vector<uint32_t> runs;
  uint64_t left = pixels;
  const uint32_t most = random.Coin() ? 3 : random.Coin() ? 60 : static_cast<uint32_t>(pixels / 3 + 1);
  while (left > 0) {
    const auto run =
        static_cast<uint32_t>(std::min<uint64_t>(left, random.Between(0, 5) == 0 ? 0 : random.Between(0, most)));
    runs.push_back(run);
    left -= run;
  }
  for (uint32_t i = random.Between(0, 3); i < 2; ++i) runs.push_back(0);
  return runs;
}

struct MaskArguments {
  std::vector<RasterizeMask> masks;
  std::vector<uint32_t> runs;
  std::vector<uint32_t> tables;
  uint64_t out = 0;
  uint64_t tiles = 0;
  bool packed = false;

  uint64_t Bytes(const RasterizeMask& mask) const {
    return mask.height * (packed ? PackedRowBytes(mask.width) : mask.width);
  }

  // Adds a mask, after `gap` bytes that belong to no mask.
  void Add(RasterizeMask mask, const std::vector<uint32_t>& mask_runs, uint32_t gap) {
    mask.runs = runs.size();
    mask.run_count = mask_runs.size();
    runs.insert(runs.end(), mask_runs.begin(), mask_runs.end());
    out += gap;
    mask.out = out;
    mask.first_tile = tiles;
    out += Bytes(mask);
    tiles += DivideUp<uint64_t>(Bytes(mask), kMaskTileBytes);
    masks.push_back(mask);
  }

  RasterizeMasks View() {
    RasterizeMasks view;
    view.masks = masks.data();
    view.runs = runs.data();
    view.tables = tables.data();
    view.count = masks.size();
    view.tiles = tiles;
    view.packed = packed;
    return view;
  }
};

RasterizeMask Native(uint32_t height, uint32_t width) {
  RasterizeMask mask;
  mask.stored_height = mask.height = mask.content_height = height;
  mask.stored_width = mask.width = mask.content_width = width;
  return mask;
}

void ExpectEqualsTwin(MaskArguments& masks, uint32_t misalignment) {
  RasterizeMasks arguments = masks.View();
  Guarded expected(masks.out, misalignment), expected_ends(masks.runs.size() * 4);
  arguments.out = expected.data();
  arguments.ends = reinterpret_cast<uint32_t*>(expected_ends.data());
  RasterizeOnHost(arguments);
  ASSERT_TRUE(expected.Untouched() && expected_ends.Untouched());
  for (const Emulation& emulation : kEmulations) {
    Guarded out(masks.out, misalignment), ends(masks.runs.size() * 4);
    arguments.out = out.data();
    arguments.ends = reinterpret_cast<uint32_t*>(ends.data());
    Emulate(arguments, emulation);
    ASSERT_TRUE(out.Untouched() && ends.Untouched());
    ASSERT_TRUE(std::ranges::equal(ends.content(), expected_ends.content()));
    // Gaps between masks keep their contents: both outputs began with the same bytes.
    ASSERT_TRUE(std::ranges::equal(out.content(), expected.content()));
  }
}

TEST(RasterizeBody, NativeMasksEqualTwin) {
  Random random(2);
  for (int round = 0; round < shardkit::test::Thinned(120); ++round) {
    MaskArguments masks;
    masks.packed = random.Coin();
    for (uint32_t i = random.Between(0, 6); i > 0; --i) {
      uint32_t height = random.Between(1, 200), width = random.Between(1, 300);
      switch (random.Between(0, 7)) {
        case 0:
          height = 1;
          width = random.Between(1, 60000);
          break;
        case 1:
          width = 1;
          height = random.Between(1, 60000);
          break;
        case 2:  // wider than a tile
          height = random.Between(1, 4);
          width = random.Between(kMaskTileBytes, 3 * kMaskTileBytes + 7) * (masks.packed ? 8 : 1);
          break;
        case 3:
          width = random.Between(1, 40);
          height = random.Between(1, 3000);
          break;
        default:
          break;
      }
      masks.Add(Native(height, width), AnyRuns(random, uint64_t{height} * width),
                random.Coin() ? 0 : random.Between(0, 40));
    }
    ExpectEqualsTwin(masks, random.Between(0, 31));
    if (HasFatalFailure()) return;
  }
}

TEST(RasterizeBody, MasksThroughTablesEqualTwin) {
  Random random(3);
  for (int round = 0; round < shardkit::test::Thinned(300); ++round) {
    MaskArguments masks;
    masks.packed = random.Coin();
    for (uint32_t i = random.Between(0, 5); i > 0; --i) {
      RasterizeMask mask;
      mask.stored_height = random.Between(1, 90);
      mask.stored_width = random.Between(1, 90);
      mask.content_height = random.Between(1, 200);
      mask.content_width = random.Between(1, 200);
      mask.content_left = random.Coin() ? random.Between(0, 40) : 0;
      mask.content_top = random.Coin() ? random.Between(0, 40) : 0;
      mask.height = mask.content_top + mask.content_height + random.Between(0, 50);
      mask.width = mask.content_left + mask.content_width + random.Between(0, 50);
      const uint32_t kind = random.Between(0, 3);
      if (kind == 0) {  // only padded
        mask.content_height = std::min(mask.content_height, mask.stored_height);
        mask.content_width = std::min(mask.content_width, mask.stored_width);
      } else {
        mask.transpose = kind == 1;
        const uint32_t columns = mask.transpose ? mask.stored_height : mask.stored_width;
        const uint32_t rows = mask.transpose ? mask.stored_width : mask.stored_height;
        mask.columns = masks.tables.size();
        for (uint32_t x = 0; x < mask.content_width; ++x) masks.tables.push_back(random.Between(0, columns - 1));
        mask.rows = masks.tables.size();
        for (uint32_t y = 0; y < mask.content_height; ++y) masks.tables.push_back(random.Between(0, rows - 1));
      }
      const bool missing = random.Between(0, 7) == 0;
      masks.Add(mask,
                missing ? std::vector<uint32_t>() : AnyRuns(random, uint64_t{mask.stored_height} * mask.stored_width),
                random.Between(0, 20));
    }
    ExpectEqualsTwin(masks, random.Between(0, 31));
    if (HasFatalFailure()) return;
  }
}

TEST(RasterizeBody, Corners) {
  for (const bool packed : {false, true}) {
    MaskArguments masks;
    masks.packed = packed;
    masks.Add(Native(0, 0), {}, 3);
    masks.Add(Native(100, 170), {}, 1);          // no runs at all
    masks.Add(Native(100, 170), {17000}, 1);     // background
    masks.Add(Native(100, 170), {0, 17000}, 0);  // foreground
    masks.Add(Native(100, 170), {16999, 1}, 5);
    masks.Add(Native(100, 170), {0, 1, 16999}, 0);
    masks.Add(Native(0, 12), {}, 0);
    masks.Add(Native(100, 170), {0, 0, 0, 1, 0, 0, 16999, 0, 0}, 0);
    masks.Add(Native(128, 128), {64, 128 * 128 - 64}, 11);  // one tile to the byte
    masks.Add(Native(kMaskTileBytes, 2), std::vector<uint32_t>(2 * kMaskTileBytes, 1), 0);
    masks.Add(Native(1, 1), {0, 1}, 0);
    masks.Add(Native(1, 1), {1}, 0);
    masks.Add(Native(7, 0), {}, 0);
    ExpectEqualsTwin(masks, 9);
  }
}

// Positions beyond 2^31, as in the largest mask. Only the last tiles of the output are examined.
TEST(RasterizeBody, PositionsUpTo32Bits) {
  const uint32_t height = 65537, width = 65535;  // 2^32 - 1 pixels
  for (const bool packed : {false, true}) {
    for (const uint32_t content : {3u, 200u}) {
      // Tables select the lower right corner: the output is small, the stored mask is large.
      MaskArguments masks;
      masks.packed = packed;
      RasterizeMask mask;
      mask.stored_height = height;
      mask.stored_width = width;
      mask.height = mask.content_height = mask.width = mask.content_width = content;
      mask.columns = 0;
      mask.rows = content;
      for (uint32_t i = 0; i < content; ++i) masks.tables.push_back(width - content + i);
      for (uint32_t i = 0; i < content; ++i) masks.tables.push_back(height - content + i);
      masks.Add(mask, {0x80000000, 0x7fff0000, 60000, 5530, 2, 3}, 0);
      ExpectEqualsTwin(masks, 0);
    }
  }
}

// A native mask of nearly 4 GiB, one tile at a time. Tiles that are not written need no output memory.
TEST(RasterizeBody, TilesOfTheLargestMasks) {
  const uint32_t height = 65537, width = 65535;
  const std::vector<uint32_t> runs = {1000, 0x7ffffc18, 70, 0x7fff0000, 30000, 35464, 0, 1};
  std::vector<uint32_t> ends(runs.size());
  RasterizeMask mask = Native(height, width);
  mask.run_count = runs.size();
  uint64_t end = 0;
  for (size_t i = 0; i < runs.size(); ++i) ends[i] = static_cast<uint32_t>(end += runs[i]);
  ASSERT_EQ(end, 0xffffffffu);
  RasterizeMasks arguments;
  arguments.masks = &mask;
  arguments.runs = runs.data();
  arguments.ends = ends.data();
  arguments.count = 1;
  const uint64_t bytes = uint64_t{height} * width;
  arguments.tiles = DivideUp<uint64_t>(bytes, kMaskTileBytes);
  RasterizeShared shared;
  for (const uint64_t tile : {uint64_t{0}, arguments.tiles / 2, arguments.tiles - 2, arguments.tiles - 1}) {
    const uint64_t begin = tile * kMaskTileBytes;
    const uint64_t count = std::min<uint64_t>(kMaskTileBytes, bytes - begin);
    Guarded out(count);
    arguments.out = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(out.data()) - begin);
    RasterizeBlock<false>(arguments, {{static_cast<uint32_t>(tile), 0, 0}, {0x7fffffff, 1, 1}}, shared, HostThreads{});
    ASSERT_TRUE(out.Untouched());
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t x = (begin + i) % width, y = (begin + i) / width;
      const auto run = std::ranges::upper_bound(ends, static_cast<uint32_t>(x * height + y)) - ends.begin();
      ASSERT_EQ(out.content()[i], run % 2) << x << " " << y;
    }
  }
}

}  // namespace
}  // namespace shardkit::gpu::test
