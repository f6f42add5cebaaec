#include "loader/columns/token_rows.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "loader/columns/assembly.h"
#include "loader/open_datasets.h"
#include "loader/plan/permutation.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/job.h"

namespace shardkit::loader {
namespace {

// A group ends when it has so many rows, or so many bytes of all columns with a few rows. Only its last row, with
// kConcat, is not full: of 128 rows, less than 0.4 % of the positions on average.
constexpr uint64_t kGroupRows = 128;
constexpr uint64_t kFewRows = 8;
constexpr uint64_t kGroupBytes = uint64_t{32} << 20;

std::vector<RowPiece> PackOneAfterAnother(std::span<const uint32_t> lengths, uint32_t context,
                                          std::optional<uint64_t> key) {
  std::vector<uint32_t> order;
  if (key) {
    order = ShuffledIndexes(static_cast<uint32_t>(lengths.size()), *key);
  } else {
    order.resize(lengths.size());
    std::iota(order.begin(), order.end(), 0u);
  }
  std::vector<RowPiece> pieces;
  uint32_t row = 0, filled = 0;
  for (const uint32_t document : order) {
    for (uint32_t offset = 0; offset < lengths[document];) {
      if (filled == context) {
        ++row;
        filled = 0;
      }
      const uint32_t length = std::min(lengths[document] - offset, context - filled);
      pieces.push_back({document, row, filled, offset, length});
      offset += length;
      filled += length;
    }
  }
  return pieces;
}

// Swaps pieces of about the same length between rows that have room for them, so that each key has other ones
// together. `by_length` has the pieces in the order of their lengths.
void MixRows(std::span<const uint32_t> by_length, uint32_t context, uint64_t key, std::vector<uint32_t> room,
             std::vector<RowPiece>* pieces) {
  constexpr uint64_t kNear = 16, kPasses = 8;
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    for (uint32_t i = 0; i + 1 < by_length.size(); ++i) {
      const uint64_t near = std::min<uint64_t>(kNear, by_length.size() - i - 1);
      RowPiece& a = (*pieces)[by_length[i]];
      RowPiece& b = (*pieces)[by_length[i + 1 + RandomBelow(Derive(key, pass << 32 | i), near)]];
      const uint32_t more = a.length - b.length;  // for the row of b
      if (a.row == b.row || room[b.row] < more || a.length == context) continue;
      room[b.row] -= more;
      room[a.row] += more;
      std::swap(a.row, b.row);
    }
  }
}

// Best-fit decreasing (Johnson, 1973; for documents: Ding et al., Fewer Truncations Improve Language Modeling, 2024):
// the longest pieces first, each into the row with the least room that is enough. Makes at most 11/9 of the fewest rows
// possible plus one, in practice a few per thousand more than the fewest.
std::vector<RowPiece> PackByBestFit(std::span<const uint32_t> lengths, uint32_t context, std::optional<uint64_t> key) {
  std::vector<RowPiece> pieces;
  for (uint32_t document = 0; document < lengths.size(); ++document) {
    for (uint32_t left = lengths[document]; left > 0; left -= std::min(left, context)) {
      pieces.push_back({document, 0, 0, lengths[document] - left, std::min(left, context)});
    }
  }
  std::vector<uint32_t> by_length(pieces.size());
  std::iota(by_length.begin(), by_length.end(), 0u);
  std::ranges::stable_sort(by_length, std::greater<>(), [&](uint32_t i) { return pieces[i].length; });
  std::set<std::pair<uint32_t, uint32_t>> open;  // room and number of rows that are not full
  std::vector<uint32_t> room;                    // of all rows
  for (const uint32_t i : by_length) {
    RowPiece& piece = pieces[i];
    const auto row = open.lower_bound({piece.length, 0});
    piece.row = row == open.end() ? static_cast<uint32_t>(room.size()) : row->second;
    if (row == open.end()) {
      room.push_back(context);
    } else {
      open.erase(row);
    }
    room[piece.row] -= piece.length;
    if (room[piece.row] > 0) open.insert({room[piece.row], piece.row});
  }
  std::vector<uint32_t> place;  // of rows without a key: in the order of their first documents
  if (key) {
    MixRows(by_length, context, *key, room, &pieces);
    std::ranges::stable_sort(
        pieces, {}, [&](const RowPiece& piece) { return Derive(*key, uint64_t{piece.document} << 32 | piece.offset); });
  } else {
    place.assign(room.size(), UINT32_MAX);
    uint32_t next = 0;
    for (RowPiece& piece : pieces) {
      if (place[piece.row] == UINT32_MAX) place[piece.row] = next++;
      piece.row = place[piece.row];
    }
  }
  std::ranges::stable_sort(pieces, {}, &RowPiece::row);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool first = i == 0 || pieces[i - 1].row != pieces[i].row;
    pieces[i].begin = first ? 0 : pieces[i - 1].begin + pieces[i - 1].length;
  }
  return pieces;
}

// Of the documents of a dataset, in tokens. What is no sequence of tokens counts as one, so that it is reported where
// it is read.
absl::StatusOr<std::vector<uint32_t>> ReadLengths(ReadableFileSystem& file_system, const LoaderDataset& dataset,
                                                  const Column& stored, const LoaderColumn& column,
                                                  const ReadOptions& read, BadSamples bad_samples,
                                                  std::span<const PlanBlock> blocks) {
  DatasetOptions options;
  static_cast<ReadOptions&>(options) = read;
  // The lengths of blobs stand apart from them. A map reads only the lengths; the blobs are checked when they are
  // loaded.
  if (stored.type == Type::kBytes && options.mode == ReadMode::kAuto) {
    options.mode = ReadMode::kMapped;
    options.verify = Verify::kNever;
  }
  options.columns = {SourceOf(column)};
  options.generation = dataset.generation;
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(file_system, dataset.path, options));
  const uint64_t size = ScalarSize(TokenType(stored, column));
  std::vector<uint32_t> lengths;
  lengths.reserve(reader->sample_count());
  ScanOptions scan{.threads = ScanThreads(dataset.path)};
  std::unique_ptr<BlockScanner> scanner;
  while (lengths.size() < reader->sample_count()) {
    if (scanner == nullptr) {
      scan.first_sample = lengths.size();
      SHARDKIT_ASSIGN_OR_RETURN(scanner, reader->Scan(scan));
    }
    const auto block = scanner->Next();
    if (absl::IsDataLoss(block.status()) && bad_samples == BadSamples::kSkip) {
      const auto bad = std::ranges::upper_bound(blocks, lengths.size(), {}, &PlanBlock::first_sample);
      lengths.resize(bad == blocks.end() ? reader->sample_count() : bad->first_sample, 1);
      scanner = nullptr;
      continue;
    }
    if (!block.ok()) return absl::IsDataLoss(block.status()) ? WithWayOn(block.status()) : block.status();
    if (*block == nullptr) break;
    for (uint32_t i = 0; i < (*block)->view().sample_count(); ++i) {
      const std::optional<std::string_view> value = (*block)->view().column(0).value(i);
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
    SHARDKIT_RETURN_IF_ERROR((*block)->CheckMapped());
  }
  return lengths;
}

}  // namespace

std::vector<RowPiece> PackDocuments(std::span<const uint32_t> lengths, uint32_t context, TokenPacking packing,
                                    std::optional<uint64_t> key) {
  return packing == TokenPacking::kConcat ? PackOneAfterAnother(lengths, context, key)
                                          : PackByBestFit(lengths, context, key);
}

absl::StatusOr<std::shared_ptr<const TokenRows>> TokenRows::Create(ReadableFileSystem& file_system,
                                                                   const LoaderDataset& dataset, const Column& stored,
                                                                   const LoaderColumn& column,
                                                                   const PlanOptions& options, const ReadOptions& read,
                                                                   BadSamples bad_samples, PlanDataset* shape) {
  SHARDKIT_RETURN_IF_ERROR(CheckTokens(stored, column));
  if (shape->weights != nullptr) {
    return InvalidArgument(dataset.path, ": weights and balance are of samples, and column \"", column.name,
                           "\" packs several into a row");
  }
  auto rows = std::shared_ptr<TokenRows>(new TokenRows);
  rows->context_ = column.context;
  rows->packing_ = column.packing;
  rows->shuffled_ = options.order != SampleOrder::kSequential;
  rows->seed_ = options.seed;
  SHARDKIT_ASSIGN_OR_RETURN(rows->lengths_,
                            ReadLengths(file_system, dataset, stored, column, read, bad_samples, shape->blocks));
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
    const uint64_t full = tokens / context_;
    const bool enough = full >= kGroupRows || (full >= kFewRows && bytes >= kGroupBytes);
    if (tokens == 0 || (!enough && b + 1 < blocks_.size())) continue;
    if (full >= UINT32_MAX) {
      return InvalidArgument(tokens, " tokens in rows of ", context_, " are too many rows; give a longer context");
    }
    groups_.push_back(document);
    uint32_t rows = static_cast<uint32_t>(full + (tokens % context_ > 0 ? 1 : 0));
    if (packing_ == TokenPacking::kBestFit) {
      const auto group = static_cast<uint32_t>(groups_.size() - 2);
      rows = PackByBestFit(Lengths(group), context_, std::nullopt).back().row + 1;
    }
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
  std::optional<uint64_t> key;
  if (shuffled_) key = Derive(Derive(Derive(Mix(seed_), epoch), uint64_t{5} << 61), group);
  return PackDocuments(Lengths(group), context_, packing_, key);
}

}  // namespace shardkit::loader
