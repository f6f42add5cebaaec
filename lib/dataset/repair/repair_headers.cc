#include "dataset/repair/repair_headers.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "format/block_header.h"
#include "format/chunk.h"

namespace shardkit::dataset {
namespace {

// A file with whole blocks behind its end, each made of a header and of the chunks that lie somewhere in the file. A
// header cannot be put back where it was: when bytes were removed, other blocks may lie there.
class RestoredFile final : public RandomAccessFile {
 public:
  struct Block {
    std::string header;
    uint64_t chunks = 0;  // where they begin in the file
    uint64_t length = 0;  // of the block
  };

  // `blocks`: by where they lie, one after another behind the end of `base`, and up to `size`.
  RestoredFile(std::unique_ptr<RandomAccessFile> base, std::map<uint64_t, Block> blocks, uint64_t size)
      : base_(std::move(base)), blocks_(std::move(blocks)), size_(size) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return size_; }

  // REQUIRES: the bytes lie in one block, or in the file.
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (offset < base_->size()) return base_->ReadAt(offset, buffer);
    const auto& [begin, block] = *std::prev(blocks_.upper_bound(offset));
    const uint64_t from = offset - begin;
    const size_t of_header = from < block.header.size() ? std::min(buffer.size(), block.header.size() - from) : 0;
    if (of_header != 0) std::memcpy(buffer.data(), block.header.data() + from, of_header);
    if (of_header == buffer.size()) return absl::OkStatus();
    return base_->ReadAt(block.chunks + (from + of_header - block.header.size()), buffer.subspan(of_header));
  }

 private:
  const std::unique_ptr<RandomAccessFile> base_;
  const std::map<uint64_t, Block> blocks_;
  const uint64_t size_;
};

// Whether the chunks that `block` describes, `length` bytes, lie at `place`.
absl::StatusOr<bool> ChunksAreWhole(const RandomAccessFile& file, const Schema& schema,
                                    const format::BlockHeader& block, uint64_t place, uint64_t length,
                                    const Cancellation* cancellation) {
  if (!RangeWithin(place, length, file.size())) return false;
  format::ChunkChecker checker(schema, block);
  Buffer piece;
  for (uint64_t done = 0; done < length; done += piece.size()) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("checking blocks"));
    piece.resize_discard(std::min(kCopyPiece, length - done));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place + done, {piece.data(), piece.size()}));
    checker.Update(piece.view());
    if (!checker.damaged_columns().empty()) return false;
  }
  return checker.damaged_columns().empty();
}

}  // namespace

absl::Status RestoreHeaders(const HeaderFinding& header, const Cancellation* cancellation, FooterFinding* footer,
                            ScanResult* scan, std::unique_ptr<RandomAccessFile>* file) {
  const Schema& schema = header.header.schema;
  const uint64_t header_length = format::BlockHeaderLength(schema.size());
  std::erase_if(scan->blocks, [&](const FoundBlock& copy) {
    // A block without bytes in its chunks is its header.
    const bool in_copies = std::ranges::any_of(footer->block_headers, [&](const HeaderCopies& copies) {
      return copy.info.offset >= copies.begin && copy.info.offset - copies.begin < copies.bytes.size() &&
             (copy.info.offset - copies.begin) % header_length == 0;
    });
    return (!copy.whole || copy.info.length == header_length) && in_copies;
  });
  if (footer->block_headers.empty()) return absl::OkStatus();
  // Where bytes were inserted or removed decides which of the places is right.
  const std::set<uint64_t> shifts = {0, header.base, footer->shift};
  std::set<uint64_t> listed, found;
  for (const BlockInfo& block : *footer->directory) listed.insert(block.header_checksum);
  for (const FoundBlock& block : scan->blocks) {
    if (block.whole) found.insert(block.info.header_checksum);
  }
  std::map<uint64_t, RestoredFile::Block> restored;
  uint64_t size = RoundUp((*file)->size(), format::kMinAlignment);
  size_t first = 0;
  for (size_t k = 0; k < footer->directory->size(); ++k) {
    const BlockInfo& info = (*footer->directory)[k];
    if (found.contains(info.header_checksum)) continue;
    format::BlockHeader block;
    const auto copies = std::ranges::find_if(footer->block_headers, [&](const HeaderCopies& each) {
      return format::DecodeBlockHeader(schema, std::string_view(each.bytes).substr(header_length * k, header_length),
                                       &block)
                 .ok() &&
             block.checksum == info.header_checksum;
    });
    if (copies == footer->block_headers.end()) continue;
    std::string bytes = copies->bytes.substr(header_length * k, header_length);
    for (const uint64_t shift : shifts) {
      const uint64_t chunks = info.offset + shift + header_length, length = block.block_length - header_length;
      SHARDKIT_ASSIGN_OR_RETURN(const bool whole, ChunksAreWhole(**file, schema, block, chunks, length, cancellation));
      if (!whole) continue;
      // What looks like a block there is part of a value, unless the shard has such a block.
      std::erase_if(scan->blocks, [&](const FoundBlock& other) {
        return other.info.offset >= chunks && other.info.offset - chunks < length &&
               !(other.whole && listed.contains(other.info.header_checksum));
      });
      scan->blocks.push_back({.info = {size, block.block_length, block.front_length, block.first_sample,
                                       block.sample_count, block.checksum},
                              .whole = true,
                              .damaged_columns = {}});
      if (restored.empty()) first = k;
      restored.emplace(size, RestoredFile::Block{std::move(bytes), chunks, block.block_length});
      size += block.block_length;
      break;
    }
  }
  if (restored.empty()) return absl::OkStatus();
  footer->problems.push_back(
      restored.size() == 1 ? StrCat("block ", first, ": its header is damaged; the copy in the footer is in its place")
                           : StrCat("the headers of ", restored.size(), " blocks, the first of them block ", first,
                                    ", are damaged; the copies in the footer are in their place"));
  *file = std::make_unique<RestoredFile>(std::move(*file), std::move(restored), size);
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
