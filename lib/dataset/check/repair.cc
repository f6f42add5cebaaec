#include "shardkit/repair.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/read/native_shard_reader.h"
#include "container/read/record_reader.h"
#include "container/write/block_builder.h"
#include "container/write/block_encoder.h"
#include "container/write/block_encoding.h"
#include "container/write/shard_file_writer.h"
#include "dataset/check/repair_footer.h"
#include "dataset/check/repair_header.h"
#include "dataset/check/repair_scan.h"
#include "dataset/check/repair_select.h"
#include "dataset/check/repair_shard.h"
#include "dataset/check/validate_shard.h"
#include "dataset/dataset_files.h"
#include "dataset/foreign/foreign_dataset.h"
#include "format/block_header.h"
#include "format/chunk.h"
#include "io/without_sync.h"
#include "shardkit/job.h"

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

// Removes from *scan the copies themselves, which look like blocks whose chunks are damaged. Then adds to *scan the
// blocks of the directory that were not found whole, where all their chunks are whole behind the place of the header.
// What was found within such a block is removed: it is part of a value. *file then has these blocks behind its end.
// Says in footer->problems which they are.
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

struct SalvagedBlock {
  std::optional<container::EncodedBlock> block;  // empty when no sample is whole
  // Ranges [begin, end) of samples within the block, ascending.
  std::vector<std::pair<uint32_t, uint32_t>> lost;
  std::vector<size_t> damaged_columns;
};

// Larger blocks are not taken apart: by the rule that closes blocks, a single value makes such a block so large.
constexpr uint64_t kLargestBlock = uint64_t{256} << 20;

absl::StatusOr<container::BlockEncoding> PlanOf(const container::NativeShardReader& shard) {
  SHARDKIT_ASSIGN_OR_RETURN(container::BlockEncoding plan, container::MakeBlockEncoding(shard.schema(), {}));
  for (const format::Dictionary& dictionary : shard.header().dictionaries) {
    auto loaded = codec::ZstdDictionary::Create(dictionary.bytes, plan.zstd_levels[dictionary.column]);
    // Without a dictionary that cannot be loaded, the samples are only larger.
    if (loaded.ok()) plan.dictionaries[dictionary.column] = *std::move(loaded);
  }
  return plan;
}

// Reads block `index` value by value, and encodes again the samples whose values all have the right checksum. DataLoss
// or OutOfRange when the head chunks are not whole or the block is too large.
absl::StatusOr<SalvagedBlock> SalvageBlock(const container::NativeShardReader& shard, size_t index,
                                           const Cancellation* cancellation) {
  const BlockInfo& info = shard.blocks()[index];
  if (info.length > kLargestBlock) return DataLoss("the block is too large to be taken apart");
  for (const Column& column : shard.schema().columns()) {
    if (!IsKnownCodec(column.codec)) return DataLoss("a column of an unknown codec cannot be taken apart");
  }
  BlockBuffer heads, records;
  std::vector<BlockBuffer> pages(shard.schema().size());  // one per column, since each keeps the page read last
  BlockView view;
  SHARDKIT_RETURN_IF_ERROR(shard.ReadHeads(index, &heads, &view));
  const format::BlockHeader header = heads.state().header;
  SHARDKIT_ASSIGN_OR_RETURN(const container::BlockEncoding plan, PlanOf(shard));
  container::BlockBuilder builder(plan.schema, UINT64_MAX, info.sample_count);
  SalvagedBlock salvaged;
  std::vector<std::optional<Value>> values(plan.schema.size());
  std::vector<std::string> single_values(plan.schema.size());
  for (uint32_t i = 0; i < info.sample_count; ++i) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("taking a damaged block apart"));
    bool whole = true;
    for (size_t column = 0; column < values.size(); ++column) {
      values[column].reset();
      if (!view.column(column).present(i)) continue;
      if (!plan.schema[column].has_values_chunk()) {
        values[column] = Value(view.column(column).bytes(i));
        continue;
      }
      const auto read = [&]() -> absl::StatusOr<std::optional<std::string_view>> {
        if (plan.schema[column].is_paged()) return shard.ReadValue(info.first_sample + i, column, &pages[column]);
        const uint64_t base = info.offset + header.columns[column].values_offset;
        const uint64_t begin = i == 0 ? 0 : view.column(column).end(i - 1);
        return container::ReadRecordAt(shard.file(), shard.options(), base + begin, base + view.column(column).end(i),
                                       &records);
      };
      const absl::StatusOr<std::optional<std::string_view>> value = read();
      if (!value.ok() && !absl::IsDataLoss(value.status())) return value.status();
      if (!value.ok()) {
        whole = false;
        if (std::ranges::find(salvaged.damaged_columns, column) == salvaged.damaged_columns.end()) {
          salvaged.damaged_columns.push_back(column);
        }
        continue;
      }
      single_values[column] = **value;
      values[column] = Value(single_values[column]);
    }
    if (whole && container::CheckValues(plan.schema, values).ok()) {
      builder.Add(values);
    } else if (!salvaged.lost.empty() && salvaged.lost.back().second == i) {
      ++salvaged.lost.back().second;
    } else {
      salvaged.lost.emplace_back(i, i + 1);
    }
  }
  std::ranges::sort(salvaged.damaged_columns);
  if (builder.empty()) return salvaged;
  SHARDKIT_ASSIGN_OR_RETURN(salvaged.block, container::BlockEncoder().Encode(plan, builder.Take()));
  return salvaged;
}

}  // namespace
}  // namespace shardkit::dataset

namespace shardkit {
namespace {

// A key counts once more for every so many bytes, because the report holds all keys in memory.
constexpr uint64_t kKeyUnit = 256;

class ShardRepair {
 public:
  ShardRepair(FileSystem& file_system, const std::string& path, const std::string& output, const RepairOptions& options,
              const dataset::ListedShard* listing, uint64_t* keys_left)
      : file_system_(file_system), options_(options), listing_(listing), keys_left_(*keys_left) {
    report_.path = path;
    report_.output = output;
  }

  absl::StatusOr<RepairReport> Run() {
    SHARDKIT_RETURN_IF_ERROR(CheckPaths());
    SHARDKIT_ASSIGN_OR_RETURN(file_, file_system_.OpenForReading(report_.path));
    file_size_ = file_->size();
    SHARDKIT_RETURN_IF_ERROR(Investigate());
    SHARDKIT_RETURN_IF_ERROR(Find());
    Select();
    SHARDKIT_RETURN_IF_ERROR(Write());
    return std::move(report_);
  }

 private:
  absl::Status CheckPaths() const {
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo input, file_system_.Stat(report_.path));
    if (input.type != FileType::kRegular) return InvalidArgument(report_.path, ": is not a file");
    SHARDKIT_RETURN_IF_ERROR(dataset::RefuseOtherContainers(file_system_, report_.path, input));
    const std::string temporary = StrCat(report_.output, container::kTemporarySuffix);
    for (const std::string& path : {report_.output, temporary}) {
      const absl::StatusOr<FileInfo> info = file_system_.Stat(path);
      if (absl::IsNotFound(info.status())) continue;
      if (!info.ok()) return info.status();
      const bool same =
          path == report_.path || (info->inode != 0 && info->inode == input.inode && info->device == input.device);
      if (same) {
        return InvalidArgument(report_.output, ": repairing it would write over ", report_.path,
                               "; name another output and replace the shard when you are content");
      }
      return absl::AlreadyExistsError(
          StrCat(path, path == temporary ? ": another repair is at work, or was interrupted; remove it then"
                                         : ": already exists"));
    }
    return absl::OkStatus();
  }

  // Finds the header, the trailer, and the sections that the trailer points to.
  absl::Status Investigate() {
    absl::StatusOr<dataset::EndOfShard> end = dataset::ReadEndOfShard(*file_);
    if (!end.ok() && !absl::IsDataLoss(end.status())) return end.status();
    SHARDKIT_ASSIGN_OR_RETURN(
        header_, dataset::FindHeader(file_system_, *file_, end.ok() ? &*end : nullptr, options_.schema_from, listing_));
    Append(std::move(header_.problems), &report_.problems);
    Append(std::move(header_.notes), &report_.notes);
    if (!end.ok()) {
      report_.problems.emplace_back(ToStd(end.status().message()));
      return absl::OkStatus();
    }
    SHARDKIT_ASSIGN_OR_RETURN(const bool own, IsOwnEnd(*end));
    if (!own) {
      report_.problems.emplace_back("trailer: it is that of another shard");
      return absl::OkStatus();
    }
    if (end->shift != header_.base) {
      report_.problems.push_back(StrCat("trailer: the shard had ", end->trailer.file_length, " bytes, the file has ",
                                        file_->size(), ": bytes were inserted or removed"));
    }
    SHARDKIT_ASSIGN_OR_RETURN(footer_, dataset::ReadFooter(*file_, header_, *end));
    return absl::OkStatus();
  }

  // False when header and trailer disagree, and for the trailer of a shard that was put behind this one, which begins
  // where the trailer says.
  absl::StatusOr<bool> IsOwnEnd(const dataset::EndOfShard& end) const {
    if (end.trailer.shard_id != header_.header.shard_id) return false;
    if (end.shift == header_.base || end.shift >= file_->size()) return true;
    std::string bytes(std::min<uint64_t>(8, file_->size() - end.shift), '\0');
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(end.shift, {bytes.data(), bytes.size()}));
    return bytes != format::kHeaderMagic;
  }

  absl::Status Find() {
    std::vector<uint64_t> more_places;
    // Bytes may have been inserted before the blocks, or behind them.
    for (const uint64_t shift : {uint64_t{0}, footer_.shift}) {
      if (!footer_.directory || shift == header_.base) continue;
      for (const BlockInfo& block : *footer_.directory) {
        const uint64_t place = block.offset + shift;
        if (place < file_->size()) more_places.push_back(place);
      }
    }
    std::ranges::sort(more_places);
    SHARDKIT_ASSIGN_OR_RETURN(scan_, dataset::ScanForBlocks(*file_, header_, more_places, options_.cancellation,
                                                            [this](uint64_t bytes) { Progress(bytes); }));
    if (scan_.gave_up) {
      report_.notes.emplace_back("so much of the file pretends to be blocks that not all of it was looked at");
    }
    // A whole trailer may point to a wrong place, when bytes were inserted before it.
    if (!footer_.directory && !footer_.metadata) SHARDKIT_RETURN_IF_ERROR(FindSections());
    SHARDKIT_RETURN_IF_ERROR(dataset::RestoreHeaders(header_, options_.cancellation, &footer_, &scan_, &file_));
    if (!footer_.directory) report_.problems.emplace_back("block directory: it is damaged or gone");
    Append(std::move(footer_.problems), &report_.problems);
    Append(std::move(footer_.notes), &report_.notes);
    return absl::OkStatus();
  }

  // Looks for a section table outside of the whole blocks.
  absl::Status FindSections() {
    uint64_t end = file_->size();
    for (size_t i = scan_.blocks.size() + 1; i-- > 0;) {
      if (i > 0 && !scan_.blocks[i - 1].whole) continue;
      const uint64_t begin = i > 0 ? scan_.blocks[i - 1].info.offset + scan_.blocks[i - 1].info.length : header_.base;
      SHARDKIT_ASSIGN_OR_RETURN(auto footer, dataset::SearchFooter(*file_, header_, begin, end, options_.cancellation));
      if (footer && ListsFound(*footer)) {
        Append(std::move(footer_.problems), &report_.problems);
        if (!footer->sample_count) {
          footer->sample_count = footer_.sample_count;
          footer->block_count = footer_.block_count;
        }
        footer_ = *std::move(footer);
        return absl::OkStatus();
      }
      if (i > 0) end = scan_.blocks[i - 1].info.offset;
    }
    return absl::OkStatus();
  }

  // False for the directory of another shard, as of one in a value.
  bool ListsFound(const dataset::FooterFinding& footer) const {
    if (!footer.directory || scan_.blocks.empty()) return true;
    return std::ranges::any_of(scan_.blocks, [&](const dataset::FoundBlock& block) {
      return std::ranges::find(*footer.directory, block.info.header_checksum, &BlockInfo::header_checksum) !=
             footer.directory->end();
    });
  }

  void Select() {
    if (footer_.directory) {
      selection_ = dataset::SelectByDirectory(scan_.blocks, *footer_.directory);
    } else {
      dataset::ShardBounds bounds;
      bounds.sample_count = footer_.sample_count;
      bounds.block_count = footer_.block_count;
      if (!bounds.sample_count && ListingFits()) {
        bounds.sample_count = listing_->entry->samples;
        bounds.block_count = listing_->entry->blocks;
      }
      report_.end_known = bounds.sample_count.has_value();
      selection_ = dataset::SelectBySample(scan_.blocks, bounds);
    }
    if (selection_.copies != 0) {
      report_.notes.push_back(StrCat(selection_.copies, " further copies of blocks were left out"));
    }
    if (selection_.strangers != 0) {
      report_.notes.push_back(StrCat(selection_.strangers, " whole blocks were left out: others have their samples"));
    }
    if (!report_.end_known) {
      report_.notes.emplace_back("nothing is left that tells how many samples the shard had: there may have been more");
    }
  }

  // False when the blocks show that the shard was replaced after the manifest was written.
  bool ListingFits() const {
    if (listing_ == nullptr || !listing_->entry) return false;
    return std::ranges::all_of(scan_.blocks, [&](const dataset::FoundBlock& block) {
      return !block.whole || block.info.first_sample + block.info.sample_count <= listing_->entry->samples;
    });
  }

  Metadata ChooseMetadata() {
    if (footer_.metadata) return *footer_.metadata;
    if (listing_ != nullptr) {
      report_.notes.emplace_back("metadata: it is gone; what dataset.json says of all shards is in its place");
      return listing_->manifest.metadata;
    }
    report_.notes.emplace_back("metadata: it is gone; the output has none");
    return {};
  }

  // Where the header is not the shard's own, the directory tells its alignment.
  void ChooseAlignment() {
    if (header_.certain) return;
    if (footer_.alignment != 0) header_.header.alignment = footer_.alignment;
  }

  // Blocks that need such a dictionary are lost. Without it the output is whole.
  void DropDamagedDictionaries() {
    for (const auto& damaged : shard_->damaged_dictionaries()) {
      std::erase_if(header_.header.dictionaries,
                    [&](const auto& dictionary) { return dictionary.column == damaged.first; });
      report_.problems.push_back(StrCat("header: column \"", header_.header.schema[damaged.first].name,
                                        "\": ", ToStd(damaged.second.message()), "; the dictionary is left out"));
    }
  }

  // What repair cannot do for columns whose values it cannot read.
  absl::Status CheckCodecs() {
    for (const Column& column : header_.header.schema.columns()) {
      if (IsKnownCodec(column.codec)) continue;
      if (column.is_key) {
        return Unimplemented("key column \"", column.name, "\" has ", CodecName(column.codec),
                             ", which this version does not know, so that the key index cannot be made: repair it with "
                             "a newer version");
      }
      report_.notes.push_back(StrCat("column \"", column.name, "\" has ", CodecName(column.codec),
                                     ", which this version does not know: its chunks are copied where their checksums "
                                     "hold, and the footer says nothing of its values"));
    }
    return absl::OkStatus();
  }

  absl::Status Write() {
    SHARDKIT_RETURN_IF_ERROR(CheckCodecs());
    const bool nothing = std::ranges::none_of(selection_.pieces, [&](const dataset::ShardPiece& piece) {
      return piece.found && MayYield(scan_.blocks[*piece.found]);
    });
    const bool was_empty = selection_.pieces.empty() && report_.end_known;
    std::vector<BlockInfo> infos;
    for (const dataset::ShardPiece& piece : selection_.pieces) {
      BlockInfo info;
      info.first_sample = piece.first_sample;
      if (piece.found) info = scan_.blocks[*piece.found].info;
      infos.push_back(info);
    }
    ChooseAlignment();
    ReadOptions read;
    read.max_decompression = options_.max_decompression;
    SHARDKIT_ASSIGN_OR_RETURN(
        shard_, container::NativeShardReader::OpenBlocks(std::move(file_), header_.header, std::move(infos), read));
    if (!nothing || was_empty) {
      DropDamagedDictionaries();
      ShardOptions shard_options;
      shard_options.metadata = ChooseMetadata();
      SHARDKIT_ASSIGN_OR_RETURN(writer_, container::ShardFileWriter::CreateWithHeader(
                                             file_system_, report_.output, header_.header, std::move(shard_options)));
    }
    for (size_t i = 0; i < selection_.pieces.size(); ++i) {
      if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("repairing a shard"));
      SHARDKIT_RETURN_IF_ERROR(TakePiece(i));
      taken_bytes_ += shard_->blocks()[i].length;
      Progress(file_size_ + std::min(taken_bytes_, file_size_));
    }
    if (writer_ && (report_.samples_recovered != 0 || was_empty)) {
      SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary summary, writer_->Finish());
      report_.written = true;
      report_.content_hash = summary.content_hash;
      report_.bytes = summary.file_length;
    } else if (writer_) {
      SHARDKIT_RETURN_IF_ERROR(writer_->Abort());
    }
    Progress(2 * file_size_);
    return absl::OkStatus();
  }

  bool MayYield(const dataset::FoundBlock& block) const { return block.whole || options_.keep_samples; }

  absl::Status TakePiece(size_t index) {
    const dataset::ShardPiece& piece = selection_.pieces[index];
    if (!piece.found) {
      Lose(piece, piece.first_sample, piece.sample_count, GapReason(piece), {});
      return absl::OkStatus();
    }
    const dataset::FoundBlock& found = scan_.blocks[*piece.found];
    std::string problem;
    if (found.whole) {
      SHARDKIT_ASSIGN_OR_RETURN(problem, CopyBlock(index));
      if (problem.empty()) {
        ++report_.blocks_recovered;
        report_.samples_recovered += piece.sample_count;
        return absl::OkStatus();
      }
    } else {
      problem = found.cut_short ? "the file ends within it" : DescribeColumns(found);
    }
    if (writer_ && options_.keep_samples) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool kept, KeepSamples(index, problem));
      if (kept) return absl::OkStatus();
    }
    SHARDKIT_ASSIGN_OR_RETURN(std::vector<std::string> keys, ReadKeys(index, 0, piece.sample_count));
    Lose(piece, piece.first_sample, piece.sample_count, problem, std::move(keys), found.damaged_columns);
    return absl::OkStatus();
  }

  // Empty when the block was copied, else why it was not.
  absl::StatusOr<std::string> CopyBlock(size_t index) {
    SHARDKIT_ASSIGN_OR_RETURN(
        dataset::BlockFindings findings,
        dataset::CheckBlock(*shard_, index, {{.cancellation = options_.cancellation}}, nullptr, &buffer_));
    if (!findings.problems.empty() || !findings.readable) {
      const std::string problem =
          findings.problems.empty() ? "it cannot be read" : std::string(ToStd(findings.problems[0].message()));
      const std::string_view prefix = shard_->path();
      return std::string(problem.starts_with(prefix) ? problem.substr(prefix.size() + 2) : problem);
    }
    container::StoredBlock block;
    block.header = buffer_.state().header;
    block.source = &shard_->file();
    block.offset = shard_->blocks()[index].offset;
    block.statistics = std::move(findings.statistics);
    block.key_hashes = std::move(findings.key_hashes);
    SHARDKIT_RETURN_IF_ERROR(writer_->Copy(std::move(block), options_.cancellation));
    return std::string();
  }

  // False when none of the block's samples can be kept.
  absl::StatusOr<bool> KeepSamples(size_t index, const std::string& problem) {
    const dataset::ShardPiece& piece = selection_.pieces[index];
    absl::StatusOr<dataset::SalvagedBlock> salvaged = dataset::SalvageBlock(*shard_, index, options_.cancellation);
    if (absl::IsDataLoss(salvaged.status()) || absl::IsOutOfRange(salvaged.status())) return false;
    if (!salvaged.ok()) return salvaged.status();
    if (!salvaged->block) return false;
    const uint64_t kept = salvaged->block->header.sample_count;
    SHARDKIT_RETURN_IF_ERROR(writer_->Write(*salvaged->block, options_.cancellation));
    ++report_.blocks_recovered;
    report_.samples_recovered += kept;
    for (const auto& [begin, end] : salvaged->lost) {
      SHARDKIT_ASSIGN_OR_RETURN(std::vector<std::string> keys, ReadKeys(index, begin, end));
      dataset::ShardPiece lost = piece;
      lost.block_count = 0;  // the block is not lost
      Lose(lost, piece.first_sample + begin, end - begin, problem, std::move(keys), salvaged->damaged_columns);
    }
    return true;
  }

  // The keys of the samples [begin, end) of a block; empty when they cannot be read.
  absl::StatusOr<std::vector<std::string>> ReadKeys(size_t index, uint64_t begin, uint64_t end) {
    std::vector<std::string> keys;
    const std::optional<size_t> column = shard_->schema().key_column();
    if (!column || keys_left_ == 0) return keys;
    const size_t columns[] = {*column};
    BlockView view;
    const absl::Status read = shard_->ReadBlock(index, columns, &buffer_, &view);
    if (absl::IsDataLoss(read) || absl::IsOutOfRange(read) || absl::IsResourceExhausted(read)) return keys;
    SHARDKIT_RETURN_IF_ERROR(read);
    for (uint64_t i = begin; i < end && keys_left_ != 0; ++i) {
      const std::string_view key = view.column(*column).bytes(static_cast<uint32_t>(i));
      keys_left_ -= std::min(keys_left_, 1 + key.size() / kKeyUnit);
      keys.emplace_back(key);
    }
    return keys;
  }

  void Lose(const dataset::ShardPiece& piece, uint64_t first, uint64_t count, std::string reason,
            std::vector<std::string> keys, const std::vector<size_t>& columns = {}) {
    report_.samples_lost += count;
    report_.blocks_lost += piece.block_count;
    if (!report_.losses.empty() && keys.empty() && columns.empty()) {
      RepairLoss& last = report_.losses.back();
      const bool adjoins = last.first_sample + last.sample_count == first && last.first_block && piece.first_block &&
                           last.block_count != 0 && *last.first_block + last.block_count == *piece.first_block;
      if (adjoins && last.reason == reason && last.keys.empty() && last.columns.empty()) {
        last.sample_count += count;
        last.block_count += piece.block_count;
        return;
      }
    }
    RepairLoss loss{first, count, piece.first_block, piece.block_count, std::move(reason), {}, std::move(keys)};
    for (const size_t column : columns) loss.columns.push_back(header_.header.schema[column].name);
    report_.losses.push_back(std::move(loss));
  }

  std::string GapReason(const dataset::ShardPiece& piece) const {
    if (footer_.directory && piece.first_block) {
      const uint64_t offset = (*footer_.directory)[*piece.first_block].offset + header_.base;
      if (footer_.shift == header_.base && offset >= file_size_) return "the file ends before it";
    }
    return "its header is damaged or gone";
  }

  std::string DescribeColumns(const dataset::FoundBlock& found) const {
    if (found.damaged_columns.empty()) return "it was not looked at";
    std::string text = found.damaged_columns.size() == 1 ? "damaged column " : "damaged columns ";
    for (size_t i = 0; i < found.damaged_columns.size() && i < 8; ++i) {
      text += StrCat(i == 0 ? "" : ", ", "\"", header_.header.schema[found.damaged_columns[i]].name, "\"");
    }
    return found.damaged_columns.size() > 8 ? StrCat(text, " and others") : text;
  }

  void Progress(uint64_t bytes) const {
    if (options_.progress) options_.progress(bytes, 2 * file_size_);
  }

  static void Append(std::vector<std::string> from, std::vector<std::string>* to) {
    for (std::string& text : from) to->push_back(std::move(text));
  }

  FileSystem& file_system_;
  const RepairOptions& options_;
  const dataset::ListedShard* const listing_;
  uint64_t& keys_left_;
  std::unique_ptr<RandomAccessFile> file_;  // until `shard_` has it
  uint64_t file_size_ = 0;                  // without the blocks whose headers come from the footer
  dataset::HeaderFinding header_;
  dataset::FooterFinding footer_;
  dataset::ScanResult scan_;
  dataset::Selection selection_;
  std::unique_ptr<container::NativeShardReader> shard_;
  std::unique_ptr<container::ShardFileWriter> writer_;
  BlockBuffer buffer_;
  uint64_t taken_bytes_ = 0;  // of blocks that were copied or given up
  RepairReport report_;
};

}  // namespace

absl::Status dataset::RefuseOtherContainers(FileSystem& file_system, const std::string& path, const FileInfo& info) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view container, dataset::ForeignContainerAt(file_system, path, info));
  if (container.empty()) return absl::OkStatus();
  const bool directory = info.type == FileType::kDirectory;
  return InvalidArgument(path, ": is ", directory ? "a dataset" : "a shard", " of ", container,
                         ", which has no blocks to recover: take over the samples that can be read with shardctl "
                         "convert ",
                         path, " -o OUT --to ", container, " --on-error skip");
}

absl::StatusOr<RepairReport> dataset::RepairListedShard(FileSystem& file_system, const std::string& path,
                                                        const std::string& output, const RepairOptions& options,
                                                        const dataset::ListedShard* listing, uint64_t* keys_left) {
  return ShardRepair(file_system, path, output, options, listing, keys_left).Run();
}

absl::StatusOr<RepairReport> RepairShard(FileSystem& file_system, const std::string& path, const std::string& output,
                                         const RepairOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto listing, dataset::FindListing(file_system, path));
  uint64_t keys_left = options.max_keys;
  const auto unsynced = options.sync ? nullptr : io::WithoutSync(file_system);
  FileSystem& files = unsynced ? *unsynced : file_system;
  return Guarded("repairing", [&] {
    return dataset::RepairListedShard(files, path, output, options, listing ? &*listing : nullptr, &keys_left);
  });
}

}  // namespace shardkit
