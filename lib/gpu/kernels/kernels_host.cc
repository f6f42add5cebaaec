// The kernels for the host: plain loops, or functions of lib/codec that do the same.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "codec/image/pixel_values.h"
#include "codec/image/resize.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/resample_body.h"
#include "shardkit/rle.h"

namespace shardkit::gpu {
namespace {

// Reads a filter: the first input and the weights of output position `i`.
class HostFilter {
 public:
  HostFilter(const int32_t* filter, uint32_t padded_taps) : filter_(filter), record_(size_t{padded_taps} + 2) {}

  uint32_t first(uint32_t i) const { return static_cast<uint32_t>(filter_[i * record_]); }
  std::span<const int32_t> weights(uint32_t i) const {
    return {filter_ + i * record_ + 2, static_cast<size_t>(filter_[i * record_ + 1])};
  }

 private:
  const int32_t* filter_;
  size_t record_;
};

constexpr int32_t kHalf = 1 << (codec::kWeightBits - 1);

uint8_t Rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> codec::kWeightBits, 0, 255)); }

template <size_t kChannels>
void ResizeRows(const ResampleImages& arguments, const ResampleImage& image) {
  const HostFilter filter(arguments.filters + image.horizontal, image.horizontal_taps);
  const uint8_t* row = arguments.pixels + image.pixels + size_t{image.top} * image.stored_width * kChannels;
  uint8_t* to = arguments.scratch + image.scratch;
  for (uint32_t y = 0; y < image.rows; ++y, row += size_t{image.stored_width} * kChannels) {
    for (uint32_t x = 0; x < image.width; ++x, to += kChannels) {
      const uint8_t* from = row + size_t{filter.first(x)} * kChannels;
      std::array<int32_t, kChannels> sums;
      sums.fill(kHalf);
      for (const int32_t weight : filter.weights(x)) {
        for (size_t channel = 0; channel < kChannels; ++channel) sums[channel] += weight * from[channel];
        from += kChannels;
      }
      for (size_t channel = 0; channel < kChannels; ++channel) to[channel] = Rounded(sums[channel]);
    }
  }
}

template <typename Pixel>
void FillImage(const ResampleImages& arguments, const codec::PixelTable<Pixel>& table, uint64_t index,
               const std::array<uint8_t, 3>& fill) {
  const auto channels = static_cast<uint64_t>(arguments.channels);
  const OutputPlace at{arguments.output_height, arguments.output_width, channels, arguments.output.planar};
  auto* const out = static_cast<typename Pixel::Element*>(arguments.out);
  for (uint64_t y = 0; y < arguments.output_height; ++y) {
    for (uint64_t channel = 0; channel < channels; ++channel) {
      const auto value = table[channel][fill[channel]];
      for (uint64_t x = 0; x < arguments.output_width; ++x) out[at(index, y, x, channel)] = value;
    }
  }
}

template <typename Pixel>
void ResizeColumns(const ResampleImages& arguments, const codec::PixelTable<Pixel>& table, uint64_t index,
                   std::vector<int32_t>* sums) {
  const ResampleImage& image = arguments.images[index];
  const auto channels = static_cast<size_t>(arguments.channels);
  const OutputPlace at{arguments.output_height, arguments.output_width, channels, arguments.output.planar};
  auto* const out = static_cast<typename Pixel::Element*>(arguments.out);
  const HostFilter filter(arguments.filters + image.vertical, image.vertical_taps);
  const size_t row_bytes = image.width * channels;
  for (uint32_t y = 0; y < image.height; ++y) {
    sums->assign(row_bytes, kHalf);
    const uint8_t* row = arguments.scratch + image.scratch + (filter.first(y) - image.top) * row_bytes;
    for (const int32_t weight : filter.weights(y)) {
      for (size_t i = 0; i < row_bytes; ++i) (*sums)[i] += weight * row[i];
      row += row_bytes;
    }
    const int32_t* sum = sums->data();
    for (uint32_t x = 0; x < image.width; ++x) {
      for (size_t channel = 0; channel < channels; ++channel) {
        const uint64_t down = image.content_top + (image.transpose != 0 ? x : y);
        const uint64_t across = image.content_left + (image.transpose != 0 ? y : x);
        const uint64_t place = at(index, down, across, channel);
        out[place] = table[channel][Rounded(*sum++)];
      }
    }
  }
}

template <typename Pixel>
void Resample(const ResampleImages& arguments) {
  const codec::PixelTable<Pixel> table(arguments.output, arguments.channels);
  std::vector<int32_t> sums;
  for (uint64_t index = 0; index < arguments.count; ++index) {
    const ResampleImage& image = arguments.images[index];
    if (image.stored_width == 0) {
      FillImage(arguments, table, index, {0, 0, 0});
      continue;
    }
    if (image.content_width < arguments.output_width || image.content_height < arguments.output_height) {
      FillImage(arguments, table, index, {arguments.fill[0], arguments.fill[1], arguments.fill[2]});
    }
    arguments.channels == 1 ? ResizeRows<1>(arguments, image) : ResizeRows<3>(arguments, image);
    ResizeColumns(arguments, table, index, &sums);
  }
}

// Finds the value at a position of a mask. Fast for positions close to the last one.
class RunFinder {
 public:
  explicit RunFinder(std::span<const uint32_t> ends) : ends_(ends) {}

  bool Foreground(uint32_t position) {
    if (position < begin_ || position >= end_) {
      const auto run = std::ranges::upper_bound(ends_, position);
      if (run == ends_.end()) return false;
      begin_ = run == ends_.begin() ? 0 : run[-1];
      end_ = *run;
      foreground_ = (run - ends_.begin()) % 2 != 0;
    }
    return foreground_;
  }

 private:
  const std::span<const uint32_t> ends_;
  uint32_t begin_ = 0, end_ = 0;
  bool foreground_ = false;
};

// Goes through the stored columns in order, so that each position is close to the last one.
void DrawMask(const RasterizeMasks& arguments, const RasterizeMask& mask, uint64_t row_bytes, uint8_t* out) {
  RunFinder finder({arguments.ends + mask.runs, mask.run_count});
  const auto entry = [&](uint64_t table, uint32_t i) { return table == UINT64_MAX ? i : arguments.tables[table + i]; };
  const auto draw = [&](uint32_t x, uint32_t y, uint32_t column, uint32_t row) {
    if (!finder.Foreground(column * mask.stored_height + row)) return;
    x += mask.content_left;
    y += mask.content_top;
    if (arguments.packed) {
      out[y * row_bytes + x / 8] |= static_cast<uint8_t>(1u << (x % 8));
    } else {
      out[y * row_bytes + x] = 1;
    }
  };
  if (mask.transpose != 0) {
    for (uint32_t y = 0; y < mask.content_height; ++y) {
      const uint32_t column = entry(mask.rows, y);
      for (uint32_t x = 0; x < mask.content_width; ++x) draw(x, y, column, entry(mask.columns, x));
    }
  } else {
    for (uint32_t x = 0; x < mask.content_width; ++x) {
      const uint32_t column = entry(mask.columns, x);
      for (uint32_t y = 0; y < mask.content_height; ++y) draw(x, y, column, entry(mask.rows, y));
    }
  }
}

}  // namespace

void NormalizeOnHost(const NormalizeImages& arguments) {
  const uint64_t plane = uint64_t{arguments.height} * arguments.width;
  const uint64_t values = plane * static_cast<uint64_t>(arguments.channels);
  auto* out = static_cast<uint8_t*>(arguments.out);
  for (uint64_t image = 0; image < arguments.count; ++image, out += values * ScalarSize(arguments.output.type)) {
    codec::ConvertPixels(arguments.output, arguments.channels, arguments.pixels + image * values, plane, out);
  }
}

void ResampleOnHost(const ResampleImages& arguments) {
  codec::WithPixelType(arguments.output.type, [&](auto pixel) { Resample<decltype(pixel)>(arguments); });
}

void RasterizeOnHost(const RasterizeMasks& arguments) {
  for (uint64_t index = 0; index < arguments.count; ++index) {
    const RasterizeMask& mask = arguments.masks[index];
    const uint64_t row_bytes = arguments.packed ? PackedRowBytes(mask.width) : mask.width;
    const std::span out(arguments.out + mask.out, row_bytes * mask.height);
    const std::span runs(arguments.runs + mask.runs, mask.run_count);
    uint32_t end = 0;
    for (uint64_t run = 0; run < mask.run_count; ++run) arguments.ends[mask.runs + run] = end += runs[run];
    const bool native = mask.columns == UINT64_MAX && mask.run_count != 0 && mask.height == mask.stored_height &&
                        mask.width == mask.stored_width && mask.content_height == mask.height &&
                        mask.content_width == mask.width;
    if (native) {
      const RleView view(mask.height, mask.width, runs);
      if ((arguments.packed ? DecodePacked(view, out) : DecodeDense(view, out)).ok()) continue;
    }
    if (!out.empty()) std::memset(out.data(), 0, out.size());
    if (mask.run_count != 0) DrawMask(arguments, mask, row_bytes, out.data());
  }
}

}  // namespace shardkit::gpu
