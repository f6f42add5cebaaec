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
  kCocoPanoptic,  // the PNG whose colors are the ids of segments, and its name
  kCocoPanopticFileName,
  // One value for each annotation of the image, or segment of its PNG, in the order of the file.
  kCocoAnnotationId,
  kCocoSegmentId,
  kCocoCategoryId,
  kCocoLabel,  // the category's place among the categories
  kCocoBbox,
  kCocoArea,
  kCocoIscrowd,
  kCocoMasks,         // of segmentation, or of the PNG
  kCocoSegmentation,  // as in the file
  kCocoKeypoints,
  kCocoNumKeypoints,
  kCocoCaptions,
  // Members that no other column of the sample has: {"image": {…}, "annotations": [{…}, …]}, where the elements are
  // segments if there is a PNG, and "panoptic" is their annotation.
  kCocoSourceJson,
  kCocoColumnCount,
};

using CocoColumnSet = std::bitset<kCocoColumnCount>;

// Metadata of the dataset: the annotation file's name, and its members in their order, where "images" and "annotations"
// are empty lists; a list of the names of columns.
inline constexpr std::string_view kCocoFile = "coco.file";
inline constexpr std::string_view kCocoMembers = "coco.members";
inline constexpr std::string_view kCocoColumns = "coco.columns";

// The member of a panoptic annotation that lists its segments.
inline constexpr std::string_view kCocoSegments = "segments_info";

// All columns, in the order above; `classes` is kClassNames of the column label. Each is in a dataset if the file has
// the member.
std::vector<Column> CocoColumns(const std::optional<std::string>& classes);

// The column that holds a member of an annotation, segment or image, where its value fits. Nothing for other members.
std::optional<CocoColumn> ColumnOfAnnotationMember(std::string_view name);
std::optional<CocoColumn> ColumnOfSegmentMember(std::string_view name);
std::optional<CocoColumn> ColumnOfImageMember(std::string_view name);

// Appends `"name": value` to an object's members, which it begins or goes on with. False if `name` is not UTF-8.
bool AppendJsonMember(std::string_view name, std::string_view value, std::string* object);

}  // namespace shardkit::operations
