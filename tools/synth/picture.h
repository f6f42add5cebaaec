// Colours and textures of the synthetic photographs. Integers only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "synth/random.h"

namespace shardctl {

// Square tiles of repeating noise, made once and shared by all pictures and threads.
class NoiseTiles {
 public:
  static constexpr uint32_t kSide = 512;
  static constexpr uint32_t kMask = kSide - 1;
  enum Kind { kClouds, kRough, kGrain, kStripes, kSpeckle, kKindCount };

  explicit NoiseTiles(uint64_t seed);

  // kSide x kSide values around 0, row-major.
  const int8_t* tile(Kind kind) const { return tiles_[kind].data(); }

 private:
  std::array<std::vector<int8_t>, kKindCount> tiles_;
};

struct Colour {
  int32_t red = 0, green = 0, blue = 0;  // 0 to 255
};

// How the pixels of one object look: a colour, a slope of brightness across the object, and a texture, which is a
// rotated and scaled tile.
struct Material {
  Colour colour;
  int32_t center_x = 0, center_y = 0;  // where the slope is 0
  int32_t slope_x = 0, slope_y = 0;    // brightness per pixel, in 1/65536
  const int8_t* tile = nullptr;
  // Tile position: (x * step[0] + y * step[1] + offset[0], x * step[2] + y * step[3] + offset[1]) / 256.
  std::array<int32_t, 4> step{};
  std::array<int32_t, 2> offset{};
  Colour strength;  // of the texture in each channel, in 1/128
};

// The few base colours of a picture's objects, and the noise of its camera.
struct Palette {
  std::array<Colour, 6> colours;
  int32_t grain = 0;       // strength of the noise over the whole picture, in 1/128
  int32_t brightness = 0;  // added at the bottom of the picture and subtracted at the top
};

Palette MakePalette(SynthRandom& random);

// `size` is the object's extent in pixels.
Material MakeMaterial(const NoiseTiles& tiles, const Palette& palette, int32_t center_x, int32_t center_y, int32_t size,
                      SynthRandom& random);

// `ids` gives for each pixel, column by column, the index of its material. Writes height x width x 3 bytes.
void RenderPicture(const NoiseTiles& tiles, const Palette& palette, const std::vector<Material>& materials,
                   const uint8_t* ids, uint32_t width, uint32_t height, uint8_t* rgb);

}  // namespace shardctl
