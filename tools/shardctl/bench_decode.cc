#include "bench_decode.h"

#include <algorithm>
#include <utility>

#include "numbers.h"
#include "order_options.h"
#include "report.h"

namespace shardctl {
namespace {

using shardkit::ColumnDecode;
using shardkit::GeometryOptions;

// "N" or "WxH" pixels.
absl::Status ParsePixels(const std::string& text, bool square, GeometryOptions* geometry) {
  const size_t by = text.find('x');
  const absl::StatusOr<uint64_t> width = ParseCount(text.substr(0, by), 1, shardkit::kMaxImageSide);
  const absl::StatusOr<uint64_t> height =
      by == std::string::npos ? width : ParseCount(text.substr(by + 1), 1, shardkit::kMaxImageSide);
  if (!width.ok() || !height.ok()) {
    return absl::InvalidArgumentError(Quote(text) + " is not a size in pixels: write 224 or 320x240");
  }
  if (square && *width != *height) return absl::InvalidArgumentError(Quote(text) + ": this kind makes squares");
  geometry->width = static_cast<uint32_t>(*width);
  geometry->height = static_cast<uint32_t>(*height);
  return absl::OkStatus();
}

absl::Status ParseImage(const std::string& text, GeometryOptions* geometry) {
  constexpr std::pair<const char*, GeometryOptions::Kind> kKinds[] = {
      {"random-resized-crop", GeometryOptions::Kind::kRandomResizedCrop},
      {"resize", GeometryOptions::Kind::kResize},
      {"center-crop", GeometryOptions::Kind::kCenterCrop},
      {"longest-side", GeometryOptions::Kind::kLongestSide}};
  const size_t colon = text.find(':');
  const std::string kind = colon == std::string::npos ? kKinds[0].first : text.substr(0, colon);
  for (const auto& [name, value] : kKinds) {
    if (kind != name) continue;
    geometry->kind = value;
    const bool square = value == GeometryOptions::Kind::kCenterCrop || value == GeometryOptions::Kind::kLongestSide;
    return ParsePixels(colon == std::string::npos ? text : text.substr(colon + 1), square, geometry);
  }
  return absl::InvalidArgumentError(Quote(kind) +
                                    " is not one of random-resized-crop, resize, center-crop, longest-side");
}

absl::Status ParseMasks(const std::string& kind, DecodeWish* wish) {
  constexpr std::pair<const char*, ColumnDecode> kKinds[] = {
      {"dense", ColumnDecode::kMasks}, {"packed", ColumnDecode::kPackedMasks}, {"runs", ColumnDecode::kStored}};
  for (const auto& [name, value] : kKinds) {
    if (kind != name) continue;
    wish->masks = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(Quote(kind) + " is not one of dense, packed, runs");
}

absl::Status ParsePart(const std::string& part, DecodeWish* wish) {
  const size_t colon = part.find(':');
  const std::string what = part.substr(0, colon);
  const std::optional<std::string> how =
      colon == std::string::npos ? std::nullopt : std::optional(part.substr(colon + 1));
  if (what == "image" && !wish->images) {
    wish->images = true;
    return how.has_value() ? ParseImage(*how, &wish->geometry) : absl::OkStatus();
  }
  if (what == "masks" && !wish->masks.has_value()) return ParseMasks(how.value_or("dense"), wish);
  if (part == "tokens" && !wish->tokens) {
    wish->tokens = true;
    return absl::OkStatus();
  }
  const bool known = what == "image" || what == "masks" || part == "tokens";
  return absl::InvalidArgumentError(known ? Quote(what) + " is named twice"
                                          : Quote(part) + " is not one of image, masks, tokens, none");
}

bool HoldsTokens(const shardkit::Column& column) {
  constexpr shardkit::Type kIntegers[] = {shardkit::Type::kI8,  shardkit::Type::kI16, shardkit::Type::kI32,
                                          shardkit::Type::kI64, shardkit::Type::kU8,  shardkit::Type::kU16,
                                          shardkit::Type::kU32, shardkit::Type::kU64};
  return column.type == shardkit::Type::kNdarray && (!column.shape.has_value() || column.shape->size() == 1) &&
         std::ranges::find(kIntegers, column.dtype) != std::end(kIntegers);
}

// How `wish` decodes a column.
ColumnDecode DecodeOf(const shardkit::Column& column, const DecodeWish& wish) {
  if (wish.images && shardkit::IsImage(column.type)) return ColumnDecode::kImage;
  if (wish.masks.has_value() && column.type == shardkit::Type::kRle) return *wish.masks;
  if (wish.tokens && HoldsTokens(column)) return ColumnDecode::kTokens;
  return ColumnDecode::kStored;
}

}  // namespace

absl::StatusOr<DecodeWish> ParseDecode(const std::string& text) {
  DecodeWish wish;
  if (text == "none") return wish;
  for (const std::string& part : SplitAtCommas(text)) {
    if (const absl::Status status = ParsePart(part, &wish); !status.ok()) return status;
  }
  return wish;
}

absl::StatusOr<std::vector<shardkit::LoaderColumn>> ChooseColumns(const std::vector<shardkit::Column>& columns,
                                                                  const std::vector<std::string>& names,
                                                                  const DecodeWish& wish, uint32_t context) {
  std::vector<shardkit::Column> wanted;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(columns, name, &shardkit::Column::name);
    if (found == columns.end()) return absl::OutOfRangeError("--columns: there is no column " + Quote(name));
    wanted.push_back(*found);
  }
  if (names.empty()) {
    std::ranges::copy_if(columns, std::back_inserter(wanted), [](const auto& column) { return !column.is_key; });
  }
  const auto require = [&](bool asked, const char* word, const char* type, const auto& fits) -> absl::Status {
    if (!asked || std::ranges::any_of(wanted, fits)) return absl::OkStatus();
    return absl::InvalidArgumentError(std::string("--decode: ") + word + ": no column loaded " + type);
  };
  for (const absl::Status& status :
       {require(wish.images, "image", "is of type jpeg, png or image",
                [](const auto& column) { return shardkit::IsImage(column.type); }),
        require(wish.masks.has_value(), "masks", "is of type rle",
                [](const auto& column) { return column.type == shardkit::Type::kRle; }),
        require(wish.tokens, "tokens", "holds one-dimensional arrays of integers", HoldsTokens)}) {
    if (!status.ok()) return status;
  }
  std::vector<shardkit::LoaderColumn> loaded;
  for (const shardkit::Column& column : wanted) {
    loaded.push_back({.name = column.name, .decode = DecodeOf(column, wish), .context = context});
  }
  return loaded;
}

}  // namespace shardctl
