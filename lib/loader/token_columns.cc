#include <cstring>

#include "base/endian.h"
#include "base/errors.h"
#include "loader/assembly.h"
#include "loader/sequence_packing.h"
#include "shardkit/schema.h"

namespace shardkit::loader {
namespace {

class TokensColumn : public ColumnAssembler {
 public:
  using ColumnAssembler::ColumnAssembler;

  bool fill_may_fail() const override { return false; }

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kTokens, stored_.dtype, memory);
    memory->column.shape_rank = 3;
    std::vector<uint64_t> lengths;
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      lengths.push_back(0);
      const auto value = Value(assembly, i);
      if (!value) continue;
      const auto array = ParseNdarray(stored_, *value);
      if (!array.ok()) {
        assembly.Fail(i, Describe(array.status()));
      } else if (array->shape.size() != 1) {
        assembly.Fail(i,
                      Describe(DataLoss("an array of ", array->shape.size(), " dimensions is no sequence of tokens")));
      } else {
        lengths.back() = array->shape[0];
      }
    }
    const Packing packing = PackSequences(lengths, options_.context);
    memory->offsets = packing.first_piece;
    for (const PackedPiece& piece : packing.pieces) {
      memory->shapes.insert(memory->shapes.end(), {piece.row, piece.begin, piece.length});
    }
    memory->column.shape = {packing.rows, options_.context};
    const size_t size = ScalarSize(stored_.dtype);
    memory->values.resize_discard(packing.rows * options_.context * size);
    // Pads the ends of rows. Fill writes the documents in front of them.
    std::vector<uint64_t> filled(packing.rows);
    for (const PackedPiece& piece : packing.pieces)
      filled[piece.row] = std::max(filled[piece.row], piece.begin + piece.length);
    for (uint64_t row = 0; row < packing.rows; ++row) {
      for (uint64_t i = filled[row]; i < options_.context; ++i) {
        // The low bytes of a two's complement number are those of the shorter type.
        const uint64_t token = static_cast<uint64_t>(options_.padding_token);
        char bytes[8];
        StoreLittle(bytes, token);
        std::memcpy(memory->values.data() + (row * options_.context + i) * size, bytes, size);
      }
    }
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch&, ColumnMemory* memory) const override {
    const size_t size = ScalarSize(stored_.dtype);
    for (size_t i = begin; i < end; ++i) {
      uint64_t tokens = 0;
      for (uint64_t piece = memory->offsets[i]; piece < memory->offsets[i + 1]; ++piece)
        tokens += memory->shapes[3 * piece + 2];
      if (tokens == 0) continue;
      const auto array = ParseNdarray(stored_, *Value(assembly, i));  // Layout has checked it
      const char* from = array->data.data();
      for (uint64_t piece = memory->offsets[i]; piece < memory->offsets[i + 1]; ++piece) {
        const uint64_t* const place = &memory->shapes[3 * piece];
        std::memcpy(memory->values.data() + (place[0] * options_.context + place[1]) * size, from, place[2] * size);
        from += place[2] * size;
      }
    }
  }
};

}  // namespace

std::unique_ptr<ColumnAssembler> NewTokensColumn(size_t position, const Column& column, const LoaderColumn& options) {
  return std::make_unique<TokensColumn>(position, column, options);
}

}  // namespace shardkit::loader
