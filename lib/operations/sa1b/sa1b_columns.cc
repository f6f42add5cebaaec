#include <utility>

#include "operations/annotation_json.h"
#include "operations/sa1b/sa1b.h"
#include "operations/sa1b/sa1b_columns.h"

namespace shardkit::operations {
namespace {

std::vector<Column> MakeColumns() {
  std::vector<Column> columns(kSa1bColumnCount);
  columns[kSa1bKey] = AnnotationColumn("key", Type::kUtf8, Codec::kZstd, false);
  columns[kSa1bKey].is_key = true;
  columns[kSa1bImage] = AnnotationColumn("image", Type::kJpeg, Codec::kNone, false);
  columns[kSa1bImageId] = AnnotationColumn("image_id", Type::kI64, Codec::kZstd);
  columns[kSa1bWidth] = AnnotationColumn("width", Type::kI64, Codec::kZstd);
  columns[kSa1bHeight] = AnnotationColumn("height", Type::kI64, Codec::kZstd);
  columns[kSa1bFileName] = AnnotationColumn("file_name", Type::kUtf8, Codec::kZstd);
  columns[kSa1bMasks] = AnnotationColumn("masks", Type::kRle, Codec::kZstd);
  columns[kSa1bAnnotationId] = AnnotationArray("annotation_id", Type::kI64);
  columns[kSa1bArea] = AnnotationArray("area", Type::kI64);
  columns[kSa1bBbox] = AnnotationArray("bbox", Type::kF64);
  columns[kSa1bPredictedIou] = AnnotationArray("predicted_iou", Type::kF64);
  columns[kSa1bStabilityScore] = AnnotationArray("stability_score", Type::kF64);
  columns[kSa1bCropBox] = AnnotationArray("crop_box", Type::kF64);
  columns[kSa1bPointCoords] = AnnotationArray("point_coords", Type::kF64);
  columns[kSa1bSourceJson] = AnnotationColumn("source_json", Type::kJson, Codec::kZstd);
  return columns;
}

}  // namespace

const std::vector<Column>& Sa1bColumns() {
  static const auto* const columns = new std::vector<Column>(MakeColumns());
  return *columns;
}

Sa1bValues Sa1bValuesOf(const BlockView& block, const Sa1bPositions& positions, uint32_t i) {
  const auto value = [&](Sa1bColumn column) {
    return block.column(positions[column]).value(i).value_or(std::string_view());
  };
  return {.image_id = value(kSa1bImageId),
          .width = value(kSa1bWidth),
          .height = value(kSa1bHeight),
          .file_name = value(kSa1bFileName),
          .masks = value(kSa1bMasks),
          .annotation_id = value(kSa1bAnnotationId),
          .area = value(kSa1bArea),
          .bbox = value(kSa1bBbox),
          .predicted_iou = value(kSa1bPredictedIou),
          .stability_score = value(kSa1bStabilityScore),
          .crop_box = value(kSa1bCropBox),
          .point_coords = value(kSa1bPointCoords),
          .source_json = value(kSa1bSourceJson)};
}

}  // namespace shardkit::operations
