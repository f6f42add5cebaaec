// Rows of tokens as the samples of a plan: documents packed, so that every step has as many rows of the same length.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/loader.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

// A part of a document in a row. Numbers are of tokens.
struct RowPiece {
  uint32_t document = 0;  // of those given
  uint32_t row = 0;
  uint32_t begin = 0;   // in the row
  uint32_t offset = 0;  // in the document
  uint32_t length = 0;
};

// Packs documents of these lengths into rows, as many for every key. Without a key they keep their order as far as the
// packing lets them; a key draws which documents share a row and in which order. The pieces come row by row, and in a
// row from the left. Time: n log n.
std::vector<RowPiece> PackDocuments(std::span<const uint32_t> lengths, uint32_t context, TokenPacking packing,
                                    std::optional<uint64_t> key);

// Documents are packed within groups of neighbouring blocks, so that a row needs the blocks of one group only. For the
// plan, a group is a block. Immutable, thread-safe.
class TokenRows {
 public:
  // Reads the lengths of the documents in a kTokens column; `stored` is what the dataset says of it. Makes *shape, the
  // dataset with the samples chosen, that of its rows. InvalidArgument for a document of 2^32 tokens, and for weights.
  // With BadSamples::kSkip, samples of a block that cannot be read count as one token, and are found when it is loaded.
  static absl::StatusOr<std::shared_ptr<const TokenRows>> Create(ReadableFileSystem& file_system,
                                                                 const LoaderDataset& dataset, const Column& stored,
                                                                 const LoaderColumn& column, const PlanOptions& options,
                                                                 const ReadOptions& read, BadSamples bad_samples,
                                                                 PlanDataset* shape);

  // Where a document of a group is in the dataset.
  struct Place {
    uint64_t ordinal = 0;
    uint32_t block = 0;
    uint32_t in_block = 0;
  };
  Place PlaceOf(uint32_t group, uint32_t document) const;
  const PlanBlock& block(uint32_t number) const { return blocks_[number]; }

  // Of a document of a group, in tokens.
  uint32_t LengthOf(uint32_t group, uint32_t document) const { return lengths_[groups_[group] + document]; }

  // All rows of a group in an epoch.
  std::vector<RowPiece> Pack(uint32_t group, uint64_t epoch) const;

 private:
  TokenRows() = default;
  std::span<const uint32_t> Lengths(uint32_t group) const {
    return std::span(lengths_).subspan(groups_[group], groups_[group + 1] - groups_[group]);
  }
  absl::Status MakeGroups(PlanDataset* shape);
  uint64_t Hash() const;

  uint32_t context_ = 1;
  TokenPacking packing_ = TokenPacking::kBestFit;
  bool shuffled_ = false;
  uint64_t seed_ = 0;
  std::vector<PlanBlock> blocks_;                          // of the dataset
  std::vector<uint32_t> lengths_;                          // of the documents chosen
  std::shared_ptr<const std::vector<uint64_t>> selected_;  // their ordinals; null: all
  std::vector<uint64_t> groups_;                           // the first document of each, then the end
};

}  // namespace shardkit::loader
