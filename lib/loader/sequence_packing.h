// Documents into rows of a context length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shardkit::loader {

// A piece of a document: one but for documents longer than a row.
struct PackedPiece {
  uint64_t row = 0;
  uint64_t begin = 0;   // token of the row
  uint64_t length = 0;  // tokens
};

struct Packing {
  std::vector<PackedPiece> pieces;    // document by document, in order
  std::vector<uint64_t> first_piece;  // of each document, and the number of all at the end
  uint64_t rows = 0;
};

// First-fit decreasing (Johnson, 1973): longest documents first, each into the first row with room, within 11/9 of the
// fewest rows possible plus one, and in practice within a few per thousand. A document longer than `context` (at least
// 1) is cut into whole rows and a rest. Time: n log n.
Packing PackSequences(std::span<const uint64_t> lengths, uint64_t context);

}  // namespace shardkit::loader
