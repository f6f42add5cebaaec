#include "loader/token_rows.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "loader/assembly.h"
#include "loader/open_datasets.h"
#include "loader/permutation.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/job.h"

namespace shardkit::loader {
namespace {

// Rows of a group, at least. Only its last row, with kConcat, is not full: less than 0.4 % of the positions on average.
constexpr uint64_t kGroupRows = 128;

void PackOneAfterAnother(std::span<const uint32_t> lengths, std::span<const uint32_t> order, uint32_t context,
                         std::vector<RowPiece>* pieces) {
  uint32_t row = 0, filled = 0;
  for (const uint32_t document : order) {
    for (uint32_t offset = 0; offset < lengths[document];) {
      if (filled == context) {
        ++row;
        filled = 0;
      }
      const uint32_t length = std::min(lengths[document] - offset, context - filled);
      pieces->push_back({document, row, filled, offset, length});
      offset += length;
      filled += length;
    }
  }
}

// Best-fit decreasing (Johnson, 1973; for documents: Ding et al., Fewer Truncations Improve Language Modeling, 2024):
// the longest pieces first, each into the row with the least room that is enough. Makes at most 11/9 of the fewest rows
// possible plus one, in practice a few per thousand more than the fewest.
void PackByBestFit(std::span<const uint32_t> lengths, std::span<const uint32_t> order, uint32_t context,
                   std::vector<RowPiece>* pieces) {
  for (const uint32_t document : order) {
    for (uint32_t offset = 0; offset < lengths[document]; offset += context) {
      pieces->push_back({document, 0, 0, offset, std::min(lengths[document] - offset, context)});
      if (lengths[document] - offset <= context) break;  // before the offset overflows
    }
  }
  std::ranges::stable_sort(*pieces, std::greater<>(), &RowPiece::length);
  std::set<std::pair<uint32_t, uint32_t>> rows;  // room and number of those that are not full
  uint32_t count = 0;
  for (RowPiece& piece : *pieces) {
    auto row = rows.lower_bound({piece.length, 0});
    if (row == rows.end()) row = rows.insert({context, count++}).first;
    const auto [room, number] = *row;
    rows.erase(row);
    piece.row = number;
    piece.begin = context - room;
    if (room > piece.length) rows.insert({room - piece.length, number});
  }
  std::ranges::sort(*pieces, {}, [](const RowPiece& piece) { return std::pair(piece.row, piece.begin); });
}

// Of the documents of a dataset, in tokens. What is no sequence of tokens counts as one, so that it is reported where
// it is read.
absl::StatusOr<std::vector<uint32_t>> ReadLengths(ReadableFileSystem& file_system, const LoaderDataset& dataset,
                                                  const LoaderColumn& column, const ReadOptions& read) {
  DatasetOptions options;
  static_cast<ReadOptions&>(options) = read;
  // Only the lengths are needed, and the values are checked when they are loaded.
  if (options.mode == ReadMode::kAuto) options.mode = ReadMode::kMapped;
  options.verify = Verify::kNever;
  options.columns = {SourceOf(column)};
  options.generation = dataset.generation;
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(file_system, dataset.path, options));
  const Column& stored = reader->columns()[0];
  SHARDKIT_RETURN_IF_ERROR(CheckTokens(stored, column));
  const uint64_t size = ScalarSize(TokenType(stored, column));
  std::vector<uint32_t> lengths;
  lengths.reserve(reader->sample_count());
  SHARDKIT_ASSIGN_OR_RETURN(const auto scanner, reader->Scan({.threads = AvailableProcessors()}));
  while (true) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto block, scanner->Next());
    if (block == nullptr) break;
    for (uint32_t i = 0; i < block->view().sample_count(); ++i) {
      const std::optional<std::string_view> value = block->view().column(0).value(i);
      uint64_t length = value ? 1 : 0;
      if (value && stored.type == Type::kBytes && value->size() % size == 0) length = value->size() / size;
      if (value && stored.type == Type::kNdarray) {
        const auto array = ParseNdarray(stored, *value);
        if (array.ok() && array->shape.size() == 1) length = array->shape[0];
      }
      if (length > UINT32_MAX) {
        return InvalidArgument(dataset.path, ": sample ", lengths.size(), ": a document of ", length,
                               " tokens; the limit is 2^32 - 1");
      }
      lengths.push_back(static_cast<uint32_t>(length));
    }
    SHARDKIT_RETURN_IF_ERROR(block->CheckMapped());
  }
  return lengths;
}

}  // namespace

std::vector<RowPiece> PackDocuments(std::span<const uint32_t> lengths, std::span<const uint32_t> order,
                                    uint32_t context, TokenPacking packing) {
  std::vector<RowPiece> pieces;
  pieces.reserve(order.size());
  (packing == TokenPacking::kConcat ? PackOneAfterAnother : PackByBestFit)(lengths, order, context, &pieces);
  return pieces;
}

absl::StatusOr<std::shared_ptr<const TokenRows>> TokenRows::Create(ReadableFileSystem& file_system,
                                                                   const LoaderDataset& dataset,
                                                                   const LoaderColumn& column,
                                                                   const PlanOptions& options, const ReadOptions& read,
                                                                   PlanDataset* shape) {
  if (shape->weights != nullptr) {
    return InvalidArgument(dataset.path, ": weights and balance are of samples, and column \"", column.name,
                           "\" packs several into a row");
  }
  auto rows = std::shared_ptr<TokenRows>(new TokenRows);
  rows->context_ = column.context;
  rows->packing_ = column.packing;
  rows->shuffled_ = options.order != SampleOrder::kSequential;
  rows->seed_ = options.seed;
  SHARDKIT_ASSIGN_OR_RETURN(rows->lengths_, ReadLengths(file_system, dataset, column, read));
  const uint64_t samples =
      shape->blocks.empty() ? 0 : shape->blocks.back().first_sample + shape->blocks.back().sample_count;
  if (rows->lengths_.size() != samples) {
    return FailedPrecondition(dataset.path, ": has changed while it was read");
  }
  if (shape->selected != nullptr) {
    rows->selected_ = std::exchange(shape->selected, nullptr);
    std::vector<uint32_t> lengths;
    for (const uint64_t ordinal : *rows->selected_) lengths.push_back(rows->lengths_[ordinal]);
    rows->lengths_ = std::move(lengths);
  }
  rows->blocks_ = std::exchange(shape->blocks, {});
  SHARDKIT_RETURN_IF_ERROR(Annotate(rows->MakeGroups(shape), dataset.path));
  shape->content = rows->Hash();
  if (shape->blocks.empty()) {
    return InvalidArgument(dataset.path, ": no sample chosen has a token in column \"", column.name, "\"");
  }
  return rows;
}

absl::Status TokenRows::MakeGroups(PlanDataset* shape) {
  groups_.push_back(0);
  uint64_t document = 0, tokens = 0, bytes = 0, all_rows = 0;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const uint64_t end = blocks_[b].first_sample + blocks_[b].sample_count;
    const uint64_t tokens_before = tokens;
    for (; document < lengths_.size() && (selected_ == nullptr ? document : (*selected_)[document]) < end; ++document) {
      tokens += lengths_[document];
    }
    if (tokens > tokens_before) bytes += blocks_[b].bytes;
    if (tokens == 0 || (tokens / context_ < kGroupRows && b + 1 < blocks_.size())) continue;
    if (tokens / context_ >= UINT32_MAX) {
      return InvalidArgument(tokens, " tokens in rows of ", context_, " are too many rows; give a longer context");
    }
    groups_.push_back(document);
    const auto pieces = Pack(static_cast<uint32_t>(groups_.size() - 2), 0);
    const uint32_t rows = pieces.back().row + 1;
    shape->blocks.push_back({all_rows, rows, bytes});
    all_rows += rows;
    tokens = bytes = 0;
  }
  return absl::OkStatus();
}

uint64_t TokenRows::Hash() const {
  StreamingHash hash;
  const auto add = [&hash](uint64_t number) {
    char bytes[sizeof(number)];
    StoreLittle(bytes, number);
    hash.Update({bytes, sizeof(bytes)});
  };
  add(context_);
  add(static_cast<uint64_t>(packing_));
  add(selected_ != nullptr);
  for (const uint32_t length : lengths_) add(length);
  if (selected_ != nullptr) std::ranges::for_each(*selected_, add);
  return hash.Digest() | 1;  // 0 is no hash
}

TokenRows::Place TokenRows::PlaceOf(uint32_t group, uint32_t document) const {
  const uint64_t number = groups_[group] + document;
  const uint64_t ordinal = selected_ == nullptr ? number : (*selected_)[number];
  const auto block = std::prev(std::ranges::upper_bound(blocks_, ordinal, {}, &PlanBlock::first_sample));
  return {ordinal, static_cast<uint32_t>(block - blocks_.begin()),
          static_cast<uint32_t>(ordinal - block->first_sample)};
}

std::vector<RowPiece> TokenRows::Pack(uint32_t group, uint64_t epoch) const {
  const std::span<const uint32_t> lengths =
      std::span(lengths_).subspan(groups_[group], groups_[group + 1] - groups_[group]);
  const auto count = static_cast<uint32_t>(lengths.size());
  std::vector<uint32_t> order;
  if (shuffled_) {
    order = ShuffledIndexes(count, Derive(Derive(Derive(Mix(seed_), epoch), uint64_t{5} << 61), group));
  } else {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0u);
  }
  return PackDocuments(lengths, order, context_, packing_);
}

}  // namespace shardkit::loader
