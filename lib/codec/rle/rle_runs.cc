// Lists of runs: the list type, validation, area and box.
#include <algorithm>

#include "base/errors.h"
#include "codec/rle/rle_kernels.h"
#include "shardkit/rle.h"

namespace shardkit {

void RleList::Clear() {
  heights.clear();
  widths.clear();
  run_begin.assign(1, 0);
  runs.clear();
}

void RleList::Append(const RleView& mask) {
  heights.push_back(mask.height);
  widths.push_back(mask.width);
  runs.insert(runs.end(), mask.runs.begin(), mask.runs.end());
  run_begin.push_back(runs.size());
}

absl::Status ValidateRle(const RleView& mask) {
  const uint64_t pixels = uint64_t{mask.height} * mask.width;
  if (pixels > kMaxMaskPixels) {
    return DataLoss("a mask of ", mask.height, " x ", mask.width, " pixels is above the limit of ", kMaxMaskPixels,
                    " pixels");
  }
  uint64_t sum = 0;  // cannot overflow: fewer than 2^32 runs fit in memory
  for (const uint32_t run : mask.runs) sum += run;
  if (sum != pixels) {
    return DataLoss("the runs of a mask of ", mask.height, " x ", mask.width, " pixels sum to ", sum, " instead of ",
                    pixels);
  }
  return absl::OkStatus();
}

uint64_t Area(const RleView& mask) {
  uint64_t area = 0;
  for (size_t i = 1; i < mask.runs.size(); i += 2) area += mask.runs[i];
  return area;
}

std::array<uint32_t, 4> BoundingBox(const RleView& mask) {
  if (mask.height == 0) return {};
  uint64_t left = UINT64_MAX;
  uint64_t right = 0;
  uint64_t top = UINT64_MAX;
  uint64_t bottom = 0;
  codec::ForEachForegroundRun(mask, [&](uint64_t first_x, uint64_t first_y, uint64_t last_x, uint64_t last_y) {
    if (left == UINT64_MAX) left = first_x;  // runs are in column order
    right = last_x;
    if (first_x != last_x) {
      // The run reaches the bottom of one column and the top of the next.
      top = 0;
      bottom = mask.height - 1;
    } else {
      top = std::min(top, first_y);
      bottom = std::max(bottom, last_y);
    }
  });
  if (left == UINT64_MAX) return {};
  return {static_cast<uint32_t>(left), static_cast<uint32_t>(top), static_cast<uint32_t>(right - left + 1),
          static_cast<uint32_t>(bottom - top + 1)};
}

}  // namespace shardkit
