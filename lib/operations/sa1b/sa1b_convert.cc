#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "codec/content_type.h"
#include "operations/annotation_json.h"
#include "operations/sa1b/sa1b.h"
#include "operations/sa1b/sa1b_columns.h"
#include "operations/sa1b/sa1b_text.h"
#include "shardkit/schema.h"

namespace shardkit::operations {
namespace {

// Compares the text that it receives with the source text, from front to back.
struct ComparingSink {
  std::string_view rest;
  bool Text(std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
};

// The members of one annotation. When a member is repeated the last one counts, as in Python.
struct Members {
  std::optional<JsonElement> bbox, area, segmentation, predicted_iou, point_coords, crop_box, id, stability_score;

  // An annotation that is not an object has no members, so every column lacks this row.
  explicit Members(JsonElement annotation) {
    annotation.ForEachMember([this](std::string_view name, JsonElement value) {
      if (std::optional<JsonElement>* const member = Find(name)) *member = value;
      return true;
    });
  }

  std::optional<JsonElement>* Find(std::string_view name) {
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
  JsonTree tree;
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
  void TakeImage(JsonElement object);
  absl::Status TakeAnnotation(JsonElement annotation);
  absl::Status TakeMask(const std::optional<JsonElement>& segmentation);
  void TakePoints(const std::optional<JsonElement>& points);
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
  const absl::StatusOr<JsonElement> document = tree.Parse(json);
  if (!document.ok()) {
    // The parser also refuses what JSON allows, such as numbers that no type of it holds.
    const std::string why = codec::DescribeInvalidJson(json);
    return DataLoss("invalid JSON: ", why.empty() ? ToStd(document.status().message()) : why);
  }
  std::optional<JsonElement> image, list;
  const bool is_object = document->ForEachMember([&](std::string_view name, JsonElement value) {
    if (name == "image") image = value;
    if (name == "annotations") list = value;
    return true;
  });
  if (!is_object) return DataLoss("not an SA-1B annotation file: the JSON is not an object");
  if (!image || image->kind() != JsonKind::kObject) {
    return DataLoss("not an SA-1B annotation file: no \"image\" object");
  }
  if (!list || list->kind() != JsonKind::kList) {
    return DataLoss("not an SA-1B annotation file: no \"annotations\" list");
  }
  TakeImage(*image);
  absl::Status status;
  list->ForEach([&](JsonElement annotation) {
    status = TakeAnnotation(annotation);
    if (status.ok()) ++annotations;
    return status.ok();
  });
  return status;
}

void Sa1bConverter::State::TakeImage(JsonElement object) {
  const auto take = [](JsonElement value, std::optional<int64_t>* out) {
    int64_t number = 0;
    *out = ReadInteger(value, &number) ? std::optional(number) : std::nullopt;
  };
  object.ForEachMember([&](std::string_view name, JsonElement value) {
    if (name == "image_id") take(value, &image_id);
    if (name == "width") take(value, &width);
    if (name == "height") take(value, &height);
    if (std::string_view text; name == "file_name") file_name = value.Get(&text) ? std::optional(text) : std::nullopt;
    return true;
  });
}

absl::Status Sa1bConverter::State::TakeAnnotation(JsonElement annotation) {
  const Members members(annotation);
  const auto take_integer = [](const std::optional<JsonElement>& value, Gathered<int64_t>* column) {
    int64_t number = 0;
    column->fits = column->fits && value && ReadInteger(*value, &number);
    column->values.push_back(number);
  };
  const auto take_float = [](const std::optional<JsonElement>& value, Gathered<double>* column) {
    double number = 0;
    column->fits = column->fits && value && value->Get(&number);
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

void Sa1bConverter::State::TakePoints(const std::optional<JsonElement>& value) {
  uint64_t count = 0;
  const bool is_list = value && value->ForEach([&](JsonElement point) {
    point_coords.fits = point_coords.fits && ReadFloats(point, 2, &point_coords.values);
    ++count;
    return point_coords.fits;
  });
  if (!points && is_list) points = count;
  point_coords.fits = point_coords.fits && is_list && *points == count;
}

absl::Status Sa1bConverter::State::MaskError(size_t annotation, const absl::Status& status) {
  return DataLoss("annotation ", annotation, ": ", ToStd(status.message()));
}

absl::Status Sa1bConverter::State::TakeMask(const std::optional<JsonElement>& segmentation) {
  const absl::StatusOr<bool> taken = segmentation ? AppendRunLengths(*segmentation, &masks) : false;
  if (!taken.ok()) return MaskError(annotations, taken.status());
  if (*taken) return absl::OkStatus();
  masks_fit = false;
  masks.Append({});  // keeps the place of the annotation
  return absl::OkStatus();
}

absl::Status Sa1bConverter::State::CheckMasks() const {
  for (size_t i = 0; i < masks.size(); ++i) {
    if (absl::Status status = ValidateRle(masks[i]); !status.ok()) return MaskError(i, status);
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

}  // namespace shardkit::operations
