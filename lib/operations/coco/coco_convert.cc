#include "operations/coco/coco_convert.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"
#include "operations/annotation_json.h"
#include "operations/python_float.h"
#include "shardkit/rle.h"

namespace shardkit::operations {
namespace {

constexpr int64_t kLargestExact = int64_t{1} << 53;  // above, f64 does not hold every integer
constexpr int64_t kMostSegmentId = 0xffffff;         // of R + 256 G + 65536 B
constexpr uint64_t kMostPngPixels = uint64_t{32} << 20;
constexpr uint64_t kMostPngRuns = uint64_t{4} << 20;
constexpr size_t kBoxNumbers = 4;
constexpr size_t kPointNumbers = 3;  // of a keypoint: x, y, visibility

using Members = std::array<std::optional<JsonElement>, kCocoColumnCount>;

// As ReadFloats, without integers that f64 cannot hold.
bool ReadExactly(const JsonElement& value, size_t count, std::vector<double>* out) {
  bool exact = true;
  const bool is_list = value.ForEach([&](JsonElement item) {
    int64_t integer = 0;
    exact = item.kind() == JsonKind::kFraction || (item.Get(&integer) && std::llabs(integer) <= kLargestExact);
    return exact;
  });
  return is_list && exact && ReadFloats(value, count, out);
}

size_t Count(const JsonElement& list) {
  size_t count = 0;
  list.ForEach([&](JsonElement) {
    ++count;
    return true;
  });
  return count;
}

// False when the value is no list of lists of numbers.
bool ReadPolygons(const JsonElement& segmentation, std::vector<std::vector<double>>* polygons) {
  polygons->clear();
  bool fits = true;
  const bool is_list = segmentation.ForEach([&](JsonElement polygon) {
    fits = polygon.kind() == JsonKind::kList && ReadFloats(polygon, Count(polygon), &polygons->emplace_back());
    return fits;
  });
  return is_list && fits;
}

template <typename T>
struct Values {
  std::vector<T> values;
  bool fits = true;
};

}  // namespace

struct CocoConverter::State {
  State(const CocoIndex& from, const std::vector<Column>& to) : index(from), columns(to) {}

  const CocoIndex& index;
  const std::vector<Column>& columns;
  JsonTree tree;
  std::string bytes;
  std::vector<JsonPiece> pieces;  // the image, then its annotations

  std::optional<int64_t> image_id, width, height;
  std::string file_name;
  std::array<Values<int64_t>, kCocoColumnCount> integers;
  std::array<Values<double>, kCocoColumnCount> floats;
  std::array<Values<std::string>, kCocoColumnCount> texts;  // JSON
  std::optional<uint64_t> keypoints;                        // of each annotation, known after the first
  RleList masks;
  bool masks_fit = true;
  size_t segmented = 0;                   // annotations with a mask
  size_t count = 0;                       // annotations, or segments
  bool has_others = false;                // annotations have members without a column
  std::string image_rest, panoptic_rest;  // members without a column, without the closing brace
  std::string_view png_name;
  std::vector<std::vector<double>> polygons;
  std::string scratch;
  std::vector<uint8_t> pixels;

  // Of panoptic segmentation, where an annotation is all there is of an image.
  bool lacks_annotation() const { return index.panoptic() && pieces.size() == 1; }
  std::optional<CocoColumn> ColumnOf(std::string_view member) const {
    return index.panoptic() ? ColumnOfSegmentMember(member) : ColumnOfAnnotationMember(member);
  }

  void Clear();
  absl::StatusOr<JsonElement> Parse(const JsonPiece& piece);
  absl::Status TakeImage();
  absl::Status ForEachAnnotation(absl::FunctionRef<absl::Status(const JsonPiece&, JsonElement)> take);
  absl::Status TakeAnnotation(const JsonPiece& piece, JsonElement annotation);
  absl::Status TakePng(const CocoPng& png);
  absl::Status TakeMask(const std::optional<JsonElement>& segmentation);
  void TakeNumbers(const Members& members);
  bool Has(CocoColumn column) const;
  absl::StatusOr<std::string> Rest();
  absl::Status Emit(ByteArena* arena, std::vector<Field>* fields);
};

void CocoConverter::State::Clear() {
  for (auto& column : integers) column = {};
  for (auto& column : floats) column = {};
  for (auto& column : texts) column = {};
  image_id = width = height = std::nullopt;
  keypoints.reset();
  masks.Clear();
  masks_fit = true;
  segmented = count = 0;
  has_others = false;
  image_rest.clear();
}

absl::StatusOr<JsonElement> CocoConverter::State::Parse(const JsonPiece& piece) {
  absl::StatusOr<JsonElement> parsed = tree.Parse(piece.text);
  if (parsed.ok()) return parsed;
  return DataLoss(index.path(), ": byte ", piece.offset,
                  ": has changed since packing began: ", ToStd(parsed.status().message()));
}

absl::Status CocoConverter::State::TakeImage() {
  SHARDKIT_ASSIGN_OR_RETURN(const JsonElement image, Parse(pieces[0]));
  const auto integer = [](JsonElement value) {
    int64_t number = 0;
    return ReadInteger(value, &number) ? std::optional(number) : std::nullopt;
  };
  image.ForEachMember([&](std::string_view name, JsonElement value) {
    const std::optional<CocoColumn> column = ColumnOfImageMember(name);
    if (column == kCocoImageId) image_id = integer(value);
    if (column == kCocoWidth) width = integer(value);
    if (column == kCocoHeight) height = integer(value);
    if (std::string_view text; column == kCocoFileName && value.Get(&text)) file_name = text;
    return true;
  });
  image.ForEachMember([&](std::string_view name, JsonElement value) {
    const std::optional<CocoColumn> column = ColumnOfImageMember(name);
    const bool covered = column && !(column == kCocoWidth && !width) && !(column == kCocoHeight && !height);
    if (!covered) (void)AppendJsonMember(name, value.Format(), &image_rest);
    return true;
  });
  if (image_id) return absl::OkStatus();
  return DataLoss(index.path(), ": byte ", pieces[0].offset, ": has changed since packing began");
}

void CocoConverter::State::TakeNumbers(const Members& members) {
  for (const CocoColumn column :
       {kCocoAnnotationId, kCocoSegmentId, kCocoCategoryId, kCocoIscrowd, kCocoNumKeypoints}) {
    int64_t number = 0;
    integers[column].fits = integers[column].fits && members[column] && ReadInteger(*members[column], &number);
    integers[column].values.push_back(number);
  }
  const auto take_floats = [&](CocoColumn column, size_t count) {
    Values<double>& gathered = floats[column];
    gathered.fits = gathered.fits && members[column] && ReadExactly(*members[column], count, &gathered.values);
  };
  take_floats(kCocoBbox, kBoxNumbers);
  if (!keypoints && members[kCocoKeypoints]) keypoints = Count(*members[kCocoKeypoints]) / kPointNumbers;
  take_floats(kCocoKeypoints, keypoints.value_or(0) * kPointNumbers);
  if (keypoints.value_or(0) == 0) floats[kCocoKeypoints].fits = false;
  Values<double>& area = floats[kCocoArea];
  int64_t integer = 0;
  double number = 0;
  area.fits = area.fits && members[kCocoArea] && members[kCocoArea]->Get(&number) &&
              (members[kCocoArea]->kind() == JsonKind::kFraction ||
               (members[kCocoArea]->Get(&integer) && std::llabs(integer) <= kLargestExact));
  area.values.push_back(number);
}

absl::Status CocoConverter::State::TakeMask(const std::optional<JsonElement>& segmentation) {
  const auto side = [](const std::optional<int64_t>& length) {
    return length && *length >= 0 && *length <= UINT32_MAX ? std::optional(static_cast<uint32_t>(*length))
                                                           : std::nullopt;
  };
  const std::optional<uint32_t> rows = side(height), row_length = side(width);
  const bool none = !segmentation || segmentation->kind() == JsonKind::kNull ||
                    (segmentation->kind() == JsonKind::kList && Count(*segmentation) == 0);
  if (none) {
    // Keeps the place of the annotation.
    const uint64_t pixels = uint64_t{rows.value_or(0)} * row_length.value_or(0);
    if (pixels > kMaxMaskPixels) return DataLoss("the image has more pixels than a mask may have, ", kMaxMaskPixels);
    masks.Append(Rle{rows.value_or(0), row_length.value_or(0), {static_cast<uint32_t>(pixels)}});
    return absl::OkStatus();
  }
  ++segmented;
  const size_t before = masks.size();
  if (segmentation->kind() == JsonKind::kObject) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool taken, AppendRunLengths(*segmentation, &masks));
    if (taken) return ValidateRle(masks[before]);
  } else if (ReadPolygons(*segmentation, &polygons)) {
    if (!rows || !row_length) return DataLoss("has polygons, which need \"width\" and \"height\" of the image");
    SHARDKIT_ASSIGN_OR_RETURN(const Rle mask, RleFromPolygons(polygons, *rows, *row_length));
    masks.Append(mask);
    return absl::OkStatus();
  }
  masks_fit = false;
  masks.Append({});
  return absl::OkStatus();
}

absl::Status CocoConverter::State::ForEachAnnotation(
    absl::FunctionRef<absl::Status(const JsonPiece&, JsonElement)> take) {
  panoptic_rest.clear();
  for (const JsonPiece& piece : std::span(pieces).subspan(1)) {
    SHARDKIT_ASSIGN_OR_RETURN(const JsonElement annotation, Parse(piece));
    if (!index.panoptic()) {
      SHARDKIT_RETURN_IF_ERROR(take(piece, annotation));
      continue;
    }
    absl::Status status;
    annotation.ForEachMember([&](std::string_view name, JsonElement value) {
      if (name == kCocoSegments) {
        value.ForEach([&](JsonElement segment) { return (status = take(piece, segment)).ok(); });
      } else if (name != "image_id" && name != "file_name") {
        (void)AppendJsonMember(name, value.Format(), &panoptic_rest);
      }
      return status.ok();
    });
    SHARDKIT_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status CocoConverter::State::TakeAnnotation(const JsonPiece& piece, JsonElement annotation) {
  ++count;
  Members members;
  annotation.ForEachMember([&](std::string_view name, JsonElement value) {
    if (const auto column = ColumnOf(name)) {
      members[*column] = value;
    } else {
      has_others = true;
    }
    return true;
  });
  TakeNumbers(members);
  const auto& id = members[index.panoptic() ? kCocoSegmentId : kCocoAnnotationId];
  const auto place = [&](const absl::Status& status) {
    return DataLoss(index.path(), ": byte ", piece.offset, index.panoptic() ? ": segment" : ": annotation",
                    id ? StrCat(" ", id->Format()) : "", ": ", ToStd(status.message()));
  };
  if (index.panoptic() && (!integers[kCocoSegmentId].fits || integers[kCocoSegmentId].values.back() <= 0 ||
                           integers[kCocoSegmentId].values.back() > kMostSegmentId)) {
    return place(DataLoss("its \"id\" is none of a color, from 1 to ", kMostSegmentId));
  }
  if (index.has_categories() && members[kCocoCategoryId]) {
    const std::optional<int64_t> label = index.LabelOf(integers[kCocoCategoryId].values.back());
    if (integers[kCocoCategoryId].fits && !label) {
      return place(DataLoss("category ", integers[kCocoCategoryId].values.back(), " is none of \"categories\""));
    }
    integers[kCocoLabel].values.push_back(label.value_or(0));
  }
  for (const CocoColumn column : {kCocoSegmentation, kCocoCaptions}) {
    std::string_view text;
    texts[column].fits =
        texts[column].fits && members[column] && (column != kCocoCaptions || members[column]->Get(&text));
    if (texts[column].fits) texts[column].values.push_back(members[column]->Format());
  }
  if (!index.columns()[kCocoMasks] || index.panoptic()) return absl::OkStatus();
  const absl::Status masked = TakeMask(members[kCocoSegmentation]);
  return masked.ok() ? masked : place(masked);
}

absl::Status CocoConverter::State::TakePng(const CocoPng& png) {
  const auto refuse = [&](const auto&... what) {
    return DataLoss(index.path(), ": byte ", pieces.back().offset, ": annotation of image ", *image_id, ": ", what...);
  };
  if (pieces.size() > 2) return refuse("is a second one, and all segments of an image are in one: join them");
  const auto header = codec::kPngCodec.probe(png.bytes);
  if (!header.ok() || header->channels != 3 || header->depth != 8 || header->palette) {
    return refuse(png.path, " is no PNG of RGB with 8 bits, whose colors are the ids of segments: convert it");
  }
  const uint32_t rows = header->height, row_length = header->width;
  if (height.value_or(rows) != rows || width.value_or(row_length) != row_length) {
    return refuse(png.path, " is ", row_length, "x", rows, " pixels, and the image ", width.value_or(row_length), "x",
                  height.value_or(rows), ": make it again in this size");
  }
  const uint64_t total = uint64_t{rows} * row_length;
  absl::Status decoded = codec::CheckDecodable(ImageFormat::kPng, *header, 3 * total, 3 * kMostPngPixels);
  if (decoded.ok()) {
    pixels.resize(3 * total);
    const MutableImageView view{pixels.data(), row_length, rows, 3, size_t{3} * row_length};
    decoded = codec::kPngCodec.decode(png.bytes, *header, 0, 0, &view);
  }
  if (!decoded.ok()) return refuse(png.path, ": ", ToStd(decoded.message()));
  struct Mask {
    std::vector<uint32_t> runs;
    uint64_t end = 0;  // of the runs
  };
  const std::vector<int64_t>& ids = integers[kCocoSegmentId].values;
  std::unordered_map<int64_t, Mask> found;
  for (const int64_t id : ids) {
    if (!found.try_emplace(id).second) return refuse("segment ", id, " is there twice: give each an id of its own");
  }
  constexpr std::string_view kCorrect = ": correct the annotation or the PNG";
  int64_t id = 0;
  uint64_t begin = 0;  // of its pixels, counted down the columns
  uint64_t changes = 0;
  const auto go_on = [&](int64_t next, uint64_t at) {
    if (id != 0) {
      Mask& mask = found[id];
      mask.runs.insert(mask.runs.end(), {static_cast<uint32_t>(begin - mask.end), static_cast<uint32_t>(at - begin)});
      mask.end = at;
    }
    id = next;
    begin = at;
    return next == 0 || found.contains(next);
  };
  for (uint32_t x = 0; x < row_length; ++x) {
    const uint8_t* pixel = pixels.data() + size_t{3} * x;
    for (uint32_t y = 0; y < rows; ++y, pixel += size_t{3} * row_length) {
      const int64_t next = pixel[0] + 256 * pixel[1] + 65536 * pixel[2];
      if (next == id) continue;
      if (++changes > kMostPngRuns) return refuse(png.path, " has more than ", kMostPngRuns, " runs: divide the image");
      if (go_on(next, uint64_t{x} * rows + y)) continue;
      return refuse(png.path, " has segment ", next, " at x ", x, ", y ", y, ", which \"", kCocoSegments, "\" lacks",
                    kCorrect);
    }
  }
  go_on(0, total);
  for (const int64_t listed : ids) {
    auto& [runs, end] = found[listed];
    if (runs.empty()) return refuse("segment ", listed, " has no pixels in ", png.path, kCorrect);
    if (end < total) runs.push_back(static_cast<uint32_t>(total - end));
    masks.Append(RleView(rows, row_length, runs));
  }
  return absl::OkStatus();
}

bool CocoConverter::State::Has(CocoColumn column) const {
  if (lacks_annotation()) return false;
  switch (column) {
    case kCocoLabel:
      return integers[kCocoCategoryId].fits;
    case kCocoMasks:
      return masks_fit && (segmented > 0 || count == 0 || index.panoptic());
    case kCocoBbox:
    case kCocoArea:
    case kCocoKeypoints:
      return floats[column].fits;
    case kCocoSegmentation:
    case kCocoCaptions:
      return texts[column].fits;
    default:
      return integers[column].fits;
  }
}

// The value of source_json, empty if there is none.
absl::StatusOr<std::string> CocoConverter::State::Rest() {
  std::string rest;
  if (!image_rest.empty()) (void)AppendJsonMember("image", image_rest + "}", &rest);
  bool some = has_others;
  for (size_t column = 0; column < kCocoColumnCount; ++column) {
    some = some || (index.columns()[column] && column != kCocoLabel && column != kCocoMasks &&
                    !Has(static_cast<CocoColumn>(column)));
  }
  if (some && !lacks_annotation()) {
    std::string list;
    SHARDKIT_RETURN_IF_ERROR(ForEachAnnotation([&](const JsonPiece&, JsonElement annotation) {
      std::string members;
      annotation.ForEachMember([&](std::string_view name, JsonElement value) {
        const std::optional<CocoColumn> column = ColumnOf(name);
        if (!column || !Has(*column)) (void)AppendJsonMember(name, value.Format(), &members);
        return true;
      });
      list += StrCat(list.empty() ? "[" : ", ", members.empty() ? "{" : members, "}");
      return absl::OkStatus();
    }));
    (void)AppendJsonMember("annotations", list + "]", &rest);
  }
  if (!panoptic_rest.empty()) (void)AppendJsonMember("panoptic", panoptic_rest + "}", &rest);
  return rest.empty() ? rest : rest + "}";
}

absl::Status CocoConverter::State::Emit(ByteArena* arena, std::vector<Field>* fields) {
  const auto add = [&](CocoColumn column, std::string_view value) {
    fields->push_back({&columns[column], arena->Copy(value)});
  };
  const auto add_integer = [&](CocoColumn column, const std::optional<int64_t>& value) {
    if (value) add(column, {reinterpret_cast<const char*>(&*value), sizeof(*value)});
  };
  add_integer(kCocoImageId, image_id);
  add_integer(kCocoWidth, width);
  add_integer(kCocoHeight, height);
  add(kCocoFileName, file_name);
  if (!png_name.empty()) add(kCocoPanopticFileName, png_name);
  const auto add_array = [&](CocoColumn column, const auto& gathered,
                             std::initializer_list<uint64_t> inner = {}) -> absl::Status {
    if (!index.columns()[column] || !Has(column)) return absl::OkStatus();
    std::vector<uint64_t> shape{count};
    shape.insert(shape.end(), inner.begin(), inner.end());
    const auto bytes = std::as_bytes(std::span(gathered[column].values));
    scratch.clear();
    SHARDKIT_RETURN_IF_ERROR(AppendNdarray(columns[column].dtype, shape,
                                           {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, &scratch));
    add(column, scratch);
    return absl::OkStatus();
  };
  for (const CocoColumn column :
       {kCocoAnnotationId, kCocoSegmentId, kCocoCategoryId, kCocoLabel, kCocoIscrowd, kCocoNumKeypoints}) {
    SHARDKIT_RETURN_IF_ERROR(add_array(column, integers));
  }
  SHARDKIT_RETURN_IF_ERROR(add_array(kCocoArea, floats));
  SHARDKIT_RETURN_IF_ERROR(add_array(kCocoBbox, floats, {kBoxNumbers}));
  SHARDKIT_RETURN_IF_ERROR(add_array(kCocoKeypoints, floats, {keypoints.value_or(index.keypoints()), kPointNumbers}));
  if (index.columns()[kCocoMasks] && Has(kCocoMasks)) {
    scratch.clear();
    SHARDKIT_RETURN_IF_ERROR(AppendRleValue(masks, &scratch));
    add(kCocoMasks, scratch);
  }
  for (const CocoColumn column : {kCocoSegmentation, kCocoCaptions}) {
    if (!index.columns()[column] || !Has(column)) continue;
    scratch = "[";
    for (const std::string& text : texts[column].values) scratch += StrCat(scratch.size() > 1 ? ", " : "", text);
    add(column, scratch + "]");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string rest, Rest());
  if (!rest.empty()) add(kCocoSourceJson, rest);
  return absl::OkStatus();
}

CocoConverter::CocoConverter(const CocoIndex& index, const std::vector<Column>& columns)
    : state_(std::make_unique<State>(index, columns)) {}
CocoConverter::~CocoConverter() = default;

bool CocoConverter::lacks_masks() const { return !state_->masks_fit; }

absl::Status CocoConverter::Convert(size_t image, const CocoPng& png, ByteArena* arena, std::vector<Field>* fields) {
  State& state = *state_;
  state.Clear();
  SHARDKIT_RETURN_IF_ERROR(state.index.ReadImage(image, &state.bytes, &state.pieces));
  SHARDKIT_RETURN_IF_ERROR(state.TakeImage());
  SHARDKIT_RETURN_IF_ERROR(state.ForEachAnnotation(
      [&](const JsonPiece& piece, JsonElement annotation) { return state.TakeAnnotation(piece, annotation); }));
  state.png_name = state.index.png_name(image);
  if (!state.png_name.empty()) SHARDKIT_RETURN_IF_ERROR(state.TakePng(png));
  return state.Emit(arena, fields);
}

}  // namespace shardkit::operations
