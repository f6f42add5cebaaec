// Applies a geometry to masks, from runs directly to output pixels, without the dense stored mask.
//
// Every run is split into pieces, one for each stored column that it meets. A table maps a piece to an interval of
// output positions. Where stored columns become output columns, the ends of the interval are marked as bits, and XOR of
// every row with the one above fills it, as in rle_dense.cc. Where stored columns become rows, the interval is set
// directly.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/orientation.h"
#include "codec/rle/rle_kernels.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

// One axis of the stored mask and the output positions that show it.
struct Axis {
  std::vector<uint32_t> stored;  // stored position of each output position, ascending
  std::vector<uint32_t> begin;   // begin[s]: number of positions with a stored one below s; size of the axis + 1
  bool descending = false;       // position i above is output position stored.size() - 1 - i
  uint32_t offset = 0;           // of the content in the output, to be added

  void Build(uint32_t stored_size, double from, double length, uint32_t count, bool mirror_stored, bool flip,
             uint32_t content_offset) {
    offset = content_offset;
    stored.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      stored[mirror_stored ? count - 1 - i : i] =
          codec::NearestStored(stored_size, from, length, count, i, mirror_stored);
    }
    descending = mirror_stored != flip;
    begin.assign(size_t{stored_size} + 1, 0);
    for (const uint32_t position : stored) ++begin[position + 1];
    for (uint32_t s = 0; s < stored_size; ++s) begin[s + 1] += begin[s];
  }

  // Converts [first, last), not empty, from ascending positions to output positions.
  void ToOutput(uint32_t* first, uint32_t* last) const {
    const auto count = static_cast<uint32_t>(stored.size());
    const uint32_t begin = descending ? count - *last : *first;
    *last = offset + (descending ? count - *first : *last);
    *first = offset + begin;
  }
};

void FlipBit(uint8_t* row, uint32_t bit) { row[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8)); }

// [first, last), not empty.
void SetBits(uint8_t* row, uint32_t first, uint32_t last) {
  const uint32_t first_byte = first / 8;
  const uint32_t last_byte = (last - 1) / 8;
  const unsigned head = 0xffu << (first % 8);
  const unsigned tail = 0xffu >> (7 - (last - 1) % 8);
  if (first_byte == last_byte) {
    row[first_byte] |= static_cast<uint8_t>(head & tail);
    return;
  }
  row[first_byte] |= static_cast<uint8_t>(head);
  std::memset(row + first_byte + 1, 0xff, last_byte - first_byte - 1);
  row[last_byte] |= static_cast<uint8_t>(tail);
}

// A rectangle of the output.
struct OutputArea {
  uint32_t left = 0, top = 0, right = 0, bottom = 0;

  bool empty() const { return left >= right || top >= bottom; }
};

}  // namespace

struct MaskRasterizer::State {
  Geometry geometry;
  bool ready = false;
  bool identity = false;
  bool transpose = false;
  Axis columns;  // of the stored mask
  Axis rows;
  std::vector<uint64_t> scratch;

  absl::Status Check(const RleView& mask, uint64_t row_bytes, size_t size) const;
  OutputArea Bounds(const RleView& mask) const;
  void Mark(const RleView& mask, const OutputArea& area, uint8_t* bits, uint64_t row_bytes) const;
};

absl::Status MaskRasterizer::State::Check(const RleView& mask, uint64_t row_bytes, size_t size) const {
  if (!ready) return InvalidArgument("mask: SetGeometry comes first");
  if (mask.width != geometry.stored_width || mask.height != geometry.stored_height) {
    return InvalidArgument("mask: ", mask.width, " x ", mask.height, " pixels; the geometry is for ",
                           geometry.stored_width, " x ", geometry.stored_height);
  }
  if (size != geometry.output_height * row_bytes) {
    return InvalidArgument("mask: the output has ", size, " bytes; ", geometry.output_width, " x ",
                           geometry.output_height, " pixels need ", geometry.output_height * row_bytes);
  }
  return ValidateRle(mask);
}

// The part of the output that the foreground can reach.
OutputArea MaskRasterizer::State::Bounds(const RleView& mask) const {
  const std::array<uint32_t, 4> box = BoundingBox(mask);
  uint32_t left = columns.begin[box[0]], right = columns.begin[box[0] + box[2]];
  uint32_t top = rows.begin[box[1]], bottom = rows.begin[box[1] + box[3]];
  if (left >= right || top >= bottom) return {};
  columns.ToOutput(&left, &right);
  rows.ToOutput(&top, &bottom);
  return transpose ? OutputArea{top, left, bottom, right} : OutputArea{left, top, right, bottom};
}

// Bit 0 of the first row is pixel (area.left, area.top). Without transposition the bits are edges: a set bit means that
// the pixel differs from the one above it.
void MaskRasterizer::State::Mark(const RleView& mask, const OutputArea& area, uint8_t* bits, uint64_t row_bytes) const {
  codec::ForEachForegroundRun(mask, [&](uint64_t first_x, uint64_t first_y, uint64_t last_x, uint64_t last_y) {
    for (uint32_t i = columns.begin[first_x]; i < columns.begin[last_x + 1]; ++i) {
      const uint32_t column = columns.stored[i];
      uint32_t first = rows.begin[column == first_x ? first_y : 0];
      uint32_t last = rows.begin[column == last_x ? last_y + 1 : mask.height];
      if (first == last) continue;
      rows.ToOutput(&first, &last);
      const uint32_t position =
          columns.offset + (columns.descending ? static_cast<uint32_t>(columns.stored.size()) - 1 - i : i);
      if (transpose) {
        SetBits(bits + (position - area.top) * row_bytes, first - area.left, last - area.left);
      } else {
        FlipBit(bits + (first - area.top) * row_bytes, position - area.left);
        if (last < area.bottom) FlipBit(bits + (last - area.top) * row_bytes, position - area.left);
      }
    }
  });
}

MaskRasterizer::MaskRasterizer() : state_(std::make_unique<State>()) {}
MaskRasterizer::~MaskRasterizer() = default;
MaskRasterizer::MaskRasterizer(MaskRasterizer&&) noexcept = default;
MaskRasterizer& MaskRasterizer::operator=(MaskRasterizer&&) noexcept = default;

absl::Status MaskRasterizer::SetGeometry(const Geometry& geometry) {
  State& state = *state_;
  state.ready = false;
  SHARDKIT_RETURN_IF_ERROR(CheckGeometry(geometry));
  state.geometry = geometry;
  state.identity = geometry.IsIdentity();
  state.ready = true;
  if (state.identity) return absl::OkStatus();
  const codec::Turn turn = codec::TurnOf(geometry.orientation);
  state.transpose = turn.transpose;
  Axis& x = turn.transpose ? state.rows : state.columns;
  Axis& y = turn.transpose ? state.columns : state.rows;
  x.Build(geometry.upright_width(), geometry.source.x, geometry.source.width, geometry.content_width, turn.mirror_x,
          geometry.flip, geometry.content_left);
  y.Build(geometry.upright_height(), geometry.source.y, geometry.source.height, geometry.content_height, turn.mirror_y,
          false, geometry.content_top);
  return absl::OkStatus();
}

absl::Status MaskRasterizer::Dense(const RleView& mask, std::span<uint8_t> out) {
  State& state = *state_;
  const uint64_t width = state.geometry.output_width;
  SHARDKIT_RETURN_IF_ERROR(state.Check(mask, width, out.size()));
  if (state.identity) return DecodeDense(mask, out);
  std::memset(out.data(), 0, out.size());
  const OutputArea area = state.Bounds(mask);
  if (area.empty()) return absl::OkStatus();

  // One row of zeros is above the area, for the first row's XOR.
  const size_t words = (area.right - area.left + 63) / 64;
  const size_t height = area.bottom - area.top;
  state.scratch.assign((height + 1) * words, 0);
  uint64_t* const rows = state.scratch.data() + words;
  state.Mark(mask, area, reinterpret_cast<uint8_t*>(rows), words * sizeof(uint64_t));
  // The last word of a row may reach beyond the area, but not beyond `out`. There it writes zeros: they are right or
  // overwritten later.
  const size_t begin = area.top * width + area.left;
  codec::ExpandRows(rows, height, area.right - area.left, !state.transpose, out.data() + begin, width,
                    out.size() - begin);
  if (state.scratch.capacity() > codec::kKeptScratchWords) std::vector<uint64_t>().swap(state.scratch);
  return absl::OkStatus();
}

absl::Status MaskRasterizer::Packed(const RleView& mask, std::span<uint8_t> out) {
  State& state = *state_;
  const uint64_t row_bytes = PackedRowBytes(state.geometry.output_width);
  SHARDKIT_RETURN_IF_ERROR(state.Check(mask, row_bytes, out.size()));
  if (state.identity) return DecodePacked(mask, out);
  std::memset(out.data(), 0, out.size());
  OutputArea area = state.Bounds(mask);
  if (area.empty()) return absl::OkStatus();
  area.left -= area.left % 8;
  uint8_t* row = out.data() + area.top * row_bytes + area.left / 8;
  state.Mark(mask, area, row, row_bytes);
  if (state.transpose) return absl::OkStatus();
  const size_t bytes = (area.right - area.left + 7) / 8;
  for (uint32_t y = area.top + 1; y < area.bottom; ++y, row += row_bytes) {
    uint8_t* const below = row + row_bytes;
    for (size_t i = 0; i < bytes; ++i) below[i] ^= row[i];
  }
  return absl::OkStatus();
}

absl::Status RasterizeMask(const RleView& mask, const Geometry& geometry, std::span<uint8_t> out) {
  MaskRasterizer rasterizer;
  SHARDKIT_RETURN_IF_ERROR(rasterizer.SetGeometry(geometry));
  return rasterizer.Dense(mask, out);
}

absl::Status RasterizeMaskPacked(const RleView& mask, const Geometry& geometry, std::span<uint8_t> out) {
  MaskRasterizer rasterizer;
  SHARDKIT_RETURN_IF_ERROR(rasterizer.SetGeometry(geometry));
  return rasterizer.Packed(mask, out);
}

}  // namespace shardkit
