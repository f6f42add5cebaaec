#include "codec/png.h"

#include <png.h>

#include <vector>

#include "base/errors.h"

namespace shardkit {

absl::Status CheckPng(std::string_view bytes, uint64_t max_memory) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    return DataLoss("png: ", image.message);
  }
  if (uint64_t{4} * image.width * image.height > max_memory) {
    png_image_free(&image);
    return ResourceExhausted("png: decoding ", image.width, " x ", image.height, " pixels takes ",
                             uint64_t{4} * image.width * image.height, " bytes of memory, over the limit of ", max_memory);
  }
  image.format = PNG_FORMAT_RGBA;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) return DataLoss("png: ", image.message);
  return absl::OkStatus();
}

}  // namespace shardkit
