#include "loader/sequence_packing.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace shardkit::loader {
namespace {

// Finds the first row with enough room, with a tree of maxima.
class Rows {
 public:
  Rows(size_t most, uint64_t context)
      : leaves_(std::bit_ceil(std::max<size_t>(most, 1))), room_(2 * leaves_, context) {}

  size_t Take(uint64_t length) {
    size_t node = 1;
    while (node < leaves_) node = room_[2 * node] >= length ? 2 * node : 2 * node + 1;
    const size_t row = node - leaves_;
    for (room_[node] -= length; node > 1; node /= 2) room_[node / 2] = std::max(room_[node], room_[node ^ 1]);
    return row;
  }

  uint64_t room(size_t row) const { return room_[leaves_ + row]; }

 private:
  const size_t leaves_;
  std::vector<uint64_t> room_;
};

}  // namespace

Packing PackSequences(std::span<const uint64_t> lengths, uint64_t context) {
  Packing packing;
  packing.first_piece.push_back(0);
  for (const uint64_t length : lengths) {
    for (uint64_t left = length; left > 0; left -= packing.pieces.back().length) {
      packing.pieces.push_back({0, 0, std::min(left, context)});
    }
    packing.first_piece.push_back(packing.pieces.size());
  }
  std::vector<size_t> order(packing.pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return packing.pieces[i].length; });
  Rows rows(packing.pieces.size(), context);
  for (const size_t i : order) {
    PackedPiece& piece = packing.pieces[i];
    piece.row = rows.Take(piece.length);
    piece.begin = context - rows.room(piece.row) - piece.length;
    packing.rows = std::max(packing.rows, piece.row + 1);
  }
  return packing;
}

}  // namespace shardkit::loader
