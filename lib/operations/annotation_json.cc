#include "operations/annotation_json.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::operations {
namespace {

bool ReadUint32(const JsonElement& value, uint32_t* out) {
  int64_t number = 0;
  if (!ReadInteger(value, &number) || number < 0 || number > std::numeric_limits<uint32_t>::max()) return false;
  *out = static_cast<uint32_t>(number);
  return true;
}

absl::Status AppendCounts(const JsonElement& counts, std::vector<uint32_t>* runs) {
  std::string_view text;
  if (counts.Get(&text)) return RunsFromCocoText(text, runs);
  uint32_t run = 0;
  bool fits = true;
  const bool is_list = counts.ForEach([&](JsonElement count) {
    fits = ReadUint32(count, &run);
    if (fits) runs->push_back(run);
    return fits;
  });
  if (!is_list) return DataLoss("counts are neither text nor a list");
  return fits ? absl::OkStatus() : DataLoss("a count is not an integer from 0 to 2^32 - 1");
}

}  // namespace

Column AnnotationColumn(const char* name, Type type, Codec codec, bool nullable) {
  Column column;
  column.name = name;
  column.type = type;
  column.codec = codec;
  column.nullable = nullable;
  return column;
}

Column AnnotationArray(const char* name, Type dtype) {
  Column column = AnnotationColumn(name, Type::kNdarray, Codec::kZstd);
  column.dtype = dtype;
  return column;
}

bool ReadInteger(const JsonElement& value, int64_t* out) {
  if (value.Get(out)) return true;
  double number = 0;
  if (value.kind() != JsonKind::kFraction || !value.Get(&number)) return false;
  if (std::fabs(number) > 9007199254740992.0 || number != std::trunc(number)) return false;  // 2^53
  *out = static_cast<int64_t>(number);
  return true;
}

bool ReadFloats(const JsonElement& value, size_t count, std::vector<double>* out) {
  const size_t end = out->size() + count;
  bool fits = true;
  value.ForEach([&](JsonElement item) {
    double number = 0;
    fits = out->size() < end && item.Get(&number);
    if (fits) out->push_back(number);
    return fits;
  });
  return fits && out->size() == end;
}

absl::StatusOr<bool> AppendRunLengths(const JsonElement& segmentation, RleList* masks) {
  std::optional<JsonElement> size, counts;
  segmentation.ForEachMember([&](std::string_view name, JsonElement value) {
    if (name == "size") size = value;
    if (name == "counts") counts = value;
    return true;
  });
  uint32_t extent[2] = {0, 0};  // height, width
  size_t dimensions = 0;
  if (size) {
    size->ForEach([&](JsonElement dimension) {
      const bool fits = dimensions < 2 && ReadUint32(dimension, &extent[dimensions]);
      dimensions = fits ? dimensions + 1 : 0;
      return fits;
    });
  }
  if (dimensions != 2 || !counts || (counts->kind() != JsonKind::kText && counts->kind() != JsonKind::kList)) {
    return false;
  }
  SHARDKIT_RETURN_IF_ERROR(AppendCounts(*counts, &masks->runs));
  masks->heights.push_back(extent[0]);
  masks->widths.push_back(extent[1]);
  masks->run_begin.push_back(masks->runs.size());
  return true;
}

}  // namespace shardkit::operations
