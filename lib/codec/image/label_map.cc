#include <cstring>
#include <limits>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"
#include "codec/image/orientation.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

// Where in the stored map each output position of one axis lies.
std::vector<size_t> PlacesOf(uint32_t size, double from, double length, uint32_t count, bool mirror, bool flip,
                             size_t step) {
  std::vector<size_t> places(count);
  for (uint32_t i = 0; i < count; ++i) {
    places[i] = step * codec::NearestStored(size, from, length, count, flip ? count - 1 - i : i, mirror);
  }
  return places;
}

template <typename Stored, typename Out>
absl::Status Take(const std::vector<uint8_t>& numbers, const Geometry& geometry, int64_t fill, uint8_t* out) {
  const codec::Turn turn = codec::TurnOf(geometry.orientation);
  const size_t row = geometry.stored_width;
  const std::vector<size_t> xs =
      PlacesOf(geometry.upright_width(), geometry.source.x, geometry.source.width, geometry.content_width,
               turn.mirror_x, geometry.flip, turn.transpose ? row : 1);
  const std::vector<size_t> ys = PlacesOf(geometry.upright_height(), geometry.source.y, geometry.source.height,
                                          geometry.content_height, turn.mirror_y, false, turn.transpose ? 1 : row);
  const std::vector<Out> padding(geometry.output_width, static_cast<Out>(fill));
  std::vector<Out> line = padding;
  for (size_t i = 0; i < geometry.output_height; ++i, out += line.size() * sizeof(Out)) {
    const size_t y = i - geometry.content_top;  // wraps above the content
    if (y >= ys.size()) {
      std::memcpy(out, padding.data(), padding.size() * sizeof(Out));
      continue;
    }
    for (size_t x = 0; x < xs.size(); ++x) {
      Stored number;
      std::memcpy(&number, numbers.data() + (ys[y] + xs[x]) * sizeof(Stored), sizeof(Stored));
      if (uint64_t{number} > static_cast<uint64_t>(std::numeric_limits<Out>::max())) {
        return absl::OutOfRangeError(
            StrCat("label map: has the class ", number, ", which does not fit the dtype: choose a larger one"));
      }
      line[geometry.content_left + x] = static_cast<Out>(number);
    }
    std::memcpy(out, line.data(), line.size() * sizeof(Out));
  }
  return absl::OkStatus();
}

template <typename Out>
absl::Status TakeEither(bool wide, const std::vector<uint8_t>& numbers, const Geometry& geometry, int64_t fill,
                        uint8_t* out) {
  if (fill < 0 ? !std::is_signed_v<Out> || fill < static_cast<int64_t>(std::numeric_limits<Out>::min())
               : static_cast<uint64_t>(fill) > static_cast<uint64_t>(std::numeric_limits<Out>::max())) {
    return InvalidArgument("label map: a fill of ", fill, " does not fit the dtype");
  }
  return wide ? Take<uint16_t, Out>(numbers, geometry, fill, out) : Take<uint8_t, Out>(numbers, geometry, fill, out);
}

}  // namespace

absl::Status DecodeLabelMap(std::string_view bytes, const Geometry& geometry, Type dtype, int64_t fill,
                            uint64_t max_memory, std::span<uint8_t> out) {
  SHARDKIT_RETURN_IF_ERROR(CheckGeometry(geometry));
  if (out.size() != uint64_t{geometry.output_width} * geometry.output_height * ScalarSize(dtype)) {
    return InvalidArgument("label map: ", out.size(), " bytes are not ", geometry.output_width, " x ",
                           geometry.output_height, " numbers of ", TypeName(dtype));
  }
  const ImageFormat format = DetectImageFormat(bytes);
  const auto codec = codec::CodecOf(bytes);
  if (format == ImageFormat::kJpeg || !codec.ok() || (*codec)->numbers == nullptr) {
    return InvalidArgument("label map: is ", format == ImageFormat::kUnknown ? "no image" : ImageFormatName(format),
                           ", and only PNG and TIFF keep class numbers");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const codec::ImageHeader info, (*codec)->probe(bytes));
  if (info.channels != 1 && !info.palette) {
    return InvalidArgument("label map: the ", ImageFormatName(format),
                           " has colors, and which class each stands for is not known: store the classes as gray "
                           "values or palette indices");
  }
  if (info.width != geometry.stored_width || info.height != geometry.stored_height) {
    return InvalidArgument("label map: the geometry is for ", geometry.stored_width, " x ", geometry.stored_height,
                           " pixels; the file has ", info.width, " x ", info.height);
  }
  const bool wide = info.depth == 16;
  const uint64_t bytes_of_numbers = uint64_t{info.width} * info.height * (wide ? 2 : 1);
  // Of an interlaced PNG all numbers are held twice.
  const uint64_t needed = bytes_of_numbers * (info.held_bytes > info.check_bytes ? 2 : 1);
  if (info.check_bytes > max_memory || needed > max_memory - info.check_bytes) {
    return ResourceExhausted("label map: ", info.width, " x ", info.height, " pixels take more than the limit of ",
                             max_memory, " bytes of memory");
  }
  std::vector<uint8_t> numbers(bytes_of_numbers);
  SHARDKIT_RETURN_IF_ERROR((*codec)->numbers(bytes, info, numbers));
  switch (dtype) {
    case Type::kU8:
      return TakeEither<uint8_t>(wide, numbers, geometry, fill, out.data());
    case Type::kI8:
      return TakeEither<int8_t>(wide, numbers, geometry, fill, out.data());
    case Type::kU16:
      return TakeEither<uint16_t>(wide, numbers, geometry, fill, out.data());
    case Type::kI16:
      return TakeEither<int16_t>(wide, numbers, geometry, fill, out.data());
    case Type::kU32:
      return TakeEither<uint32_t>(wide, numbers, geometry, fill, out.data());
    case Type::kI32:
      return TakeEither<int32_t>(wide, numbers, geometry, fill, out.data());
    case Type::kU64:
      return TakeEither<uint64_t>(wide, numbers, geometry, fill, out.data());
    case Type::kI64:
      return TakeEither<int64_t>(wide, numbers, geometry, fill, out.data());
    default:
      return InvalidArgument("label map: class numbers are integers, not ", TypeName(dtype));
  }
}

}  // namespace shardkit
