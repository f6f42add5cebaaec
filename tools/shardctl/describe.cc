#include "describe.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "numbers.h"
#include "report.h"
#include "scalar.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardctl {
namespace {

using shardkit::Type;

constexpr size_t kTextBytes = 100;
constexpr size_t kHexBytes = 16;
constexpr size_t kElements = 8;

Description Malformed(const absl::Status& status) {
  const std::string message(status.message());
  return {"malformed: " + Printable(message), Json{{"malformed", message}}};
}

Description DescribeText(std::string_view value, uint64_t length) {
  const std::string_view front = TextFront(value, kTextBytes);
  const bool cut = front.size() < length;
  return {Quote(front) + (cut ? "... (" + FormatBytes(length) + ")" : ""), Json{{"text", front}, {"truncated", cut}}};
}

Description DescribeBytes(std::string_view value, uint64_t length) {
  const std::string hex = absl::BytesToHexString(std::string(value.substr(0, kHexBytes)));
  std::string text = FormatBytes(length);
  if (!hex.empty()) text += ", begins " + hex;
  return {text, Json{{"front_hex", hex}}};
}

Description DescribeJpeg(std::string_view value, uint64_t length) {
  const absl::StatusOr<shardkit::JpegInfo> info = shardkit::ProbeJpeg(value);
  if (!info.ok()) return Malformed(info.status());
  const std::string_view process = info->lossless ? "lossless" : info->progressive ? "progressive" : "sequential";
  std::string text = std::to_string(info->width) + "x" + std::to_string(info->height) + ", " +
                     Counted(static_cast<uint64_t>(info->components), "component") + ", " + std::string(process);
  if (info->bits != 8) text += ", " + std::to_string(info->bits) + " bits";
  if (info->arithmetic) text += ", arithmetic coding";
  if (info->exif_orientation != 0) text += ", EXIF orientation " + std::to_string(info->exif_orientation);
  text += ", " + FormatBytes(length);
  return {text, Json{{"width", info->width},
                     {"height", info->height},
                     {"components", info->components},
                     {"bits", info->bits},
                     {"process", process},
                     {"arithmetic", info->arithmetic},
                     {"exif_orientation", info->exif_orientation == 0 ? Json(nullptr) : Json(info->exif_orientation)}}};
}

// Every PNG begins with an IHDR chunk, which holds the dimensions (PNG specification, 5.2 and 11.2.2).
Description DescribePng(std::string_view value, uint64_t length) {
  constexpr std::string_view kFront("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  if (!value.starts_with(kFront) || value.size() < 26) {
    return Malformed(absl::DataLossError("does not begin as a PNG file"));
  }
  const auto big_endian = [&](size_t at) {
    uint32_t number = 0;
    for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(value[at + i]);
    return number;
  };
  const uint32_t width = big_endian(16);
  const uint32_t height = big_endian(20);
  const int bits = static_cast<uint8_t>(value[24]);
  // The orientation may stand behind the pixels.
  const absl::StatusOr<shardkit::StoredSize> size = shardkit::ProbeImage(value);
  const int orientation = size.ok() && value.size() == length ? size->orientation : 0;
  std::string text =
      std::to_string(width) + "x" + std::to_string(height) + ", " + std::to_string(bits) + " bits per channel";
  if (orientation != 0) text += ", EXIF orientation " + std::to_string(orientation);
  return {text + ", " + FormatBytes(length),
          Json{{"width", width},
               {"height", height},
               {"bits", bits},
               {"exif_orientation", orientation == 0 ? Json(nullptr) : Json(orientation)}}};
}

// An image file of any format.
Description DescribePixels(std::string_view value) {
  const absl::StatusOr<shardkit::StoredSize> size = shardkit::ProbeImage(value);
  if (absl::IsUnimplemented(size.status())) return {FormatBytes(value.size()), Json::object()};
  if (!size.ok()) return Malformed(size.status());
  std::string text = std::to_string(size->width) + "x" + std::to_string(size->height);
  if (size->orientation != 0) text += ", EXIF orientation " + std::to_string(size->orientation);
  return {text + ", " + FormatBytes(value.size()),
          Json{{"width", size->width},
               {"height", size->height},
               {"exif_orientation", size->orientation == 0 ? Json(nullptr) : Json(size->orientation)}}};
}

Description DescribeImage(std::string_view value, uint64_t length) {
  const shardkit::ImageFormat format = shardkit::DetectImageFormat(value);
  const std::string name(shardkit::ImageFormatName(format));
  if (format == shardkit::ImageFormat::kUnknown) {
    return Malformed(absl::DataLossError("begins like no known format of images"));
  }
  Description description{FormatBytes(length), Json::object()};
  if (value.size() == length) description = DescribePixels(value);
  if (format == shardkit::ImageFormat::kJpeg) description = DescribeJpeg(value, length);
  if (format == shardkit::ImageFormat::kPng) description = DescribePng(value, length);
  description.text = name + ", " + description.text;
  description.json["format"] = name;
  return description;
}

Description DescribeMasks(std::string_view value) {
  shardkit::RleList masks;
  if (const absl::Status status = shardkit::ParseRleValue(value, &masks); !status.ok()) return Malformed(status);
  if (masks.size() == 0) return {"0 masks", Json{{"masks", 0}}};
  std::vector<uint64_t> areas;
  bool one_size = true;
  for (size_t i = 0; i < masks.size(); ++i) {
    areas.push_back(shardkit::Area(masks[i]));
    one_size = one_size && masks.heights[i] == masks.heights[0] && masks.widths[i] == masks.widths[0];
  }
  std::sort(areas.begin(), areas.end());
  const uint64_t median = areas[areas.size() / 2];
  const std::string size =
      one_size ? std::to_string(masks.widths[0]) + "x" + std::to_string(masks.heights[0]) : "of several sizes";
  Json json{{"masks", masks.size()},
            {"width", one_size ? Json(masks.widths[0]) : Json(nullptr)},
            {"height", one_size ? Json(masks.heights[0]) : Json(nullptr)},
            {"runs", masks.runs.size()},
            {"area", {{"min", areas.front()}, {"median", median}, {"max", areas.back()}}}};
  return {Counted(masks.size(), "mask") + " " + size + ", " + Counted(masks.runs.size(), "run") + ", area min " +
              std::to_string(areas.front()) + ", median " + std::to_string(median) + ", max " +
              std::to_string(areas.back()),
          json};
}

Description DescribeArray(const shardkit::Column& column, std::string_view value) {
  const absl::StatusOr<shardkit::NdarrayView> array = shardkit::ParseNdarray(column, value);
  if (!array.ok()) return Malformed(array.status());
  const size_t size = shardkit::ScalarSize(array->dtype);
  const size_t count = array->data.size() / size;
  std::string shape = "[";
  for (size_t i = 0; i < array->shape.size(); ++i) shape += (i == 0 ? "" : ", ") + std::to_string(array->shape[i]);
  std::string text = std::string(shardkit::TypeName(array->dtype)) + shape + "]";
  Json front = Json::array();
  for (size_t i = 0; i < std::min(count, kElements); ++i) {
    text += (i == 0 ? ": " : " ") + ScalarText(array->dtype, array->data.data() + i * size);
    front.push_back(ScalarJson(array->dtype, array->data.data() + i * size));
  }
  if (count > kElements) text += " ...";
  return {text, Json{{"dtype", shardkit::TypeName(array->dtype)}, {"shape", array->shape}, {"front", front}}};
}

}  // namespace

std::string_view TextFront(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<uint8_t>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

Description DescribeValue(const shardkit::Column& column, std::string_view value, uint64_t length) {
  if (!column.has_known_type()) return DescribeBytes(value, length);
  switch (column.type) {
    case Type::kJpeg:
      return DescribeJpeg(value, length);
    case Type::kPng:
      return DescribePng(value, length);
    case Type::kImage:
      return DescribeImage(value, length);
    case Type::kUtf8:
    case Type::kJson:
      return DescribeText(value, length);
    case Type::kBytes:
      return DescribeBytes(value, length);
    case Type::kRle:
      return DescribeMasks(value);
    case Type::kNdarray:
      return DescribeArray(column, value);
    default:
      return {ScalarText(column.type, value.data()), Json{{"value", ScalarJson(column.type, value.data())}}};
  }
}

std::string DescribeOperation(const shardkit::DatasetOperation& operation) {
  std::string text;
  for (const auto& [name, values] : operation.arguments) {
    text += (text.empty() ? " (" : "; ") + name;
    for (const std::string& value : values) text += (&value == values.data() ? " " : ", ") + value;
  }
  return operation.name + text + (text.empty() ? "" : ")");
}

}  // namespace shardctl
