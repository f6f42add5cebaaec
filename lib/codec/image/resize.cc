// Resizing: the coefficients and the two passes.
#include "codec/image/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "codec/image/image_codec.h"

namespace shardkit {
namespace codec {
namespace {

constexpr uint32_t kPaddedTo = 8;

// Half the width, in outputs, and the weight at a distance from the middle.
double SupportOf(Interpolation interpolation) { return interpolation == Interpolation::kBicubic ? 2.0 : 1.0; }

double WeightAt(Interpolation interpolation, double distance) {
  if (interpolation == Interpolation::kBilinear) return std::max(1.0 - distance, 0.0);
  // In Pillow's order of operations.
  constexpr double kA = -0.5;
  if (distance < 1.0) return ((kA + 2.0) * distance - (kA + 3.0)) * distance * distance + 1;
  if (distance < 2.0) return (((distance - 5) * distance + 8) * distance - 4) * kA;
  return 0.0;
}

}  // namespace

void AxisFilter::Build(uint32_t size, double from, double length, uint32_t count, Interpolation interpolation,
                       bool mirror) {
  const double scale = length / count;
  const double filter_scale = std::max(scale, 1.0);
  const double support = SupportOf(interpolation) * filter_scale;
  padded_taps = static_cast<uint32_t>(std::ceil(support)) * 2 + 1;
  padded_taps = (padded_taps + kPaddedTo - 1) / kPaddedTo * kPaddedTo;
  first.resize(count);
  taps.resize(count);
  high.assign(size_t{count} * padded_taps, 0);
  low.assign(size_t{count} * padded_taps, 0);
  begin = size;
  end = 0;
  identity = !mirror && scale == 1;
  std::vector<double> weights(padded_taps);
  for (uint32_t i = 0; i < count; ++i) {
    // The order of operations determines the last bit of the weights. It is Pillow's order.
    const double center = from + (i + 0.5) * scale;
    const auto lowest = static_cast<uint32_t>(std::max(center - support + 0.5, 0.0));
    const auto highest = static_cast<uint32_t>(std::min(center + support + 0.5, static_cast<double>(size)));
    const double inverse = 1.0 / filter_scale;
    double sum = 0;
    uint32_t used = highest - std::min(lowest, highest);
    for (uint32_t j = 0; j < used; ++j) {
      const double distance = std::abs((static_cast<double>(j) + lowest - center + 0.5) * inverse);
      weights[j] = WeightAt(interpolation, distance);
      sum += weights[j];
    }
    const uint32_t output = mirror ? count - 1 - i : i;
    uint32_t skipped = 0;
    const auto fixed = [&](uint32_t j) {
      const double weight = weights[j] / sum * (1 << kWeightBits);
      return static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    };
    while (used > 1 && fixed(used - 1) == 0) --used;
    while (skipped + 1 < used && fixed(skipped) == 0) ++skipped;
    for (uint32_t j = skipped; j < used; ++j) {
      const int32_t weight = fixed(j);
      high[size_t{output} * padded_taps + j - skipped] = static_cast<int16_t>(weight >> kLowBits);
      low[size_t{output} * padded_taps + j - skipped] = static_cast<int16_t>(weight & ((1 << kLowBits) - 1));
    }
    first[output] = lowest + skipped;
    taps[output] = used - skipped;
    begin = std::min(begin, first[output]);
    end = std::max(end, first[output] + taps[output]);
    identity = identity && taps[output] == 1;
  }
}

void FilterResizer::Prepare(uint32_t width, uint32_t height, const Box& source, uint32_t out_width, uint32_t out_height,
                            Interpolation interpolation, bool mirror_x, bool mirror_y) {
  horizontal_.Build(width, source.x, source.width, out_width, interpolation, mirror_x);
  vertical_.Build(height, source.y, source.height, out_height, interpolation, mirror_y);
}

void FilterResizer::ResizeGroup(const uint8_t* from, size_t stride, uint8_t* const* to, size_t rows, int channels) {
  std::array<const uint8_t*, kRowGroup> source;
  for (size_t r = 0; r < rows; ++r) source[r] = from + r * stride;
  if (horizontal_.identity) {
    const size_t bytes = horizontal_.first.size() * static_cast<size_t>(channels);
    for (size_t r = 0; r < rows; ++r) std::memcpy(to[r], source[r], bytes);
    return;
  }
  ResizeRows(horizontal_, source.data(), to, rows, channels, tail_.data());
}

void FilterResizer::Run(const ImageView& part, uint32_t x, uint32_t y, const MutableImageView& out) {
  tail_.resize(TailBytes(horizontal_));
  const size_t row_bytes = out.width * static_cast<size_t>(out.channels);
  // Row i of the needed part.
  const auto source = [&](uint32_t i) {
    return part.pixels + (vertical_.begin + i - y) * part.row_stride +
           (horizontal_.begin - x) * static_cast<size_t>(part.channels);
  };
  const uint32_t needed = vertical_.end - vertical_.begin;
  std::array<uint8_t*, kRowGroup> to;
  if (vertical_.identity) {
    for (uint32_t i = 0; i < needed; i += kRowGroup) {
      const size_t rows = std::min<size_t>(kRowGroup, needed - i);
      for (size_t r = 0; r < rows; ++r) to[r] = out.pixels + (i + r) * out.row_stride;
      ResizeGroup(source(i), part.row_stride, to.data(), rows, part.channels);
    }
    return;
  }

  const bool direct = horizontal_.identity;
  const size_t capacity = vertical_.padded_taps + kRowGroup;
  ring_.resize(direct ? 0 : capacity * row_bytes);
  rows_.resize(vertical_.padded_taps);
  uint32_t made = 0;
  const bool reversed = vertical_.first.front() > vertical_.first.back();
  for (uint32_t i = 0; i < out.height; ++i) {
    const uint32_t output = reversed ? out.height - 1 - i : i;
    const uint32_t first = vertical_.first[output] - vertical_.begin;
    const uint32_t taps = vertical_.taps[output];
    for (; !direct && made < first + taps; made += static_cast<uint32_t>(kRowGroup)) {
      const size_t rows = std::min<size_t>(kRowGroup, needed - made);
      for (size_t r = 0; r < rows; ++r) to[r] = ring_.data() + (made + r) % capacity * row_bytes;
      ResizeGroup(source(made), part.row_stride, to.data(), rows, part.channels);
    }
    for (uint32_t j = 0; j < taps; ++j) {
      rows_[j] = direct ? source(first + j) : ring_.data() + (first + j) % capacity * row_bytes;
    }
    const size_t weights = size_t{output} * vertical_.padded_taps;
    BlendRows(rows_.data(), vertical_.high.data() + weights, vertical_.low.data() + weights, taps, row_bytes,
              out.pixels + output * out.row_stride);
  }
}

}  // namespace codec

struct Resizer::State {
  codec::FilterResizer resizer;
};

Resizer::Resizer() : state_(std::make_unique<State>()) {}
Resizer::~Resizer() = default;
Resizer::Resizer(Resizer&&) noexcept = default;
Resizer& Resizer::operator=(Resizer&&) noexcept = default;

absl::Status Resizer::Resize(const ImageView& image, const Box& source, Interpolation interpolation,
                             const MutableImageView& out) {
  for (const ImageView& view : {image, ImageView(out)}) {
    if (view.pixels == nullptr || view.width == 0 || view.height == 0 || view.width > kMaxImageSide ||
        view.height > kMaxImageSide || !codec::IsChannelCount(view.channels) ||
        view.row_stride < view.width * static_cast<size_t>(view.channels)) {
      return InvalidArgument("resize: an image of ", view.width, " x ", view.height, " pixels of ", view.channels,
                             " channels, ", view.row_stride, " bytes per row; sizes are 1 to ", kMaxImageSide,
                             ", channels 1, 3 or 4");
    }
  }
  if (image.channels != out.channels) {
    return InvalidArgument("resize: from ", image.channels, " channels to ", out.channels);
  }
  // This form of the comparison refuses NaN.
  const bool inside = source.width > 0 && source.height > 0 && source.x >= 0 && source.y >= 0 &&
                      source.x + source.width <= image.width && source.y + source.height <= image.height;
  if (!inside) {
    return InvalidArgument("resize: a box of ", source.width, " x ", source.height, " at (", source.x, ", ", source.y,
                           ") is empty or not inside the image of ", image.width, " x ", image.height);
  }
  codec::FilterResizer& resizer = state_->resizer;
  resizer.Prepare(image.width, image.height, source, out.width, out.height, interpolation, false, false);
  resizer.Run(image, 0, 0, out);
  return absl::OkStatus();
}

}  // namespace shardkit
