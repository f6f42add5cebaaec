// The columns of datasets that are packed from annotation files of COCO, and their values as JSON again.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "shardkit/schema.h"

namespace shardkit::operations {

enum CocoColumn : size_t {
  kCocoKey,
  kCocoImage,
  kCocoImageId,
  kCocoWidth,
  kCocoHeight,
  kCocoFileName,
  // One value for each annotation of the image, in the order of the file.
  kCocoAnnotationId,
  kCocoCategoryId,
  kCocoLabel,  // the category's place among the categories
  kCocoBbox,
  kCocoArea,
  kCocoIscrowd,
  kCocoMasks,         // of segmentation
  kCocoSegmentation,  // as in the file
  kCocoKeypoints,
  kCocoNumKeypoints,
  kCocoCaptions,
  kCocoSourceJson,  // members that no other column of the sample has: {"image": {…}, "annotations": [{…}, …]}
  kCocoColumnCount,
};

using CocoColumnSet = std::bitset<kCocoColumnCount>;

// Metadata of the dataset: the annotation file's name, and its members in their order, where "images" and "annotations"
// are empty lists.
inline constexpr std::string_view kCocoFile = "coco.file";
inline constexpr std::string_view kCocoMembers = "coco.members";

// All columns, in the order above; `classes` is kClassNames of the column label. Each is in a dataset if the file has
// the member.
std::vector<Column> CocoColumns(const std::optional<std::string>& classes);

// The column that holds a member of an annotation or image, where its value fits. Nothing for other members.
std::optional<CocoColumn> ColumnOfAnnotationMember(std::string_view name);
std::optional<CocoColumn> ColumnOfImageMember(std::string_view name);

// Appends `"name": value` to an object's members, which it begins or goes on with. False if `name` is not UTF-8.
bool AppendJsonMember(std::string_view name, std::string_view value, std::string* object);

}  // namespace shardkit::operations
