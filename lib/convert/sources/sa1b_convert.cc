#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/content_type.h"
#include "convert/sources/sa1b.h"
#include "convert/sources/sa1b_columns.h"
#include "convert/sources/sa1b_text.h"
#include "shardkit/ndarray.h"

namespace shardkit::convert {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

// Compares the text that it receives with the source text, from front to back.
struct ComparingSink {
  std::string_view rest;
  bool Text(std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
};

// Reads an integer in any notation. Regenerates() finds out when the notation differs from the one we write.
bool ReadInteger(const element& value, int64_t* out) {
  if (value.get_int64().get(*out) == simdjson::SUCCESS) return true;
  double number = 0;
  if (value.type() != element_type::DOUBLE || value.get_double().get(number) != simdjson::SUCCESS) return false;
  if (std::fabs(number) > 9007199254740992.0 || number != std::trunc(number)) return false;  // 2^53
  *out = static_cast<int64_t>(number);
  return true;
}

bool ReadFloat(const element& value, double* out) { return value.get_double().get(*out) == simdjson::SUCCESS; }

// Appends exactly `count` numbers.
bool ReadFloats(const element& value, size_t count, std::vector<double>* out) {
  simdjson::dom::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS || array.size() != count) return false;
  for (const element item : array) {
    double number = 0;
    if (!ReadFloat(item, &number)) return false;
    out->push_back(number);
  }
  return true;
}

bool ReadUint32(const element& value, uint32_t* out) {
  int64_t number = 0;
  if (!ReadInteger(value, &number) || number < 0 || number > std::numeric_limits<uint32_t>::max()) return false;
  *out = static_cast<uint32_t>(number);
  return true;
}

// The members of one annotation. When a member is repeated the last one counts, as in Python.
struct Members {
  std::optional<element> bbox, area, segmentation, predicted_iou, point_coords, crop_box, id, stability_score;

  // An annotation that is not an object has no members, so every column lacks this row.
  explicit Members(const element& annotation) {
    simdjson::dom::object object;
    if (annotation.get_object().get(object)) return;
    for (const auto field : object) {
      if (std::optional<element>* const member = Find(field.key)) *member = field.value;
    }
  }

  std::optional<element>* Find(std::string_view name) {
    if (name == "bbox") return &bbox;
    if (name == "area") return &area;
    if (name == "segmentation") return &segmentation;
    if (name == "predicted_iou") return &predicted_iou;
    if (name == "point_coords") return &point_coords;
    if (name == "crop_box") return &crop_box;
    if (name == "id") return &id;
    if (name == "stability_score") return &stability_score;
    return nullptr;
  }
};

// A column with one row per annotation. `fits` is false when a row did not fit.
template <typename T>
struct Gathered {
  std::vector<T> values;
  bool fits = true;

  void Clear() {
    values.clear();
    fits = true;
  }
  const char* data() const { return reinterpret_cast<const char*>(values.data()); }
};

std::string_view Copy(ByteArena* arena, int64_t value) {
  return arena->Copy({reinterpret_cast<const char*>(&value), sizeof(value)});
}

}  // namespace

struct Sa1bConverter::State {
  simdjson::dom::parser parser;
  std::vector<char> padded;  // the text, with the padding that the parser reads
  std::string scratch;

  std::optional<int64_t> image_id, width, height;
  std::optional<std::string_view> file_name;
  RleList masks;
  bool masks_fit = true;
  size_t annotations = 0;
  Gathered<int64_t> annotation_id, area;
  Gathered<double> bbox, predicted_iou, stability_score, crop_box, point_coords;
  std::optional<uint64_t> points;  // points per annotation, known after the first annotation

  void Clear();
  absl::Status Parse(std::string_view json);
  void TakeImage(const simdjson::dom::object& object);
  absl::Status TakeAnnotation(const element& annotation);
  absl::Status TakeMask(const std::optional<element>& segmentation);
  absl::Status TakeCounts(const element& counts);
  void TakePoints(const std::optional<element>& points);
  static absl::Status MaskError(size_t annotation, const absl::Status& status);
  absl::Status CheckMasks() const;
  bool Regenerates(std::string_view json);
  absl::Status Emit(std::string_view json, ByteArena* arena, std::vector<Field>* fields);
  absl::Status EmitArray(Sa1bColumn column, std::span<const uint64_t> shape, std::string_view data, ByteArena* arena,
                         std::vector<Field>* fields);
};

void Sa1bConverter::State::Clear() {
  image_id.reset();
  width.reset();
  height.reset();
  file_name.reset();
  masks.Clear();
  masks_fit = true;
  annotations = 0;
  annotation_id.Clear();
  area.Clear();
  for (auto* column : {&bbox, &predicted_iou, &stability_score, &crop_box, &point_coords}) column->Clear();
  points.reset();
}

absl::Status Sa1bConverter::State::Parse(std::string_view json) {
  padded.resize(json.size() + simdjson::SIMDJSON_PADDING);
  if (!json.empty()) std::memcpy(padded.data(), json.data(), json.size());
  std::memset(padded.data() + json.size(), ' ', simdjson::SIMDJSON_PADDING);

  element document;
  if (const auto error = parser.parse(padded.data(), json.size(), /*realloc_if_needed=*/false).get(document)) {
    // The parser also refuses what JSON allows, such as numbers that no type of it holds.
    const std::string why = codec::DescribeInvalidJson(json);
    return DataLoss("invalid JSON: ", why.empty() ? simdjson::error_message(error) : why.c_str());
  }
  simdjson::dom::object root;
  if (document.get_object().get(root)) return DataLoss("not an SA-1B annotation file: the JSON is not an object");
  std::optional<element> image, annotation_list;
  for (const auto field : root) {
    if (field.key == "image") image = field.value;
    if (field.key == "annotations") annotation_list = field.value;
  }
  simdjson::dom::object image_object;
  if (!image || image->get_object().get(image_object)) {
    return DataLoss("not an SA-1B annotation file: no \"image\" object");
  }
  simdjson::dom::array list;
  if (!annotation_list || annotation_list->get_array().get(list)) {
    return DataLoss("not an SA-1B annotation file: no \"annotations\" list");
  }
  TakeImage(image_object);
  for (const element annotation : list) {
    SHARDKIT_RETURN_IF_ERROR(TakeAnnotation(annotation));
    ++annotations;
  }
  return absl::OkStatus();
}

void Sa1bConverter::State::TakeImage(const simdjson::dom::object& object) {
  const auto take = [](const element& value, std::optional<int64_t>* out) {
    int64_t number = 0;
    *out = ReadInteger(value, &number) ? std::optional(number) : std::nullopt;
  };
  for (const auto field : object) {
    if (field.key == "image_id") take(field.value, &image_id);
    if (field.key == "width") take(field.value, &width);
    if (field.key == "height") take(field.value, &height);
    if (field.key == "file_name") {
      std::string_view text;
      file_name = field.value.get_string().get(text) ? std::nullopt : std::optional(text);
    }
  }
}

absl::Status Sa1bConverter::State::TakeAnnotation(const element& annotation) {
  const Members members(annotation);
  const auto take_integer = [](const std::optional<element>& value, Gathered<int64_t>* column) {
    int64_t number = 0;
    column->fits = column->fits && value && ReadInteger(*value, &number);
    column->values.push_back(number);
  };
  const auto take_float = [](const std::optional<element>& value, Gathered<double>* column) {
    double number = 0;
    column->fits = column->fits && value && ReadFloat(*value, &number);
    column->values.push_back(number);
  };
  take_integer(members.id, &annotation_id);
  take_integer(members.area, &area);
  take_float(members.predicted_iou, &predicted_iou);
  take_float(members.stability_score, &stability_score);
  bbox.fits = bbox.fits && members.bbox && ReadFloats(*members.bbox, 4, &bbox.values);
  crop_box.fits = crop_box.fits && members.crop_box && ReadFloats(*members.crop_box, 4, &crop_box.values);
  TakePoints(members.point_coords);
  return TakeMask(members.segmentation);
}

void Sa1bConverter::State::TakePoints(const std::optional<element>& value) {
  simdjson::dom::array array;
  if (!value || value->get_array().get(array)) {
    point_coords.fits = false;
    return;
  }
  uint64_t count = 0;
  for (const element point : array) {
    if (!point_coords.fits) return;
    point_coords.fits = ReadFloats(point, 2, &point_coords.values);
    ++count;
  }
  if (!points) points = count;
  point_coords.fits = point_coords.fits && *points == count;
}

absl::Status Sa1bConverter::State::MaskError(size_t annotation, const absl::Status& status) {
  return DataLoss("annotation ", annotation, ": ", ToStd(status.message()));
}

absl::Status Sa1bConverter::State::TakeMask(const std::optional<element>& segmentation) {
  simdjson::dom::object object;
  std::optional<element> size, counts;
  if (segmentation && !segmentation->get_object().get(object)) {
    for (const auto field : object) {
      if (field.key == "size") size = field.value;
      if (field.key == "counts") counts = field.value;
    }
  }
  simdjson::dom::array dimensions;
  uint32_t extent[2] = {0, 0};  // height, width
  if (!size || size->get_array().get(dimensions) || dimensions.size() != 2 ||
      !ReadUint32(dimensions.at(0).value_unsafe(), &extent[0]) ||
      !ReadUint32(dimensions.at(1).value_unsafe(), &extent[1]) || !counts ||
      !(counts->is_string() || counts->is_array())) {
    masks_fit = false;
    masks.Append({});  // keeps the place of the annotation
    return absl::OkStatus();
  }
  if (absl::Status status = TakeCounts(*counts); !status.ok()) return MaskError(annotations, status);
  masks.heights.push_back(extent[0]);
  masks.widths.push_back(extent[1]);
  masks.run_begin.push_back(masks.runs.size());
  return absl::OkStatus();
}

absl::Status Sa1bConverter::State::CheckMasks() const {
  for (size_t i = 0; i < masks.size(); ++i) {
    if (absl::Status status = ValidateRle(masks[i]); !status.ok()) return MaskError(i, status);
  }
  return absl::OkStatus();
}

absl::Status Sa1bConverter::State::TakeCounts(const element& counts) {
  std::string_view text;
  if (!counts.get_string().get(text)) return RunsFromCocoText(text, &masks.runs);
  simdjson::dom::array array;
  if (counts.get_array().get(array)) return DataLoss("counts are neither text nor a list");
  for (const element count : array) {
    uint32_t run = 0;
    if (!ReadUint32(count, &run)) return DataLoss("a count is not an integer from 0 to 2^32 - 1");
    masks.runs.push_back(run);
  }
  return absl::OkStatus();
}

bool Sa1bConverter::State::Regenerates(std::string_view json) {
  if (!image_id || !width || !height || !file_name || !masks_fit) return false;
  if (!annotation_id.fits || !area.fits || !bbox.fits || !predicted_iou.fits || !stability_score.fits ||
      !crop_box.fits || !point_coords.fits) {
    return false;
  }
  Sa1bTable table;
  table.image_id = *image_id;
  table.width = *width;
  table.height = *height;
  table.file_name = *file_name;
  table.masks = &masks;
  table.annotation_id = annotation_id.data();
  table.area = area.data();
  table.bbox = bbox.data();
  table.predicted_iou = predicted_iou.data();
  table.stability_score = stability_score.data();
  table.crop_box = crop_box.data();
  table.point_coords = point_coords.data();
  table.points = points.value_or(0);
  ComparingSink sink{json};
  return Sa1bTextWriter(table, sink, scratch).Write() && sink.rest.empty();
}

absl::Status Sa1bConverter::State::EmitArray(Sa1bColumn column, std::span<const uint64_t> shape, std::string_view data,
                                             ByteArena* arena, std::vector<Field>* fields) {
  scratch.clear();
  SHARDKIT_RETURN_IF_ERROR(AppendNdarray(Sa1bColumns()[column].dtype, shape, data, &scratch));
  fields->push_back({&Sa1bColumns()[column], arena->Copy(scratch)});
  return absl::OkStatus();
}

absl::Status Sa1bConverter::State::Emit(std::string_view json, ByteArena* arena, std::vector<Field>* fields) {
  const std::vector<Column>& columns = Sa1bColumns();
  const bool regenerates = Regenerates(json);
  if (image_id) fields->push_back({&columns[kSa1bImageId], Copy(arena, *image_id)});
  if (width) fields->push_back({&columns[kSa1bWidth], Copy(arena, *width)});
  if (height) fields->push_back({&columns[kSa1bHeight], Copy(arena, *height)});
  if (file_name) fields->push_back({&columns[kSa1bFileName], arena->Copy(*file_name)});
  if (masks_fit) {
    scratch.clear();
    if (absl::Status status = AppendRleValue(masks, &scratch); !status.ok()) {
      SHARDKIT_RETURN_IF_ERROR(CheckMasks());  // names the annotation
      return status;
    }
    fields->push_back({&columns[kSa1bMasks], arena->Copy(scratch)});
  } else {
    SHARDKIT_RETURN_IF_ERROR(CheckMasks());
  }
  const uint64_t n = annotations;
  const auto emit = [&](Sa1bColumn column, const auto& gathered, std::initializer_list<uint64_t> inner) {
    if (!gathered.fits) return absl::OkStatus();
    std::vector<uint64_t> shape{n};
    shape.insert(shape.end(), inner.begin(), inner.end());
    const std::string_view data(gathered.data(), gathered.values.size() * sizeof(gathered.values[0]));
    return EmitArray(column, shape, data, arena, fields);
  };
  SHARDKIT_RETURN_IF_ERROR(emit(kSa1bAnnotationId, annotation_id, {}));
  SHARDKIT_RETURN_IF_ERROR(emit(kSa1bArea, area, {}));
  SHARDKIT_RETURN_IF_ERROR(emit(kSa1bBbox, bbox, {4}));
  SHARDKIT_RETURN_IF_ERROR(emit(kSa1bPredictedIou, predicted_iou, {}));
  SHARDKIT_RETURN_IF_ERROR(emit(kSa1bStabilityScore, stability_score, {}));
  SHARDKIT_RETURN_IF_ERROR(emit(kSa1bCropBox, crop_box, {4}));
  SHARDKIT_RETURN_IF_ERROR(emit(kSa1bPointCoords, point_coords, {points.value_or(0), 2}));
  if (!regenerates) fields->push_back({&columns[kSa1bSourceJson], arena->Copy(json)});
  return absl::OkStatus();
}

Sa1bConverter::Sa1bConverter() : state_(std::make_unique<State>()) {}
Sa1bConverter::~Sa1bConverter() = default;

absl::Status Sa1bConverter::Convert(std::string_view json, ByteArena* arena, std::vector<Field>* fields) {
  state_->Clear();
  SHARDKIT_RETURN_IF_ERROR(state_->Parse(json));
  return state_->Emit(json, arena, fields);
}

}  // namespace shardkit::convert
