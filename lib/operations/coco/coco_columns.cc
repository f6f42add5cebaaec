#include "operations/coco/coco_columns.h"

#include <utility>

#include "operations/python_float.h"

namespace shardkit::operations {
namespace {

Column CocoColumnOf(const char* name, Type type, Codec codec, bool nullable = true) {
  Column column;
  column.name = name;
  column.type = type;
  column.codec = codec;
  column.nullable = nullable;
  return column;
}

Column CocoArrayOf(const char* name, Type dtype) {
  Column column = CocoColumnOf(name, Type::kNdarray, Codec::kZstd);
  column.dtype = dtype;
  return column;
}

}  // namespace

std::vector<Column> CocoColumns(const std::optional<std::string>& classes) {
  std::vector<Column> columns(kCocoColumnCount);
  columns[kCocoKey] = CocoColumnOf("key", Type::kUtf8, Codec::kZstd, false);
  columns[kCocoKey].is_key = true;
  columns[kCocoImage] = CocoColumnOf("image", Type::kJpeg, Codec::kNone, false);
  columns[kCocoImageId] = CocoColumnOf("image_id", Type::kI64, Codec::kZstd, false);
  columns[kCocoWidth] = CocoColumnOf("width", Type::kI64, Codec::kZstd);
  columns[kCocoHeight] = CocoColumnOf("height", Type::kI64, Codec::kZstd);
  columns[kCocoFileName] = CocoColumnOf("file_name", Type::kUtf8, Codec::kZstd, false);
  columns[kCocoAnnotationId] = CocoArrayOf("annotation_id", Type::kI64);
  columns[kCocoCategoryId] = CocoArrayOf("category_id", Type::kI64);
  columns[kCocoLabel] = CocoArrayOf("label", Type::kI64);
  if (classes) columns[kCocoLabel].metadata[kClassNames] = *classes;
  columns[kCocoBbox] = CocoArrayOf("bbox", Type::kF64);
  columns[kCocoArea] = CocoArrayOf("area", Type::kF64);
  columns[kCocoIscrowd] = CocoArrayOf("iscrowd", Type::kI64);
  columns[kCocoMasks] = CocoColumnOf("masks", Type::kRle, Codec::kZstd);
  columns[kCocoSegmentation] = CocoColumnOf("segmentation", Type::kJson, Codec::kZstd);
  columns[kCocoKeypoints] = CocoArrayOf("keypoints", Type::kF64);
  columns[kCocoNumKeypoints] = CocoArrayOf("num_keypoints", Type::kI64);
  columns[kCocoCaptions] = CocoColumnOf("captions", Type::kJson, Codec::kZstd);
  columns[kCocoCaptions].metadata[kItems] = "utf8";
  columns[kCocoSourceJson] = CocoColumnOf("source_json", Type::kJson, Codec::kZstd);
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
