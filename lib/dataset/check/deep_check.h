// Decoding values to check that they are what their column says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/validate.h"

namespace shardkit::dataset {

// One thread at a time; keeps its memory between values.
class DeepChecker {
 public:
  // `max_image_memory`: most bytes for decoding one image. An image that needs more gives ResourceExhausted.
  explicit DeepChecker(uint64_t max_image_memory) : max_image_memory_(max_image_memory) {
    jpeg_.set_max_memory(max_image_memory);
  }

  // DataLoss saying what is wrong. A JPEG that the libraries cannot decode (lossless or 12-bit) is checked by its
  // markers only, another image that this build does not decode by its first bytes only.
  absl::Status Check(const Column& column, std::string_view value);

  // What libjpeg warns of in the last value, which it decodes nevertheless, and other programs without a word. Empty
  // when there is nothing. Borrowed until the next value.
  std::string_view warning() const { return warning_; }

  // Number of images other than JPEG so far that were checked by their first bytes only.
  uint64_t undecoded_images() const { return undecoded_images_; }

 private:
  absl::Status CheckJpeg(std::string_view value);
  absl::Status CheckImage(std::string_view value);

  const uint64_t max_image_memory_;
  uint64_t undecoded_images_ = 0;
  std::string_view warning_;
  JpegDecoder jpeg_;
  RleList masks_;
};

// Images that libjpeg decodes with a warning.
struct WarnedImages {
  uint64_t count = 0;
  std::string first;  // where, and the warning

  void Add(const WarnedImages& more) {
    if (count == 0) first = more.first;
    count += more.count;
  }
};

// Counts them in the report, which names the first. `path` is the shard's.
void NoteWarnedImages(const std::string& path, const WarnedImages& images, ValidateReport* report);

// The masks of a sample and its images, which a loader that decodes both pairs.
class MaskPairs {
 public:
  explicit MaskPairs(std::span<const Column> columns);

  bool empty() const { return images_.empty() || masks_.empty(); }
  const std::vector<size_t>& images() const { return images_; }
  const std::vector<size_t>& masks() const { return masks_; }

  // Whether the masks in column `column` of a sample have the size of its image; where it has several images, that of
  // one of them. DataLoss naming a mask that has not. What cannot be read, or is of no known size, is not compared.
  absl::Status Check(const BlockView& view, uint32_t sample, size_t column) const;

 private:
  std::vector<size_t> images_, masks_;  // positions of columns
};

}  // namespace shardkit::dataset
