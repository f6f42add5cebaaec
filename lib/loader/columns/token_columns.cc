#include <algorithm>
#include <cstring>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "loader/columns/assembly.h"
#include "shardkit/schema.h"

namespace shardkit::loader {
namespace {

class TokensColumn : public ColumnAssembler {
 public:
  using ColumnAssembler::ColumnAssembler;

  bool fill_may_fail() const override { return false; }

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kTokens, TokenType(stored_, options_), memory);
    memory->column.shape_rank = 4;
    memory->column.shape = {assembly.token_rows, options_.context};
    memory->values.resize_discard(assembly.token_rows * options_.context * size_);
    uint64_t end = 0;  // of what is written so far, or padded
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      if (absl::Status status = Check(assembly, i); !status.ok()) assembly.Fail(i, Describe(status));
      const TokenPlace& place = assembly.samples[i].tokens;
      memory->shapes.insert(memory->shapes.end(), {place.row, place.begin, place.length, place.offset});
      const uint64_t begin = uint64_t{place.row} * options_.context + place.begin;
      Pad(end, begin, memory);  // also in place of bad samples
      end = begin + place.length;
    }
    Pad(end, assembly.token_rows * options_.context, memory);
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch&, ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      const TokenPlace& place = assembly.samples[i].tokens;
      const std::string_view tokens = *Tokens(*Value(assembly, i));  // Layout has checked it
      std::memcpy(memory->values.data() + (uint64_t{place.row} * options_.context + place.begin) * size_,
                  tokens.data() + place.offset * size_, place.length * size_);
    }
  }

 private:
  absl::StatusOr<std::string_view> Tokens(std::string_view value) const {
    if (stored_.type == Type::kBytes) {
      if (value.size() % size_ == 0) return value;
      return DataLoss(value.size(), " bytes are no tokens of ", size_, " bytes each");
    }
    SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, ParseNdarray(stored_, value));
    if (array.shape.size() == 1) return array.data;
    return DataLoss("an array of ", array.shape.size(), " dimensions is no sequence of tokens");
  }

  // The rows were planned for documents of these lengths.
  absl::Status Check(const Assembly& assembly, size_t i) const {
    std::string_view tokens;
    if (const auto value = Value(assembly, i)) {
      SHARDKIT_ASSIGN_OR_RETURN(tokens, Tokens(*value));
    }
    if (const uint64_t planned = assembly.samples[i].tokens.document_length; tokens.size() / size_ != planned) {
      return DataLoss("a document of ", tokens.size() / size_, " tokens, where the rows are of one of ", planned);
    }
    return absl::OkStatus();
  }

  void Pad(uint64_t begin, uint64_t end, ColumnMemory* memory) const {
    // The low bytes of a two's complement number are those of the shorter type.
    char bytes[8];
    StoreLittle(bytes, static_cast<uint64_t>(options_.padding_token));
    for (uint64_t i = begin; i < end; ++i) std::memcpy(memory->values.data() + i * size_, bytes, size_);
  }

  const size_t size_ = ScalarSize(TokenType(stored_, options_));
};

}  // namespace

std::unique_ptr<ColumnAssembler> NewTokensColumn(size_t position, const Column& column, const LoaderColumn& options) {
  return std::make_unique<TokensColumn>(position, column, options);
}

}  // namespace shardkit::loader
