// Dense masks -> runs.
//
// Strips of 64 columns are packed to one word per row. XOR with the word above leaves only the edges; a real mask has
// few. Edges are found row by row, and a stable counting sort puts them into column order.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/errors.h"
#include "codec/rle/rle_kernels.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace {

// Strips read together, so that each row gives several whole cache lines.
constexpr size_t kStripsAtOnce = 16;

struct Edge {
  uint32_t row;
  uint32_t column;  // in the strip
};

// Collects the ends of runs in column-major order.
class RunBuilder {
 public:
  explicit RunBuilder(std::vector<uint32_t>* runs) : runs_(runs) {}
  void EndRunAt(uint64_t position) {
    runs_->push_back(static_cast<uint32_t>(position - last_));
    last_ = position;
  }

 private:
  std::vector<uint32_t>* runs_;
  uint64_t last_ = 0;
};

// Encodes the columns of one strip. `words` has one word per row. *open says whether the column before the strip ends
// in foreground; afterwards, whether the strip's last column does.
void EncodeStrip(std::span<const uint64_t> words, uint64_t first_column, unsigned columns, bool* open,
                 std::vector<Edge>* edges, std::vector<uint32_t>* sorted, RunBuilder* builder) {
  const uint64_t height = words.size();
  edges->clear();
  uint32_t begin[65] = {};
  uint64_t previous = 0;
  for (size_t row = 0;; ++row) {
    while (row < words.size() && words[row] == previous) ++row;  // most rows
    if (row == words.size()) break;
    uint64_t flips = words[row] ^ previous;
    previous = words[row];
    for (; flips != 0; flips &= flips - 1) {
      const unsigned column = static_cast<unsigned>(std::countr_zero(flips));
      edges->push_back({static_cast<uint32_t>(row), column});
      ++begin[column + 1];
    }
  }
  if (edges->empty() && !*open) return;

  for (unsigned column = 0; column < 64; ++column) begin[column + 1] += begin[column];
  sorted->resize(edges->size());
  uint32_t next[64];
  std::memcpy(next, begin, sizeof(next));
  for (const Edge& edge : *edges) (*sorted)[next[edge.column]++] = edge.row;

  for (unsigned column = 0; column < columns; ++column) {
    const uint64_t top = (first_column + column) * height;
    uint32_t i = begin[column];
    const uint32_t end = begin[column + 1];
    if (*open) {
      // A column's edges assume background above it. After foreground, the edge at row 0 has the opposite meaning.
      if (i < end && (*sorted)[i] == 0) {
        ++i;
      } else {
        builder->EndRunAt(top);
      }
    }
    for (; i < end; ++i) builder->EndRunAt(top + (*sorted)[i]);
    *open = ((end - begin[column]) & 1) != 0;
  }
}

}  // namespace

absl::StatusOr<Rle> EncodeDense(std::span<const uint8_t> pixels, uint32_t height, uint32_t width) {
  const uint64_t total = uint64_t{height} * width;
  if (total > kMaxMaskPixels) {
    return InvalidArgument("a mask of ", height, " x ", width, " pixels is above the limit of ", kMaxMaskPixels,
                           " pixels");
  }
  if (pixels.size() != total) {
    return InvalidArgument("a mask of ", height, " x ", width, " pixels needs ", total, " bytes, not ", pixels.size());
  }
  Rle rle{height, width, {}};
  RunBuilder builder(&rle.runs);
  bool open = false;
  std::vector<uint64_t> words;
  std::vector<Edge> edges;
  std::vector<uint32_t> sorted;
  for (uint64_t column = 0; total != 0 && column < width; column += kStripsAtOnce * 64) {
    const uint64_t columns = std::min<uint64_t>(width - column, kStripsAtOnce * 64);
    const uint64_t strips = (columns + 63) / 64;
    words.resize(strips * height);
    const uint8_t* const corner = pixels.data() + column;
    // The last strip is rounded up to 64 columns. Where it reaches into the next row, the extra bits are masked below.
    // In the last rows, where it would pass the end, a buffer is used.
    const uint64_t reach = column + strips * 64;
    const uint64_t direct = std::min<uint64_t>(height, total >= reach ? (total - reach) / width + 1 : 0);
    codec::PackStrips(corner, width, direct, strips, words.data(), height);
    for (uint64_t row = direct; row < height; ++row) {
      uint8_t buffer[kStripsAtOnce * 64] = {};
      std::memcpy(buffer, corner + row * width, columns);
      codec::PackStrips(buffer, 0, 1, strips, words.data() + row, height);
    }
    for (uint64_t strip = 0; strip < strips; ++strip) {
      const std::span<uint64_t> strip_words = std::span(words).subspan(strip * height, height);
      const unsigned strip_columns = static_cast<unsigned>(std::min<uint64_t>(columns - strip * 64, 64));
      if (strip_columns < 64) {
        for (uint64_t& word : strip_words) word &= (uint64_t{1} << strip_columns) - 1;
      }
      EncodeStrip(strip_words, column + strip * 64, strip_columns, &open, &edges, &sorted, &builder);
    }
  }
  builder.EndRunAt(total);
  return rle;
}

}  // namespace shardkit
