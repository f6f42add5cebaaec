#include "operations/coco/coco_columns.h"

#include <utility>

#include "operations/annotation_json.h"
#include "operations/python_float.h"

namespace shardkit::operations {
std::vector<Column> CocoColumns(const std::optional<std::string>& classes) {
  std::vector<Column> columns(kCocoColumnCount);
  columns[kCocoKey] = AnnotationColumn("key", Type::kUtf8, Codec::kZstd, false);
  columns[kCocoKey].is_key = true;
  columns[kCocoImage] = AnnotationColumn("image", Type::kJpeg, Codec::kNone, false);
  columns[kCocoImageId] = AnnotationColumn("image_id", Type::kI64, Codec::kZstd, false);
  columns[kCocoWidth] = AnnotationColumn("width", Type::kI64, Codec::kZstd);
  columns[kCocoHeight] = AnnotationColumn("height", Type::kI64, Codec::kZstd);
  columns[kCocoFileName] = AnnotationColumn("file_name", Type::kUtf8, Codec::kZstd, false);
  columns[kCocoAnnotationId] = AnnotationArray("annotation_id", Type::kI64);
  columns[kCocoCategoryId] = AnnotationArray("category_id", Type::kI64);
  columns[kCocoLabel] = AnnotationArray("label", Type::kI64);
  if (classes) columns[kCocoLabel].metadata[kClassNames] = *classes;
  columns[kCocoBbox] = AnnotationArray("bbox", Type::kF64);
  columns[kCocoArea] = AnnotationArray("area", Type::kF64);
  columns[kCocoIscrowd] = AnnotationArray("iscrowd", Type::kI64);
  columns[kCocoMasks] = AnnotationColumn("masks", Type::kRle, Codec::kZstd);
  columns[kCocoSegmentation] = AnnotationColumn("segmentation", Type::kJson, Codec::kZstd);
  columns[kCocoKeypoints] = AnnotationArray("keypoints", Type::kF64);
  columns[kCocoNumKeypoints] = AnnotationArray("num_keypoints", Type::kI64);
  columns[kCocoCaptions] = AnnotationColumn("captions", Type::kJson, Codec::kZstd);
  columns[kCocoCaptions].metadata[kItems] = "utf8";
  columns[kCocoSourceJson] = AnnotationColumn("source_json", Type::kJson, Codec::kZstd);
  return columns;
}

std::optional<CocoColumn> ColumnOfAnnotationMember(std::string_view name) {
  constexpr std::pair<std::string_view, CocoColumn> kMembers[] = {
      {"id", kCocoAnnotationId},           {"image_id", kCocoImageId}, {"category_id", kCocoCategoryId},
      {"segmentation", kCocoSegmentation}, {"bbox", kCocoBbox},        {"area", kCocoArea},
      {"iscrowd", kCocoIscrowd},           {"caption", kCocoCaptions}, {"keypoints", kCocoKeypoints},
      {"num_keypoints", kCocoNumKeypoints}};
  for (const auto& [member, column] : kMembers) {
    if (name == member) return column;
  }
  return std::nullopt;
}

std::optional<CocoColumn> ColumnOfImageMember(std::string_view name) {
  constexpr std::pair<std::string_view, CocoColumn> kMembers[] = {
      {"id", kCocoImageId}, {"file_name", kCocoFileName}, {"width", kCocoWidth}, {"height", kCocoHeight}};
  for (const auto& [member, column] : kMembers) {
    if (name == member) return column;
  }
  return std::nullopt;
}

bool AppendJsonMember(std::string_view name, std::string_view value, std::string* object) {
  *object += object->empty() ? "{" : ", ";
  if (!AppendPythonJsonString(name, object)) return false;
  *object += ": ";
  *object += value;
  return true;
}

}  // namespace shardkit::operations
