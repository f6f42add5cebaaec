#include "dataset/check/deep_check.h"

#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "codec/content_type.h"
#include "codec/image/image_codec.h"
#include "shardkit/image.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

absl::Status DeepChecker::CheckJpeg(std::string_view value) {
  const absl::Status decoded = jpeg_.Check(value);
  if (decoded.ok()) warning_ = jpeg_.warning();
  return absl::IsUnimplemented(decoded) ? ProbeJpeg(value).status() : decoded;
}

absl::Status DeepChecker::CheckImage(std::string_view value) {
  const ImageFormat format = DetectImageFormat(value);
  if (format == ImageFormat::kUnknown) return DataLoss("image: begins like no known format");
  if (format == ImageFormat::kJpeg) return CheckJpeg(value);
  const absl::Status decoded = codec::CheckImage(value, max_image_memory_);
  if (!absl::IsUnimplemented(decoded)) return decoded;
  ++undecoded_images_;
  return absl::OkStatus();
}

namespace {

// Of valid JSON.
bool IsArrayOfStrings(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t at = text.find_first_not_of(kSpace);
  if (at == std::string_view::npos || text[at] != '[') return false;
  at = text.find_first_not_of(kSpace, at + 1);
  if (text[at] == ']') return true;
  while (text[at] == '"') {
    for (++at; text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    at = text.find_first_not_of(kSpace, at + 1);
    if (text[at] == ']') return true;
    at = text.find_first_not_of(kSpace, at + 1);  // behind the comma
  }
  return false;
}

}  // namespace

absl::Status DeepChecker::Check(const Column& column, std::string_view value) {
  warning_ = {};
  if (!column.has_known_type()) return absl::OkStatus();
  switch (column.type) {
    case Type::kUtf8:
      return ValidUtf8(value) ? absl::OkStatus() : DataLoss("utf8: is not valid UTF-8");
    case Type::kJson:
      if (!codec::IsValidJson(value)) {
        return DataLoss("json: is not one JSON text of at most ", codec::kMaxJsonDepth,
                        " levels: ", codec::DescribeInvalidJson(value));
      }
      return !IsTextList(column) || IsArrayOfStrings(value)
                 ? absl::OkStatus()
                 : DataLoss("json: is no array of strings, which the column's metadata says (", kItems, ")");
    case Type::kJpeg:
      return CheckJpeg(value);
    case Type::kPng:
      return DetectImageFormat(value) == ImageFormat::kPng ? CheckImage(value)
                                                           : DataLoss("PNG: does not begin with a header");
    case Type::kImage:
      return CheckImage(value);
    case Type::kBool:
      return static_cast<uint8_t>(value[0]) <= 1 ? absl::OkStatus() : DataLoss("bool: is neither 0 nor 1");
    case Type::kNdarray: {
      SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, ParseNdarray(column, value));
      if (array.dtype == Type::kBool &&
          std::ranges::any_of(array.data, [](char element) { return static_cast<uint8_t>(element) > 1; })) {
        return DataLoss("ndarray: an element of dtype bool is neither 0 nor 1");
      }
      return absl::OkStatus();
    }
    case Type::kRle:
      return ParseRleValue(value, &masks_);
    default:
      return absl::OkStatus();
  }
}

void NoteWarnedImages(const std::string& path, const WarnedImages& images, ValidateReport* report) {
  if (images.count > 0 && report->warned_images == 0) {
    report->warnings.push_back(
        {path, StrCat(images.first, "; it is decoded nevertheless, and such images are counted")});
  }
  report->warned_images += images.count;
}

MaskPairs::MaskPairs(std::span<const Column> columns) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!columns[i].has_known_type()) continue;
    if (IsImage(columns[i].type)) images_.push_back(i);
    if (columns[i].type == Type::kRle) masks_.push_back(i);
  }
}

absl::Status MaskPairs::Check(const BlockView& view, uint32_t sample, size_t column) const {
  const auto value_of = [&](size_t i) -> std::optional<std::string_view> {
    return view.column(i).loaded() ? view.column(i).value(sample) : std::nullopt;
  };
  const auto masks = value_of(column);
  RleList sizes;
  if (!masks || !ParseRleSizes(*masks, &sizes).ok()) return absl::OkStatus();
  absl::Status differs;
  for (const size_t i : images_) {
    const auto image = value_of(i);
    if (!image) continue;
    const auto size = ProbeImage(*image);
    if (!size.ok()) return absl::OkStatus();
    size_t mask = 0;
    while (mask < sizes.size() && sizes.widths[mask] == size->width && sizes.heights[mask] == size->height) ++mask;
    if (mask == sizes.size()) return absl::OkStatus();
    differs.Update(DataLoss("mask ", mask, " is of ", sizes.widths[mask], " x ", sizes.heights[mask],
                            " pixels, its image of ", size->width, " x ", size->height));
  }
  return differs;
}

}  // namespace shardkit::dataset
