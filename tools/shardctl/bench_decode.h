// The words of --decode, which say how values are decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/loader.h"
#include "shardkit/schema.h"

namespace shardctl {

// How to decode the columns of each type.
struct DecodeWish {
  bool images = false;
  shardkit::GeometryOptions geometry;
  std::optional<shardkit::ColumnDecode> masks;
  bool tokens = false;
};

inline constexpr char kDecodeHelp[] =
    "--decode is none, or a list of these, separated by commas:\n"
    "  image                          JPEGs to RGB pixels, at their own sizes\n"
    "  image:224, image:320x240       the same, a random box resized to this (RandomResizedCrop)\n"
    "  image:KIND:SIZE                KIND is random-resized-crop, resize, center-crop or longest-side (with padding)\n"
    "  masks, masks:KIND              masks to pixels; KIND is dense (a byte each), packed (a bit) or runs (as "
    "stored);\n"
    "                                 they follow the geometry of the image\n"
    "  tokens                         arrays of integers, packed into rows of --context tokens;\n"
    "                                 --batch-size then counts rows\n";

// InvalidArgument that says which word is wrong.
absl::StatusOr<DecodeWish> ParseDecode(const std::string& text);

// The columns to load: those in `names`, or all but the key when `names` is empty. OutOfRange when a named column does
// not exist. InvalidArgument when `wish` decodes a type that no chosen column has.
absl::StatusOr<std::vector<shardkit::LoaderColumn>> ChooseColumns(const std::vector<shardkit::Column>& columns,
                                                                  const std::vector<std::string>& names,
                                                                  const DecodeWish& wish, uint32_t context);

}  // namespace shardctl
