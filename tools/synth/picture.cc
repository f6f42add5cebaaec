#include "synth/picture.h"

#include <algorithm>

#include "synth/shape.h"

namespace shardctl {
namespace {

constexpr uint32_t kSide = NoiseTiles::kSide;

// Adds to *sum smooth noise that repeats after kSide: random values at the corners of `cell_x` x `cell_y` cells.
void AddOctave(uint32_t cell_x, uint32_t cell_y, int32_t amplitude, SynthRandom& random, std::vector<int32_t>* sum) {
  const uint32_t columns = kSide / cell_x;
  const uint32_t rows = kSide / cell_y;
  std::vector<int32_t> lattice(size_t{columns} * rows);
  for (int32_t& value : lattice) value = static_cast<int32_t>(random.Between(-amplitude, amplitude));
  const auto smooth = [](uint32_t position, uint32_t cell) {
    const int32_t t = static_cast<int32_t>(position % cell * 256 / cell);
    return t * t * (768 - 2 * t) >> 16;
  };
  std::vector<int32_t> row(columns);
  for (uint32_t y = 0; y < kSide; ++y) {
    const int32_t* above = &lattice[size_t{y / cell_y} * columns];
    const int32_t* below = &lattice[size_t{(y / cell_y + 1) % rows} * columns];
    const int32_t down = smooth(y, cell_y);
    for (uint32_t i = 0; i < columns; ++i) row[i] = above[i] * 256 + (below[i] - above[i]) * down;
    for (uint32_t x = 0; x < kSide; ++x) {
      const int32_t from = row[x / cell_x];
      const int32_t to = row[(x / cell_x + 1) % columns];
      (*sum)[size_t{y} * kSide + x] += (from * 16 + (to - from) / 16 * smooth(x, cell_x)) / 4096;
    }
  }
}

// Adds `octaves` layers of noise. Each has cells of half the size and `persistence`/16 of the strength of the last.
std::vector<int8_t> MakeTile(uint32_t cell_x, uint32_t cell_y, int octaves, int32_t amplitude, int32_t persistence,
                             SynthRandom& random) {
  std::vector<int32_t> sum(size_t{kSide} * kSide);
  for (int octave = 0; octave < octaves; ++octave) {
    AddOctave(std::max(cell_x >> octave, 1u), std::max(cell_y >> octave, 1u), amplitude, random, &sum);
    amplitude = amplitude * persistence / 16;
  }
  std::vector<int8_t> tile(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) tile[i] = static_cast<int8_t>(std::clamp(sum[i], -127, 127));
  return tile;
}

int32_t Jitter(int32_t value, int32_t range, SynthRandom& random) {
  return std::clamp(value + static_cast<int32_t>(random.Between(-range, range)), 0, 235);
}

}  // namespace

NoiseTiles::NoiseTiles(uint64_t seed) {
  SynthRandom random(seed, 'T', 0);
  tiles_[kClouds] = MakeTile(128, 128, 6, 90, 9, random);
  tiles_[kRough] = MakeTile(32, 32, 6, 70, 12, random);
  tiles_[kGrain] = MakeTile(4, 4, 3, 70, 14, random);
  tiles_[kStripes] = MakeTile(16, 256, 4, 90, 10, random);
  tiles_[kSpeckle] = MakeTile(16, 16, 3, 90, 10, random);
  // Speckle: spots with a sharp edge on an even background.
  for (int8_t& value : tiles_[kSpeckle]) {
    value = static_cast<int8_t>(std::clamp((value - 30) * 6, -20, 110));
  }
}

Palette MakePalette(SynthRandom& random) {
  Palette palette;
  for (Colour& colour : palette.colours) {
    // Mostly muted colours, as outdoors: a gray level and a colour cast.
    const int32_t level = static_cast<int32_t>(random.Between(45, 190));
    const int32_t cast = random.Chance(25) ? 70 : 28;
    colour = {Jitter(level, cast, random), Jitter(level, cast * 2 / 3, random), Jitter(level, cast, random)};
  }
  palette.grain = static_cast<int32_t>(random.Between(4, 22));
  palette.brightness = static_cast<int32_t>(random.Between(-30, 30));
  return palette;
}

Material MakeMaterial(const NoiseTiles& tiles, const Palette& palette, int32_t center_x, int32_t center_y, int32_t size,
                      SynthRandom& random) {
  Material material;
  const Colour& anchor = palette.colours[random.Below(palette.colours.size())];
  const int32_t shade = static_cast<int32_t>(random.Between(-35, 35));
  material.colour = {Jitter(anchor.red + shade, 14, random), Jitter(anchor.green + shade, 10, random),
                     Jitter(anchor.blue + shade, 14, random)};
  material.center_x = center_x;
  material.center_y = center_y;
  const int32_t steepest = 50 * 65536 / std::max(size, 16);
  material.slope_x = static_cast<int32_t>(random.Between(-steepest, steepest));
  material.slope_y = static_cast<int32_t>(random.Between(-steepest, steepest));
  const uint64_t pick = random.Below(100);
  const NoiseTiles::Kind kind = pick < 45   ? NoiseTiles::kClouds
                                : pick < 70 ? NoiseTiles::kRough
                                : pick < 78 ? NoiseTiles::kGrain
                                : pick < 90 ? NoiseTiles::kStripes
                                            : NoiseTiles::kSpeckle;
  material.tile = tiles.tile(kind);
  // Never stretched: a tile enlarged without filtering shows its pixels.
  const int64_t scale = random.Between(256, 640);
  const uint32_t angle = static_cast<uint32_t>(random.Below(65536));
  const int32_t cosine = static_cast<int32_t>(CosineQ15(angle) * scale / 32768);
  const int32_t sine = static_cast<int32_t>(SineQ15(angle) * scale / 32768);
  material.step = {cosine, sine, -sine, cosine};
  // Tile positions may be negative: the index is masked.
  material.offset = {static_cast<int32_t>(random.Below(uint64_t{kSide} * 256)),
                     static_cast<int32_t>(random.Below(uint64_t{kSide} * 256))};
  const int32_t strength = static_cast<int32_t>(random.Between(10, kind == NoiseTiles::kClouds ? 60 : 36));
  material.strength = {Jitter(strength, 6, random), strength, Jitter(strength, 6, random)};
  return material;
}

void RenderPicture(const NoiseTiles& tiles, const Palette& palette, const std::vector<Material>& materials,
                   const uint8_t* ids, uint32_t width, uint32_t height, uint8_t* rgb) {
  // `ids` is stored by columns and `rgb` by rows. A square block of both fits in the first-level cache.
  constexpr uint32_t kBlock = 64;
  // NOLINTBEGIN(bugprone-signed-char-misuse): the tiles hold numbers, of either sign.
  const int8_t* grain = tiles.tile(NoiseTiles::kGrain);
  for (uint32_t top = 0; top < height; top += kBlock) {
    const uint32_t bottom = std::min(top + kBlock, height);
    for (uint32_t left = 0; left < width; left += kBlock) {
      const uint32_t right = std::min(left + kBlock, width);
      for (uint32_t row = top; row < bottom; ++row) {
        const int32_t y = static_cast<int32_t>(row);
        const int32_t light =
            palette.brightness * (2 * y - static_cast<int32_t>(height)) / static_cast<int32_t>(height);
        uint8_t* out = rgb + (size_t{row} * width + left) * 3;
        for (uint32_t column = left; column < right; ++column, out += 3) {
          const int32_t x = static_cast<int32_t>(column);
          const Material& material = materials[ids[size_t{column} * height + row]];
          const uint32_t u =
              static_cast<uint32_t>((x * material.step[0] + y * material.step[1] + material.offset[0]) >> 8);
          const uint32_t v =
              static_cast<uint32_t>((x * material.step[2] + y * material.step[3] + material.offset[1]) >> 8);
          const int32_t texture = material.tile[(v & NoiseTiles::kMask) * kSide + (u & NoiseTiles::kMask)];
          const int32_t noise = grain[(row & NoiseTiles::kMask) * kSide + (column & NoiseTiles::kMask)];
          // NOLINTEND(bugprone-signed-char-misuse)
          const int32_t slope =
              ((x - material.center_x) * material.slope_x + (y - material.center_y) * material.slope_y) >> 16;
          const int32_t base = light + slope + (noise * palette.grain >> 7);
          const auto channel = [&](int32_t colour, int32_t strength) {
            return static_cast<uint8_t>(std::clamp(base + colour + (texture * strength >> 7), 0, 255));
          };
          out[0] = channel(material.colour.red, material.strength.red);
          out[1] = channel(material.colour.green, material.strength.green);
          out[2] = channel(material.colour.blue, material.strength.blue);
        }
      }
    }
  }
}

}  // namespace shardctl
