// Writes the text of an SA-1B annotation file, piece by piece, from its columns. Regenerating a file and comparing it
// while packing use the same code, so that both always agree.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/endian.h"
#include "operations/python_float.h"
#include "shardkit/rle.h"

namespace shardkit::operations {

// The columns of one file, borrowed. Arrays are little-endian, at any alignment, one row per mask.
struct Sa1bTable {
  int64_t image_id = 0;
  int64_t width = 0;
  int64_t height = 0;
  std::string_view file_name;  // UTF-8
  const RleList* masks = nullptr;
  const char* annotation_id = nullptr;    // i64
  const char* area = nullptr;             // i64
  const char* bbox = nullptr;             // f64 × 4
  const char* predicted_iou = nullptr;    // f64
  const char* stability_score = nullptr;  // f64
  const char* crop_box = nullptr;         // f64 × 4
  const char* point_coords = nullptr;     // f64 × points × 2
  uint64_t points = 0;                    // per mask
};

// Sink: bool Text(std::string_view), which returns false to stop. `scratch` is memory to use.
template <typename Sink>
class Sa1bTextWriter {
 public:
  Sa1bTextWriter(const Sa1bTable& table, Sink& sink, std::string& scratch)
      : table_(table), sink_(sink), scratch_(scratch) {}

  // False when the sink stopped or file_name is not UTF-8. The members have the order of the published files.
  bool Write() {
    if (!(sink_.Text(R"({"image": {"image_id": )") && Integer(table_.image_id) && sink_.Text(R"(, "width": )") &&
          Integer(table_.width) && sink_.Text(R"(, "height": )") && Integer(table_.height) &&
          sink_.Text(R"(, "file_name": )") && FileName() && sink_.Text(R"(}, "annotations": [)"))) {
      return false;
    }
    for (size_t i = 0; i < table_.masks->size(); ++i) {
      if (!sink_.Text(i == 0 ? "{" : ", {") || !Annotation(i)) return false;
    }
    return sink_.Text("]}");
  }

 private:
  bool Annotation(size_t i) {
    const RleView mask = (*table_.masks)[i];
    return sink_.Text(R"("bbox": [)") && Floats(table_.bbox, i * 4, 4) && sink_.Text(R"(], "area": )") &&
           Integer(LoadLittle<int64_t>(table_.area + i * 8)) && sink_.Text(R"(, "segmentation": {"size": [)") &&
           Integer(mask.height) && sink_.Text(", ") && Integer(mask.width) && sink_.Text(R"(], "counts": ")") &&
           Counts(mask.runs) && sink_.Text(R"("}, "predicted_iou": )") && Floats(table_.predicted_iou, i, 1) &&
           sink_.Text(R"(, "point_coords": [)") && Points(i) && sink_.Text(R"(], "crop_box": [)") &&
           Floats(table_.crop_box, i * 4, 4) && sink_.Text(R"(], "id": )") &&
           Integer(LoadLittle<int64_t>(table_.annotation_id + i * 8)) && sink_.Text(R"(, "stability_score": )") &&
           Floats(table_.stability_score, i, 1) && sink_.Text("}");
  }

  bool Points(size_t i) {
    for (uint64_t point = 0; point < table_.points; ++point) {
      if (!sink_.Text(point == 0 ? "[" : ", [")) return false;
      if (!Floats(table_.point_coords, (i * table_.points + point) * 2, 2) || !sink_.Text("]")) return false;
    }
    return true;
  }

  bool Integer(int64_t value) {
    char text[24];
    const char* const end = std::to_chars(text, text + sizeof(text), value).ptr;
    return sink_.Text({text, static_cast<size_t>(end - text)});
  }

  // At most four, separated by commas.
  bool Floats(const char* array, size_t first, size_t count) {
    char text[4 * (kMaxPythonFloatBytes + 2)];
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) {
        text[length++] = ',';
        text[length++] = ' ';
      }
      length += FormatPythonFloat(LoadLittle<double>(array + (first + i) * 8), text + length);
    }
    return sink_.Text({text, length});
  }

  // Compressed counts have the characters '0' to 'o'. JSON escapes one of them, the backslash.
  bool Counts(std::span<const uint32_t> runs) {
    scratch_.clear();
    AppendCocoText(runs, &scratch_);
    std::string_view text = scratch_;
    while (true) {
      const size_t backslash = text.find('\\');
      if (backslash == std::string_view::npos) return sink_.Text(text);
      if (!sink_.Text(text.substr(0, backslash)) || !sink_.Text(R"(\\)")) return false;
      text.remove_prefix(backslash + 1);
    }
  }

  bool FileName() {
    scratch_.clear();
    return AppendPythonJsonString(table_.file_name, &scratch_) && sink_.Text(scratch_);
  }

  const Sa1bTable& table_;
  Sink& sink_;
  std::string& scratch_;
};

}  // namespace shardkit::operations
