// Packs documents into rows of a context length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shardkit::loader {

// A piece of a document. A document is one piece unless it is longer than a row.
struct PackedPiece {
  uint64_t row = 0;
  uint64_t begin = 0;   // first token in the row
  uint64_t length = 0;  // tokens
};

struct Packing {
  std::vector<PackedPiece> pieces;    // document by document, in order
  std::vector<uint64_t> first_piece;  // of each document, then the number of all pieces
  uint64_t rows = 0;
};

// First-fit decreasing (Johnson, 1973): the longest documents first, each into the first row with room. Makes at most
// 11/9 of the fewest rows possible plus one, in practice a few per thousand more than the fewest. A document longer
// than `context` (at least 1) is cut into whole rows and a rest. Time: n log n.
Packing PackSequences(std::span<const uint64_t> lengths, uint64_t context);

}  // namespace shardkit::loader
