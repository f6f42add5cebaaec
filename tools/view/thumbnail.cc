#include "view/thumbnail.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "shardkit/image.h"
#include "shardkit/rle.h"
#include "view/value.h"

namespace shardctl {
namespace {

constexpr int kQuality = 82;
constexpr size_t kMostGiven = size_t{8} << 20;

// About what decoding takes: at the scale that libjpeg decodes at, less than twice the size in each direction; a file
// of several scans holds all of its coefficients.
uint64_t DecodeBytes(std::string_view bytes, const shardkit::StoredSize& stored, const shardkit::Geometry& geometry) {
  const uint64_t all = uint64_t{3} * stored.width * stored.height;
  const auto info = shardkit::ProbeJpeg(bytes);
  if (!info.ok()) return all;
  return info->coefficient_bytes + std::min(all, uint64_t{12} * geometry.content_width * geometry.content_height);
}

// The color of mask `index`, as page/mask_colours.js has it.
std::array<double, 3> MaskColor(size_t index) {
  constexpr std::array<double, 3> kLightness = {0.62, 0.74, 0.54};
  const double hue = std::fmod(static_cast<double>(index) * 137.50776 + 20, 360);
  const double lightness = kLightness[index % kLightness.size()];
  const double reach = 0.88 * std::min(lightness, 1 - lightness);
  std::array<double, 3> color;
  for (size_t i = 0; i < 3; ++i) {
    const double k = std::fmod((i == 0 ? 0 : i == 1 ? 8 : 4) + hue / 30, 12);
    color[i] = 255 * (lightness - reach * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})));
  }
  return color;
}

// Larger masks first, so that the smaller ones lie on them. A few KB may hold a hundred thousand masks, each of which
// takes as long as the image has pixels: of so many the largest are painted.
void PaintMasks(const shardkit::RleList& masks, const shardkit::Geometry& geometry, std::vector<uint8_t>* pixels) {
  constexpr double kOpacity = 0.5;
  constexpr size_t kMostPainted = 1000;
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < masks.size(); ++i) {
    if (masks.heights[i] == geometry.stored_height && masks.widths[i] == geometry.stored_width) {
      order.emplace_back(shardkit::Area(masks[i]), i);
    }
  }
  std::ranges::stable_sort(order, std::ranges::greater(), [](const auto& each) { return each.first; });
  order.resize(std::min(order.size(), kMostPainted));
  shardkit::MaskRasterizer rasterizer;
  if (!rasterizer.SetGeometry(geometry).ok()) return;
  std::vector<uint8_t> inside(size_t{geometry.output_width} * geometry.output_height);
  std::vector<uint32_t> top(inside.size(), UINT32_MAX);
  for (const auto& [area, index] : order) {
    if (!rasterizer.Dense(masks[index], inside).ok()) continue;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] != 0) top[i] = static_cast<uint32_t>(index);
    }
  }
  for (size_t i = 0; i < top.size(); ++i) {
    if (top[i] == UINT32_MAX) continue;
    const std::array<double, 3> color = MaskColor(top[i]);
    for (size_t channel = 0; channel < 3; ++channel) {
      uint8_t& pixel = (*pixels)[3 * i + channel];
      pixel = static_cast<uint8_t>(std::lround((1 - kOpacity) * pixel + kOpacity * color[channel]));
    }
  }
}

// Empty when the sample has none, or they cannot be read.
shardkit::RleList ReadMasks(const shardkit::DatasetReader& reader, uint64_t ordinal, size_t column,
                            shardkit::BlockBuffer* buffer) {
  shardkit::RleList masks;
  const auto value = reader.ReadValue(ordinal, column, buffer);
  if (!value.ok() || !value->has_value() || !shardkit::ParseRleValue(**value, &masks).ok()) masks.Clear();
  return masks;
}

}  // namespace

std::vector<size_t> ImageColumns(const shardkit::DatasetReader& reader, std::optional<size_t> first) {
  std::vector<size_t> columns;
  if (first) columns.push_back(*first);
  for (size_t i = 0; i < reader.columns().size(); ++i) {
    if (shardkit::IsImage(reader.columns()[i].type) && i != first) columns.push_back(i);
  }
  return columns;
}

absl::StatusOr<Thumbnail> MakeThumbnail(const Snapshot& snapshot, uint64_t ordinal, const ThumbnailOptions& options,
                                        WorkspacePool& pool) {
  const shardkit::DatasetReader& reader = *snapshot.reader;
  WorkspacePool::Lease workspace(pool);
  shardkit::RleList masks;
  if (options.masks) masks = ReadMasks(reader, ordinal, *options.masks, &workspace->buffer);
  std::optional<std::string_view> value;
  shardkit::Column described;
  for (size_t i = 0; i < options.columns.size() && !value; ++i) {
    described = reader.columns()[options.columns[i]];
    if (!shardkit::IsByteString(described)) {
      return absl::InvalidArgumentError("column " + described.name + " has no images");
    }
    const auto read = reader.ReadValue(ordinal, options.columns[i], &workspace->buffer);
    if (!read.ok()) return read.status();
    value = *read;
  }
  if (!value) return absl::NotFoundError("sample " + std::to_string(ordinal) + " has no image");
  const std::string_view bytes = *value;
  const std::string type = MediaType(described, bytes);
  if (!type.starts_with("image/") && shardkit::DetectImageFormat(bytes) == shardkit::ImageFormat::kUnknown) {
    return absl::UnimplementedError("no format of images that can be shown");
  }
  const auto stored = shardkit::ProbeImage(bytes);
  if (absl::IsUnimplemented(stored.status())) {
    if (!type.starts_with("image/")) return stored.status();
    if (bytes.size() > kMostGiven) return absl::ResourceExhaustedError("too large to be shown as it is");
    return Thumbnail{type, std::string(bytes)};
  }
  if (!stored.ok()) return stored.status();
  shardkit::Geometry geometry = shardkit::FullImage(*stored);
  const double scale =
      std::min(1.0, options.size / static_cast<double>(std::max(geometry.content_width, geometry.content_height)));
  const auto scaled = [&](uint32_t side) { return std::max(1u, static_cast<uint32_t>(std::lround(side * scale))); };
  geometry = shardkit::Resize(*stored, scaled(geometry.content_width), scaled(geometry.content_height));
  shardkit::ImageDecodeOptions decode;
  decode.reduce_depth = true;
  decode.max_memory = WorkspacePool::kDecodeMemory;
  const WorkspacePool::Decoding decoding(pool, DecodeBytes(bytes, *stored, geometry));
  std::vector<uint8_t> pixels(size_t{3} * geometry.output_width * geometry.output_height);
  const shardkit::MutableImageView out{pixels.data(), geometry.output_width, geometry.output_height, 3,
                                       size_t{3} * geometry.output_width};
  if (const absl::Status status = workspace->decoder.Decode(bytes, geometry, decode, out); !status.ok()) return status;
  PaintMasks(masks, geometry, &pixels);
  Thumbnail thumbnail{"image/jpeg", {}};
  const absl::Status status =
      shardkit::EncodeJpeg(pixels.data(), out.width, out.height, {.quality = kQuality}, &thumbnail.bytes);
  if (!status.ok()) return status;
  return thumbnail;
}

}  // namespace shardctl
