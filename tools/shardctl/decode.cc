#include "decode.h"

#include <string>

#include "json.h"
#include "scalar.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardctl {
namespace {

constexpr size_t kPieceBytes = 64 << 10;

absl::Status DecodeMasks(std::string_view value, const shardkit::ByteSink& sink) {
  shardkit::RleList masks;
  if (const absl::Status status = shardkit::ParseRleValue(value, &masks); !status.ok()) return status;
  std::string text = "[";
  for (size_t i = 0; i < masks.size(); ++i) {
    std::string counts;
    shardkit::AppendCocoText(masks[i].runs, &counts);
    if (i > 0) text += ",";
    text += "\n" + FormatJson(Json{{"size", {masks[i].height, masks[i].width}}, {"counts", counts}});
    if (text.size() < kPieceBytes) continue;
    if (const absl::Status status = sink(text); !status.ok()) return status;
    text.clear();
  }
  return sink(text + (masks.size() == 0 ? "]\n" : "\n]\n"));
}

absl::Status DecodeArray(const shardkit::Column& column, std::string_view value, const shardkit::ByteSink& sink) {
  const absl::StatusOr<shardkit::NdarrayView> array = shardkit::ParseNdarray(column, value);
  if (!array.ok()) return array.status();
  const size_t size = shardkit::ScalarSize(array->dtype);
  std::string text = "{\"dtype\":" + FormatJson(shardkit::TypeName(array->dtype)) +
                     ",\"shape\":" + FormatJson(array->shape) + ",\"data\":[";
  for (size_t offset = 0; offset < array->data.size(); offset += size) {
    const std::string element = ScalarText(array->dtype, array->data.data() + offset);
    if (offset > 0) text += ',';
    text += IsJsonText(element) ? element : "\"" + element + "\"";
    if (text.size() < kPieceBytes) continue;
    if (const absl::Status status = sink(text); !status.ok()) return status;
    text.clear();
  }
  return sink(text + "]}\n");
}

}  // namespace

absl::Status DecodeValue(const shardkit::Column& column, std::string_view value, const shardkit::ByteSink& sink) {
  if (column.type == shardkit::Type::kRle) return DecodeMasks(value, sink);
  if (column.type == shardkit::Type::kNdarray) return DecodeArray(column, value, sink);
  if (shardkit::ScalarSize(column.type) > 0) return sink(ScalarText(column.type, value.data()) + "\n");
  return sink(value);
}

}  // namespace shardctl
