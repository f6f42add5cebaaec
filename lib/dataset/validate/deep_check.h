// Decoding values to check that they are what their column says.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "shardkit/jpeg.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

// One thread at a time; keeps its memory between values.
class DeepChecker {
 public:
  // `max_image_memory`: most bytes for decoding one image. An image that needs more gives ResourceExhausted.
  explicit DeepChecker(uint64_t max_image_memory) { jpeg_.set_max_memory(max_image_memory); }

  // DataLoss saying what is wrong. A JPEG that the libraries cannot decode (lossless or 12-bit) is checked by its
  // markers only. An image of another format than JPEG and PNG is checked by its first bytes only.
  absl::Status Check(const Column& column, std::string_view value);

  // Number of images of such other formats so far.
  uint64_t undecoded_images() const { return undecoded_images_; }

 private:
  absl::Status CheckJpeg(std::string_view value);
  absl::Status CheckImage(std::string_view value);

  uint64_t undecoded_images_ = 0;
  JpegDecoder jpeg_;
  RleList masks_;
};

}  // namespace shardkit::dataset
