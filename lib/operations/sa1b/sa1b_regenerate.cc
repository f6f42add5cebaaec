#include <cstring>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "operations/sa1b/sa1b.h"
#include "operations/sa1b/sa1b_columns.h"
#include "operations/sa1b/sa1b_text.h"
#include "shardkit/schema.h"

namespace shardkit::operations {
namespace {

struct StringSink {
  std::string* out;
  bool Text(std::string_view text) {
    out->append(text);
    return true;
  }
};

absl::Status CheckPresent(Sa1bColumn column, std::string_view value) {
  if (value.data() != nullptr) return absl::OkStatus();
  return DataLoss("column '", Sa1bColumns()[column].name,
                  "' is absent, and so is source_json: the annotation "
                  "file cannot be regenerated");
}

absl::Status ReadInteger(Sa1bColumn column, std::string_view value, int64_t* out) {
  SHARDKIT_RETURN_IF_ERROR(CheckPresent(column, value));
  if (value.size() != sizeof(*out)) {
    return DataLoss("column '", Sa1bColumns()[column].name, "' has ", value.size(), " bytes instead of 8");
  }
  *out = LoadLittle<int64_t>(value.data());
  return absl::OkStatus();
}

// Expects `rank` dimensions. The first is the number of masks. When rank > 1 the last is `row`.
absl::Status ReadArray(Sa1bColumn column, std::string_view value, size_t masks, size_t rank, uint64_t row,
                       const char** data, uint64_t* middle = nullptr) {
  SHARDKIT_RETURN_IF_ERROR(CheckPresent(column, value));
  const std::string& name = Sa1bColumns()[column].name;
  auto array = ParseNdarray(Sa1bColumns()[column], value);
  if (!array.ok()) return Annotate(array.status(), StrCat("column '", name, "'"));
  if (array->shape.size() != rank || array->shape[0] != masks || (rank > 1 && array->shape.back() != row)) {
    return DataLoss("column '", name, "' does not have the shape of ", masks, " annotations");
  }
  *data = array->data.data();
  if (middle != nullptr) *middle = array->shape[1];
  return absl::OkStatus();
}

}  // namespace

absl::Status RegenerateSa1bJson(const Sa1bValues& values, std::string* json) {
  if (values.source_json.data() != nullptr) {
    json->assign(values.source_json);
    return absl::OkStatus();
  }
  Sa1bTable table;
  SHARDKIT_RETURN_IF_ERROR(ReadInteger(kSa1bImageId, values.image_id, &table.image_id));
  SHARDKIT_RETURN_IF_ERROR(ReadInteger(kSa1bWidth, values.width, &table.width));
  SHARDKIT_RETURN_IF_ERROR(ReadInteger(kSa1bHeight, values.height, &table.height));
  SHARDKIT_RETURN_IF_ERROR(CheckPresent(kSa1bFileName, values.file_name));
  table.file_name = values.file_name;
  SHARDKIT_RETURN_IF_ERROR(CheckPresent(kSa1bMasks, values.masks));
  RleList masks;
  if (absl::Status status = ParseRleValue(values.masks, &masks); !status.ok()) {
    return Annotate(status, "column 'masks'");
  }
  table.masks = &masks;
  const size_t n = masks.size();
  SHARDKIT_RETURN_IF_ERROR(ReadArray(kSa1bAnnotationId, values.annotation_id, n, 1, 0, &table.annotation_id));
  SHARDKIT_RETURN_IF_ERROR(ReadArray(kSa1bArea, values.area, n, 1, 0, &table.area));
  SHARDKIT_RETURN_IF_ERROR(ReadArray(kSa1bBbox, values.bbox, n, 2, 4, &table.bbox));
  SHARDKIT_RETURN_IF_ERROR(ReadArray(kSa1bPredictedIou, values.predicted_iou, n, 1, 0, &table.predicted_iou));
  SHARDKIT_RETURN_IF_ERROR(ReadArray(kSa1bStabilityScore, values.stability_score, n, 1, 0, &table.stability_score));
  SHARDKIT_RETURN_IF_ERROR(ReadArray(kSa1bCropBox, values.crop_box, n, 2, 4, &table.crop_box));
  SHARDKIT_RETURN_IF_ERROR(
      ReadArray(kSa1bPointCoords, values.point_coords, n, 3, 2, &table.point_coords, &table.points));

  json->clear();
  StringSink sink{json};
  std::string scratch;
  if (!Sa1bTextWriter(table, sink, scratch).Write()) return DataLoss("column 'file_name' is not valid UTF-8");
  return absl::OkStatus();
}

}  // namespace shardkit::operations
