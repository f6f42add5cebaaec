#include "operations/coco/coco_columns.h"

#include <initializer_list>
#include <utility>

#include "operations/annotation_json.h"
#include "operations/python_float.h"

namespace shardkit::operations {
namespace {

std::optional<CocoColumn> FindMember(std::initializer_list<std::pair<std::string_view, CocoColumn>> members,
                                     std::string_view name) {
  for (const auto& [member, column] : members) {
    if (name == member) return column;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Column> CocoColumns(const std::optional<std::string>& classes) {
  std::vector<Column> columns(kCocoColumnCount);
  columns[kCocoKey] = AnnotationColumn("key", Type::kUtf8, Codec::kZstd, false);
  columns[kCocoKey].is_key = true;
  columns[kCocoImage] = AnnotationColumn("image", Type::kJpeg, Codec::kNone, false);
  columns[kCocoImageId] = AnnotationColumn("image_id", Type::kI64, Codec::kZstd, false);
  columns[kCocoWidth] = AnnotationColumn("width", Type::kI64, Codec::kZstd);
  columns[kCocoHeight] = AnnotationColumn("height", Type::kI64, Codec::kZstd);
  columns[kCocoFileName] = AnnotationColumn("file_name", Type::kUtf8, Codec::kZstd, false);
  columns[kCocoPanoptic] = AnnotationColumn("panoptic", Type::kPng, Codec::kNone);
  columns[kCocoPanopticFileName] = AnnotationColumn("panoptic_file_name", Type::kUtf8, Codec::kZstd);
  columns[kCocoAnnotationId] = AnnotationArray("annotation_id", Type::kI64);
  columns[kCocoSegmentId] = AnnotationArray("segment_id", Type::kI64);
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
  return FindMember({{"id", kCocoAnnotationId},
                     {"image_id", kCocoImageId},
                     {"category_id", kCocoCategoryId},
                     {"segmentation", kCocoSegmentation},
                     {"bbox", kCocoBbox},
                     {"area", kCocoArea},
                     {"iscrowd", kCocoIscrowd},
                     {"caption", kCocoCaptions},
                     {"keypoints", kCocoKeypoints},
                     {"num_keypoints", kCocoNumKeypoints}},
                    name);
}

std::optional<CocoColumn> ColumnOfSegmentMember(std::string_view name) {
  return FindMember({{"id", kCocoSegmentId},
                     {"category_id", kCocoCategoryId},
                     {"bbox", kCocoBbox},
                     {"area", kCocoArea},
                     {"iscrowd", kCocoIscrowd}},
                    name);
}

std::optional<CocoColumn> ColumnOfImageMember(std::string_view name) {
  return FindMember(
      {{"id", kCocoImageId}, {"file_name", kCocoFileName}, {"width", kCocoWidth}, {"height", kCocoHeight}}, name);
}

bool AppendJsonMember(std::string_view name, std::string_view value, std::string* object) {
  *object += object->empty() ? "{" : ", ";
  if (!AppendPythonJsonString(name, object)) return false;
  *object += ": ";
  *object += value;
  return true;
}

}  // namespace shardkit::operations
