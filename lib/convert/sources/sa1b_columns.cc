#include <utility>

#include "convert/sources/sa1b_columns.h"
#include "shardkit/sa1b.h"

namespace shardkit {
namespace {

Column Make(const char* name, Type type, Codec codec, bool nullable = true) {
  Column column;
  column.name = name;
  column.type = type;
  column.codec = codec;
  column.nullable = nullable;
  return column;
}

Column Array(const char* name, Type dtype) {
  Column column = Make(name, Type::kNdarray, Codec::kZstd);
  column.dtype = dtype;
  return column;
}

std::vector<Column> MakeColumns() {
  std::vector<Column> columns(convert::kSa1bColumnCount);
  columns[convert::kSa1bKey] = Make("key", Type::kUtf8, Codec::kZstd, false);
  columns[convert::kSa1bKey].is_key = true;
  columns[convert::kSa1bImage] = Make("image", Type::kJpeg, Codec::kNone, false);
  columns[convert::kSa1bImageId] = Make("image_id", Type::kI64, Codec::kZstd);
  columns[convert::kSa1bWidth] = Make("width", Type::kI64, Codec::kZstd);
  columns[convert::kSa1bHeight] = Make("height", Type::kI64, Codec::kZstd);
  columns[convert::kSa1bFileName] = Make("file_name", Type::kUtf8, Codec::kZstd);
  columns[convert::kSa1bMasks] = Make("masks", Type::kRle, Codec::kZstd);
  columns[convert::kSa1bAnnotationId] = Array("annotation_id", Type::kI64);
  columns[convert::kSa1bArea] = Array("area", Type::kI64);
  columns[convert::kSa1bBbox] = Array("bbox", Type::kF64);
  columns[convert::kSa1bPredictedIou] = Array("predicted_iou", Type::kF64);
  columns[convert::kSa1bStabilityScore] = Array("stability_score", Type::kF64);
  columns[convert::kSa1bCropBox] = Array("crop_box", Type::kF64);
  columns[convert::kSa1bPointCoords] = Array("point_coords", Type::kF64);
  columns[convert::kSa1bSourceJson] = Make("source_json", Type::kJson, Codec::kZstd);
  return columns;
}

}  // namespace

const std::vector<Column>& Sa1bColumns() {
  static const auto* const columns = new std::vector<Column>(MakeColumns());
  return *columns;
}

Sa1bValues convert::Sa1bValuesOf(const BlockView& block, const convert::Sa1bPositions& positions, uint32_t i) {
  const auto value = [&](convert::Sa1bColumn column) {
    return block.column(positions[column]).value(i).value_or(std::string_view());
  };
  return {.image_id = value(convert::kSa1bImageId),
          .width = value(convert::kSa1bWidth),
          .height = value(convert::kSa1bHeight),
          .file_name = value(convert::kSa1bFileName),
          .masks = value(convert::kSa1bMasks),
          .annotation_id = value(convert::kSa1bAnnotationId),
          .area = value(convert::kSa1bArea),
          .bbox = value(convert::kSa1bBbox),
          .predicted_iou = value(convert::kSa1bPredictedIou),
          .stability_score = value(convert::kSa1bStabilityScore),
          .crop_box = value(convert::kSa1bCropBox),
          .point_coords = value(convert::kSa1bPointCoords),
          .source_json = value(convert::kSa1bSourceJson)};
}

}  // namespace shardkit
