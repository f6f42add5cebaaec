// One synthetic photograph and its annotations, in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "synth/picture.h"
#include "synth/random.h"
#include "synth/shape.h"
#include "synth/synth.h"

namespace shardctl {

// One thread at a time; keeps its memory between calls. `tiles` must outlive it.
class SynthPairMaker {
 public:
  SynthPairMaker(const SynthSa1bOptions& options, const NoiseTiles& tiles) : options_(options), tiles_(tiles) {}

  // Replaces *jpeg and *json with the pair of image `id`. They depend only on the options and `id`.
  absl::Status Make(uint64_t id, std::string* jpeg, std::string* json);

  // The last picture before it was encoded, height x width x 3 bytes.
  const std::vector<uint8_t>& rgb() const { return rgb_; }

 private:
  struct Object {
    int64_t radius = 0;  // 1/256 pixel
    SynthMask mask;
  };

  void ChooseSize(SynthRandom& random);
  void PlaceObjects(SynthRandom& random);
  ShapeOptions ChooseShape(SynthRandom& random) const;
  void Paint(SynthRandom& random);
  void WriteJson(uint64_t id, SynthRandom& random, std::string* json) const;

  const SynthSa1bOptions options_;
  const NoiseTiles& tiles_;
  uint32_t width_ = 0;
  uint32_t height_ = 0;
  std::vector<Object> objects_;
  std::vector<uint8_t> ids_;
  std::vector<uint8_t> rgb_;
};

}  // namespace shardctl
