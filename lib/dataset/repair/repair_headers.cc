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
#include "format/chunk_checker.h"

namespace shardkit::dataset {
namespace {

// A file with other bytes at some places.
class PatchedFile final : public RandomAccessFile {
 public:
  // `patches`: offset to bytes; none overlap.
  PatchedFile(std::unique_ptr<RandomAccessFile> base, std::map<uint64_t, std::string> patches)
      : base_(std::move(base)), patches_(std::move(patches)) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    SHARDKIT_RETURN_IF_ERROR(base_->ReadAt(offset, buffer));
    auto patch = patches_.upper_bound(offset);
    if (patch != patches_.begin()) --patch;
    for (; patch != patches_.end() && patch->first < offset + buffer.size(); ++patch) {
      const uint64_t begin = std::max(offset, patch->first);
      const uint64_t end = std::min(offset + buffer.size(), patch->first + patch->second.size());
      if (begin >= end) continue;
      std::memcpy(buffer.data() + (begin - offset), patch->second.data() + (begin - patch->first), end - begin);
    }
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<RandomAccessFile> base_;
  const std::map<uint64_t, std::string> patches_;
};

// Whether the chunks that `block` describes lie at `place`.
absl::StatusOr<bool> ChunksAreWhole(const RandomAccessFile& file, const Schema& schema,
                                    const format::BlockHeader& block, uint64_t place,
                                    const Cancellation* cancellation) {
  if (!RangeWithin(place, block.block_length, file.size())) return false;
  format::ChunkChecker checker(schema, block);
  Buffer piece;
  for (uint64_t done = format::BlockHeaderLength(schema.size()); done < block.block_length; done += piece.size()) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("checking blocks"));
    piece.resize_discard(std::min(kCopyPiece, block.block_length - done));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(place + done, {piece.data(), piece.size()}));
    checker.Update(piece.view());
    if (!checker.damaged_columns().empty()) return false;
  }
  return checker.damaged_columns().empty();
}

}  // namespace

absl::Status RestoreHeaders(const HeaderFinding& header, const Cancellation* cancellation, FooterFinding* footer,
                            ScanResult* scan, std::unique_ptr<RandomAccessFile>* file) {
  std::erase_if(scan->blocks, [&](const FoundBlock& copy) {
    return copy.info.offset >= footer->block_headers_begin && copy.info.offset < footer->block_headers_end;
  });
  if (footer->block_headers.empty()) return absl::OkStatus();
  const Schema& schema = header.header.schema;
  const uint64_t header_length = format::BlockHeaderLength(schema.size());
  // Where bytes were inserted or removed decides which of the places is right.
  const std::set<uint64_t> shifts = {0, header.base, footer->shift};
  std::set<uint64_t> listed, found;
  for (const BlockInfo& block : *footer->directory) listed.insert(block.header_checksum);
  for (const FoundBlock& block : scan->blocks) {
    if (block.whole) found.insert(block.info.header_checksum);
  }
  std::map<uint64_t, std::string> patches;
  size_t first_restored = SIZE_MAX;
  for (size_t k = 0; k < footer->directory->size(); ++k) {
    BlockInfo info = (*footer->directory)[k];
    if (found.contains(info.header_checksum)) continue;
    std::string bytes = footer->block_headers.substr(header_length * k, header_length);
    format::BlockHeader block;
    if (!format::DecodeBlockHeader(schema, bytes, &block).ok() || block.checksum != info.header_checksum) continue;
    for (const uint64_t shift : shifts) {
      info.offset = (*footer->directory)[k].offset + shift;
      SHARDKIT_ASSIGN_OR_RETURN(const bool whole, ChunksAreWhole(**file, schema, block, info.offset, cancellation));
      if (!whole) continue;
      const auto overlaps = [&](const FoundBlock& other) {
        return other.info.offset < info.offset + info.length && info.offset < other.info.offset + other.info.length;
      };
      // The header must not be put over a block of the shard that has its own.
      if (std::ranges::any_of(scan->blocks, [&](const FoundBlock& other) {
            return other.whole && listed.contains(other.info.header_checksum) && overlaps(other);
          })) {
        continue;
      }
      std::erase_if(scan->blocks, [&](const FoundBlock& other) {
        return other.info.offset >= info.offset && other.info.offset < info.offset + info.length;
      });
      const auto place = std::ranges::upper_bound(scan->blocks, info.offset, {},
                                                  [](const FoundBlock& other) { return other.info.offset; });
      scan->blocks.insert(place, {.info = info, .previous = block.previous, .whole = true, .damaged_columns = {}});
      patches[info.offset] = std::move(bytes);
      first_restored = std::min(first_restored, k);
      break;
    }
  }
  if (patches.empty()) return absl::OkStatus();
  footer->problems.push_back(
      patches.size() == 1
          ? StrCat("block ", first_restored, ": its header is damaged; the copy in the footer is in its place")
          : StrCat("the headers of ", patches.size(), " blocks, the first of them block ", first_restored,
                   ", are damaged; the copies in the footer are in their place"));
  *file = std::make_unique<PatchedFile>(std::move(*file), std::move(patches));
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
