#include "synth/sa1b.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"

namespace shardctl {
namespace {

// Each part of a pair has its own stream of random numbers, so that a change in one part leaves the others as they are.
enum Stream : uint64_t { kSizeStream = 'S', kShapeStream = 'O', kPaintStream = 'P', kAnnotationStream = 'A' };

// Percent of the objects whose radius lies in [base, 2 base), [2 base, 4 base), ...: many small, a few large.
constexpr std::array<int, 8> kRadiusShares = {5, 13, 20, 22, 20, 12, 6, 2};

// Published masks are seldom smaller than this many pixels (they were filtered).
constexpr uint64_t kSmallestArea = 100;

// As Python writes it: the shortest text that is read as this value, with a point. Values are 0 to 16384.
void AppendFloat(double value, std::string* json) {
  char text[32];
  const char* const end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed).ptr;
  json->append(text, static_cast<size_t>(end - text));
  if (std::find<const char*>(text, end, '.') == end) json->append(".0");
}

void AppendBox(double x, double y, double width, double height, std::string* json) {
  json->push_back('[');
  AppendFloat(x, json);
  json->append(", ");
  AppendFloat(y, json);
  json->append(", ");
  AppendFloat(width, json);
  json->append(", ");
  AppendFloat(height, json);
  json->push_back(']');
}

// A value that a 32-bit float can hold, `low` to `high` in 1/4096. The larger of two draws, because most published
// scores are near the top.
double Score(int64_t low, int64_t high, SynthRandom& random) {
  const int64_t first = random.Between(low << 12, high << 12);
  const int64_t second = random.Between(low << 12, high << 12);
  int64_t score = std::max(first, second);
  if (score > 1 << 24) score &= ~int64_t{1};  // a float's step doubles at 1
  return std::ldexp(static_cast<double>(score), -24);
}

}  // namespace

absl::Status SynthPairMaker::Make(uint64_t id, std::string* jpeg, std::string* json) {
  SynthRandom size_random(options_.seed, kSizeStream, id);
  SynthRandom shape_random(options_.seed, kShapeStream, id);
  SynthRandom paint_random(options_.seed, kPaintStream, id);
  SynthRandom annotation_random(options_.seed, kAnnotationStream, id);
  ChooseSize(size_random);
  PlaceObjects(shape_random);
  Paint(paint_random);
  WriteJson(id, annotation_random, json);
  shardkit::JpegEncodeOptions encode;
  encode.quality = options_.jpeg_quality;
  return shardkit::EncodeJpeg(rgb_.data(), width_, height_, encode, jpeg);
}

void SynthPairMaker::ChooseSize(SynthRandom& random) {
  if (options_.width != 0) {
    width_ = options_.width;
    height_ = options_.height;
    return;
  }
  // Mostly 3:2, otherwise 4:3. About two in three are landscape.
  width_ = random.Chance(88) ? 2250 : 2000;
  height_ = 1500;
  if (random.Chance(33)) std::swap(width_, height_);
}

ShapeOptions SynthPairMaker::ChooseShape(SynthRandom& random) const {
  ShapeOptions shape;
  const uint64_t kind = random.Below(100);
  shape.kind = kind < 60 ? ShapeKind::kBlob : kind < 80 ? ShapeKind::kEllipse : ShapeKind::kPolygon;
  shape.aspect = random.Chance(10) ? random.Between(40, 90) : random.Between(110, 256);
  shape.angle = static_cast<uint32_t>(random.Below(65536));
  shape.hole = random.Chance(4);

  const Object* parent = nullptr;
  if (!objects_.empty() && random.Chance(30)) {
    const Object& candidate = objects_[random.Below(objects_.size())];
    if (candidate.mask.area > 20 * kSmallestArea) parent = &candidate;
  }
  if (parent != nullptr) {  // a part of a larger object
    const ColumnSpan& span = parent->mask.spans[random.Below(parent->mask.spans.size())];
    shape.center_x = int64_t{span.x} * kShapeUnit + random.Between(0, kShapeUnit - 1);
    shape.center_y = random.Between(int64_t{span.begin} * kShapeUnit, int64_t{span.end} * kShapeUnit - 1);
    shape.radius = parent->radius * random.Between(30, 130) / 256;
    return shape;
  }
  shape.center_x = random.Between(0, int64_t{width_} * kShapeUnit - 1);
  shape.center_y = random.Between(0, int64_t{height_} * kShapeUnit - 1);
  int64_t draw = random.Between(0, 99);
  size_t octave = 0;
  while (octave + 1 < kRadiusShares.size() && draw >= kRadiusShares[octave]) draw -= kRadiusShares[octave++];
  const int64_t base = std::max<int64_t>(int64_t{std::min(width_, height_)} * kShapeUnit / 200, kShapeUnit * 3);
  shape.radius = (base << octave) * random.Between(256, 511) / 256;
  return shape;
}

void SynthPairMaker::PlaceObjects(SynthRandom& random) {
  const auto wanted = static_cast<size_t>(random.Between(options_.min_objects, options_.max_objects));
  const uint64_t smallest = std::min(kSmallestArea, uint64_t{width_} * height_ / 400 + 1);
  objects_.clear();
  objects_.reserve(wanted);
  for (size_t attempt = 0; objects_.size() < wanted && attempt < wanted * 8; ++attempt) {
    const ShapeOptions options = ChooseShape(random);
    Object object;
    object.radius = options.radius;
    RasterizeShape(MakeShape(options, random), width_, height_, &object.mask);
    if (object.mask.area >= smallest) objects_.push_back(std::move(object));
  }
}

void SynthPairMaker::Paint(SynthRandom& random) {
  // Small objects are painted over large ones, so that each is visible.
  std::vector<size_t> order(objects_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return objects_[a].mask.area > objects_[b].mask.area; });

  const Palette palette = MakePalette(random);
  std::vector<Material> materials;
  materials.push_back(MakeMaterial(tiles_, palette, static_cast<int32_t>(width_ / 2), static_cast<int32_t>(height_ / 2),
                                   static_cast<int32_t>(std::max(width_, height_)), random));
  ids_.assign(size_t{width_} * height_, 0);
  for (const size_t index : order) {
    const SynthMask& mask = objects_[index].mask;
    const auto id = static_cast<uint8_t>(materials.size());
    materials.push_back(MakeMaterial(tiles_, palette, static_cast<int32_t>((mask.min_x + mask.max_x) / 2),
                                     static_cast<int32_t>((mask.min_y + mask.max_y) / 2),
                                     static_cast<int32_t>(std::max(mask.max_x - mask.min_x, mask.max_y - mask.min_y)),
                                     random));
    for (const ColumnSpan& span : mask.spans) {
      uint8_t* column = ids_.data() + size_t{span.x} * height_;
      std::fill(column + span.begin, column + span.end, id);
    }
  }
  rgb_.resize(size_t{width_} * height_ * 3);
  RenderPicture(tiles_, palette, materials, ids_.data(), width_, height_, rgb_.data());
}

void SynthPairMaker::WriteJson(uint64_t id, SynthRandom& random, std::string* json) const {
  *json = absl::StrCat("{\"image\": {\"image_id\": ", id, ", \"width\": ", width_, ", \"height\": ", height_,
                       ", \"file_name\": \"sa_", id, ".jpg\"}, \"annotations\": [");
  uint64_t annotation_id = random.Below(uint64_t{1} << 30);
  std::string counts;
  for (const Object& object : objects_) {
    const SynthMask& mask = object.mask;
    if (json->back() == '}') json->append(", ");
    json->append("{\"bbox\": ");
    // Widths are max - min as in the published files, one less than pycocotools' toBbox gives.
    AppendBox(mask.min_x, mask.min_y, mask.max_x - mask.min_x, mask.max_y - mask.min_y, json);
    absl::StrAppend(json, ", \"area\": ", mask.area, ", \"segmentation\": {\"size\": [", height_, ", ", width_,
                    "], \"counts\": \"");
    counts.clear();
    shardkit::AppendCocoText(mask.runs, &counts);
    for (const char c : counts) {
      if (c == '\\') json->push_back('\\');  // the one character of the COCO alphabet that JSON escapes
      json->push_back(c);
    }
    json->append("\"}, \"predicted_iou\": ");
    AppendFloat(Score(3600, 4220, random), json);
    const ColumnSpan& span = mask.spans[random.Below(mask.spans.size())];
    const int64_t point_x = int64_t{span.x} * 16 + random.Between(0, 15);  // 1/16 pixel
    const int64_t point_y = random.Between(int64_t{span.begin} * 16, int64_t{span.end} * 16 - 1);
    json->append(", \"point_coords\": [[");
    AppendFloat(static_cast<double>(point_x) / 16, json);
    json->append(", ");
    AppendFloat(static_cast<double>(point_y) / 16, json);
    json->append("]], \"crop_box\": ");
    AppendBox(0, 0, width_, height_, json);
    annotation_id += 1 + random.Below(2);
    absl::StrAppend(json, ", \"id\": ", annotation_id, ", \"stability_score\": ");
    AppendFloat(Score(3770, 4096, random), json);
    json->push_back('}');
  }
  json->append("]}");
}

}  // namespace shardctl
