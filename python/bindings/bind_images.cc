// Decoding single images.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>

#include "arrays.h"
#include "bind.h"
#include "shardkit/image.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

Array<uint8_t> DecodeImage(const nb::bytes& bytes, std::optional<std::tuple<uint32_t, uint32_t>> size, int channels,
                           bool apply_orientation, bool scaled_decode, bool reduce_depth, bool strict,
                           uint64_t max_memory) {
  if (channels != 1 && channels != 3 && channels != 4) {
    throw nb::value_error("channels: give 1 (gray), 3 (RGB) or 4 (RGBA)");
  }
  const std::string_view file(bytes.c_str(), bytes.size());
  StoredSize stored = ValueOrRaise(ProbeImage(file));
  if (!apply_orientation) stored.orientation = 1;
  const Geometry geometry = size ? Resize(stored, std::get<1>(*size), std::get<0>(*size)) : FullImage(stored);
  Raise(CheckGeometry(geometry));
  const uint64_t shape[] = {geometry.output_height, geometry.output_width, static_cast<uint64_t>(channels)};
  // An image whose headers promise too much is refused before its memory is allocated.
  if (shape[0] * shape[1] * shape[2] > max_memory) {
    Raise(absl::ResourceExhaustedError("the image has " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                                       " pixels, more than max_memory allows"));
  }
  void* data = nullptr;
  nb::object array = NewArray(Type::kU8, shape, &data);
  const MutableImageView out{static_cast<uint8_t*>(data), geometry.output_width, geometry.output_height, channels,
                             static_cast<size_t>(geometry.output_width) * channels};
  const ImageDecodeOptions options{
      .scaled_decode = scaled_decode, .reduce_depth = reduce_depth, .strict = strict, .max_memory = max_memory};
  std::string warning;
  WithoutGil([&] {
    thread_local ImageDecoder decoder;
    const absl::Status status = decoder.Decode(file, geometry, options, out);
    warning = decoder.warning();
    return status;
  });
  if (!warning.empty() && PyErr_WarnEx(PyExc_UserWarning, warning.c_str(), 1) != 0) throw nb::python_error();
  return array;
}

// A JPEG of rows of RGB pixels, height x width x 3 bytes.
nb::bytes EncodeRgb(const nb::bytes& pixels, uint32_t width, uint32_t height, int quality) {
  if (uint64_t{width} * height * 3 != pixels.size()) throw nb::value_error("pixels: not height x width x 3 bytes");
  std::string file;
  WithoutGil([&] {
    return EncodeJpeg(reinterpret_cast<const uint8_t*>(pixels.c_str()), width, height, {.quality = quality}, &file);
  });
  return nb::bytes(file.data(), file.size());
}

}  // namespace

void BindImages(nb::module_& module) {
  module.def("decode_image", &DecodeImage, nb::arg("data"), nb::kw_only(), nb::arg("size") = nb::none(),
             nb::arg("channels") = 3, nb::arg("apply_orientation") = false, nb::arg("scaled_decode") = true,
             nb::arg("reduce_depth") = false, nb::arg("strict") = false, nb::arg("max_memory") = kDefaultImageMemory);
  module.def(
      "image_format",
      [](const nb::bytes& file) {
        return ImageFormatName(DetectImageFormat({file.c_str(), file.size()}));
      },
      nb::arg("file"));
  module.def("encode_jpeg", &EncodeRgb, nb::arg("pixels"), nb::arg("width"), nb::arg("height"), nb::arg("quality"));
}

}  // namespace shardkit::bindings
