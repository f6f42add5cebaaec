#include "dataset/check/validate_shard.h"

#include <algorithm>
#include <utility>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/read/shard_index_part.h"
#include "format/chunk.h"
#include "io/read_again.h"

namespace shardkit::dataset {
namespace {

// Larger blocks are checked piece by piece, and values larger than this are then checksummed but not decoded.
constexpr uint64_t kWholeBlock = uint64_t{64} << 20;

bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsOutOfRange(status) || absl::IsUnimplemented(status);
}

// The first field of section 5's table in which the two differ.
std::string FirstDifference(const ColumnStatistics& a, const ColumnStatistics& b) {
  if (a.present_count != b.present_count) return "present_count";
  if (a.value_bytes != b.value_bytes) return "value_bytes";
  if (a.stored_bytes != b.stored_bytes) return "stored_bytes";
  if (a.min_length != b.min_length) return "min_length";
  if (a.max_length != b.max_length) return "max_length";
  if (a.range_kind != b.range_kind) return "range_kind";
  if (a.minimum != b.minimum) return "minimum";
  if (a.maximum != b.maximum) return "maximum";
  const auto differs = std::ranges::mismatch(a.length_histogram, b.length_histogram);
  return StrCat("length_histogram entry ", differs.in1 - a.length_histogram.begin());
}

// Copies from the stored statistics what cannot be compared: the range of a type that is not known, and of a codec that
// is not known all but the stored bytes.
void TakeUnknown(const Column& column, const ColumnStatistics& stored, ColumnStatistics* found) {
  if (!IsKnownCodec(column.codec)) {
    const uint64_t bytes = found->stored_bytes;
    *found = stored;
    found->stored_bytes = bytes;
  } else if (!column.has_known_type()) {
    found->range_kind = stored.range_kind;
    found->minimum = stored.minimum;
    found->maximum = stored.maximum;
  }
}

class BlockCheck {
 public:
  BlockCheck(const container::NativeShardReader& shard, size_t index, const ValidateOptions& options,
             const MaskPairs* pairs, BlockBuffer* buffer)
      : shard_(shard),
        index_(index),
        deep_(options.deep),
        pairs_(pairs),
        buffer_(*buffer),
        cancellation_(options.cancellation),
        checker_(options.max_image_memory) {}

  absl::StatusOr<BlockFindings> Run() {
    const BlockInfo& info = shard_.blocks()[index_];
    const bool whole = RoundUp(info.length, shard_.alignment()) <= kWholeBlock;
    BlockView view;
    const absl::Status read =
        whole ? shard_.ReadKnownColumns(index_, &buffer_, &view) : shard_.ReadHeads(index_, &buffer_, &view);
    if (!read.ok()) {
      if (!IsDamage(read)) return read;
      findings_.problems.push_back(read);
      const absl::Status heads = whole ? shard_.ReadHeads(index_, &buffer_, &view) : read;
      if (heads.ok()) TakePlaces();
      if (!heads.ok() && !IsDamage(heads)) return heads;
      return std::move(findings_);
    }
    TakePlaces();
    format::BlockHeader header = buffer_.state().header;
    format::EncodeBlockHeader(header, &findings_.header_bytes);
    findings_.statistics.resize(shard_.schema().size());
    findings_.readable = true;
    for (size_t i = 0; i < shard_.schema().size(); ++i) {
      const format::ColumnEntry& entry = header.columns[i];
      const ColumnView& column = view.column(i);
      findings_.statistics[i].stored_bytes = entry.stored_length + entry.values_length;
      if (!IsKnownCodec(shard_.schema()[i].codec)) {
        if (!whole) SHARDKIT_RETURN_IF_ERROR(StreamUnknown(i, entry));
      } else if (shard_.schema()[i].has_values_chunk() && !whole) {
        SHARDKIT_RETURN_IF_ERROR(StreamColumn(i, column, entry));
      } else {
        CheckColumn(i, column);
      }
    }
    if (whole && pairs_ != nullptr) ComparePairs(view);
    if (!whole) {
      const uint64_t end = info.offset + info.length;
      std::string padding(RoundUp(end, shard_.alignment()) - end, '\0');
      SHARDKIT_RETURN_IF_ERROR(shard_.file().ReadAt(end, {padding.data(), padding.size()}));
      if (!format::AllZero(padding)) Report(shard_.PaddingDamage(index_));
    }
    findings_.undecoded_images = checker_.undecoded_images();
    return std::move(findings_);
  }

 private:
  void TakePlaces() { container::AppendPlaces(shard_, index_, buffer_, &findings_.places.emplace()); }

  void Report(const absl::Status& status) {
    findings_.problems.push_back(Annotate(status, shard_.DescribeBlock(index_)));
  }

  void ReportColumn(size_t column, const absl::Status& status) {
    Report(Annotate(status, StrCat("column ", column, " \"", shard_.schema()[column].name, "\"")));
  }

  void ReportValue(size_t column, uint32_t sample, const absl::Status& status) {
    ReportColumn(column,
                 DataLoss("sample ", shard_.blocks()[index_].first_sample + sample, ": ", ToStd(status.message())));
  }

  void CheckColumn(size_t i, const ColumnView& view) {
    const Column& column = shard_.schema()[i];
    if (column.is_blob()) {
      if (absl::Status status = format::CheckRecords(view); !status.ok()) ReportColumn(i, status);
    } else if (column.is_paged()) {
      const container::PagedColumn& paged = buffer_.state().paged[i];
      for (size_t k = 0; k < paged.table.size(); ++k) {
        const std::string_view page = paged.values.substr(paged.table.begin(k), paged.table.length(k));
        absl::Status status = format::CheckPageChecksum(page);
        const uint32_t first = paged.table.first(k);
        const uint64_t length = view.present(first) ? view.bytes(first).size() : 0;
        if (status.ok() && k > 0) status = paged.table.CheckFull(k - 1, length);
        if (!status.ok()) ReportColumn(i, Annotate(status, paged.table.Describe(k)));
      }
    } else if (column.nullable && column.fixed_size()) {
      if (absl::Status status = format::CheckAbsentSlots(view); !status.ok()) ReportColumn(i, status);
    }
    for (uint32_t sample = 0; sample < view.size(); ++sample) {
      if (view.present(sample)) TakeValue(i, sample, view.bytes(sample));
    }
  }

  void TakeValue(size_t i, uint32_t sample, std::string_view value) {
    const Column& column = shard_.schema()[i];
    findings_.statistics[i].Add(column, value.data(), value.size());
    if (column.is_key) findings_.key_hashes.push_back(Hash64(value));
    if (!deep_) return;
    Decode(i, sample, value);
  }

  void Decode(size_t i, uint32_t sample, std::string_view value) {
    const absl::Status status = checker_.Check(shard_.schema()[i], value);
    if (!status.ok()) return ReportValue(i, sample, status);
    if (checker_.warning().empty()) return;
    findings_.warned_images.Add({1, StrCat("sample ", shard_.blocks()[index_].first_sample + sample, ", column \"",
                                           shard_.schema()[i].name, "\": ", checker_.warning())});
  }

  void ComparePairs(const BlockView& view) {
    for (const size_t column : pairs_->masks()) {
      for (uint32_t sample = 0; sample < view.sample_count(); ++sample) {
        if (absl::Status status = pairs_->Check(view, sample, column); !status.ok())
          ReportValue(column, sample, status);
      }
    }
  }

  // Checks the values chunk of a block that is too large for memory, value by value and in pieces.
  absl::Status StreamColumn(size_t i, const ColumnView& view, const format::ColumnEntry& entry) {
    const uint64_t base = shard_.blocks()[index_].offset + entry.values_offset;
    StreamingHash chunk_hash;
    if (shard_.schema()[i].is_paged()) {
      SHARDKIT_RETURN_IF_ERROR(StreamPages(i, base, &chunk_hash));
    } else {
      uint64_t begin = 0;
      for (uint32_t sample = 0; sample < view.size(); ++sample) {
        if (!view.present(sample)) continue;
        SHARDKIT_RETURN_IF_ERROR(StreamRecord(i, sample, base + begin, base + view.end(sample), &chunk_hash));
        begin = view.end(sample);
      }
    }
    const uint64_t padding = RoundUp(entry.values_length, format::kChunkAlignment) - entry.values_length;
    if (padding != 0) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::string_view zeros, ReadPiece(base + entry.values_length, padding));
      chunk_hash.Update(zeros);
      if (!format::AllZero(zeros)) ReportColumn(i, DataLoss("padding after the values chunk is not zero"));
    }
    if (chunk_hash.Digest() != entry.values_checksum) {
      ReportColumn(i, DataLoss("values chunk checksum is wrong"));
    }
    return absl::OkStatus();
  }

  // Checks a value and the checksum behind it, which end at byte `end` of the file.
  absl::Status StreamRecord(size_t i, uint32_t sample, uint64_t begin, uint64_t end, StreamingHash* chunk_hash) {
    const Column& column = shard_.schema()[i];
    const uint64_t length = end - format::kValueChecksumBytes - begin;
    const bool decode = deep_ && length <= kWholeBlock;
    StreamingHash value_hash;
    std::string whole_value;
    for (uint64_t done = 0; done < length;) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::string_view piece, ReadPiece(begin + done, length - done));
      value_hash.Update(piece);
      chunk_hash->Update(piece);
      if (decode) whole_value += piece;
      done += piece.size();
    }
    SHARDKIT_ASSIGN_OR_RETURN(const std::string_view checksum, ReadPiece(begin + length, format::kValueChecksumBytes));
    chunk_hash->Update(checksum);
    if (value_hash.Digest() != LoadLittle<uint64_t>(checksum.data())) {
      ReportValue(i, sample, DataLoss("value checksum is wrong"));
    }
    findings_.statistics[i].Add(column, nullptr, length);
    if (!decode) return absl::OkStatus();
    Decode(i, sample, whole_value);
    return absl::OkStatus();
  }

  absl::Status StreamPages(size_t i, uint64_t base, StreamingHash* chunk_hash) {
    const format::PageTable& table = buffer_.state().paged[i].table;
    std::vector<uint64_t> begins, ends;
    for (size_t k = 0; k < table.size(); ++k) {
      const uint32_t first = table.first(k);
      uint64_t first_length = table.length(k) - format::kPageChecksumBytes;
      absl::Status status;
      if (table.length(k) > format::kPageBytes) {  // of a single value, which is present
        SHARDKIT_RETURN_IF_ERROR(StreamRecord(i, first, base + table.begin(k), base + table.end(k), chunk_hash));
      } else {
        SHARDKIT_ASSIGN_OR_RETURN(const std::string_view page, ReadPiece(base + table.begin(k), table.length(k)));
        chunk_hash->Update(page);
        begins.resize(table.count(k));
        ends.resize(table.count(k));
        status = format::CheckPageChecksum(page);
        if (status.ok()) status = table.Place(k, page, begins.data(), ends.data());
        for (uint32_t sample = first; sample < table.last(k) && status.ok(); ++sample) {
          const uint64_t begin = begins[sample - first], end = ends[sample - first];
          if (table.present(sample)) TakeValue(i, sample, page.substr(begin - table.begin(k), end - begin));
        }
        if (status.ok()) first_length = ends[0] - begins[0];
      }
      if (status.ok() && k > 0) status = table.CheckFull(k - 1, first_length);
      if (!status.ok()) ReportColumn(i, Annotate(status, table.Describe(k)));
    }
    return absl::OkStatus();
  }

  // Checks the values chunk of a column whose codec is not known.
  absl::Status StreamUnknown(size_t i, const format::ColumnEntry& entry) {
    if (!shard_.schema()[i].has_values_chunk()) return absl::OkStatus();
    const uint64_t begin = shard_.blocks()[index_].offset + entry.values_offset;
    const uint64_t length = RoundUp(entry.values_length, format::kChunkAlignment);
    StreamingHash hash;
    for (uint64_t done = 0; done < length; done += piece_.size()) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::string_view piece, ReadPiece(begin + done, length - done));
      hash.Update(piece);
      const uint64_t values =
          std::min<uint64_t>(piece.size(), entry.values_length - std::min(done, entry.values_length));
      if (!format::AllZero(piece.substr(values))) {
        ReportColumn(i, DataLoss("padding after the values chunk is not zero"));
      }
    }
    if (hash.Digest() != entry.values_checksum) ReportColumn(i, DataLoss("values chunk checksum is wrong"));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string_view> ReadPiece(uint64_t offset, uint64_t length) {
    if (cancellation_) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("checking a large value"));
    piece_.resize_discard(std::min(kCopyPiece, length));
    SHARDKIT_RETURN_IF_ERROR(shard_.file().ReadAt(offset, {piece_.data(), piece_.size()}));
    return piece_.view();
  }

  const container::NativeShardReader& shard_;
  const size_t index_;
  const bool deep_;
  const MaskPairs* const pairs_;
  BlockBuffer& buffer_;
  const Cancellation* const cancellation_;
  BlockFindings findings_;
  DeepChecker checker_;
  Buffer piece_;
};

}  // namespace

ShardRun ShardsOfTask(const ValidateOptions& options, size_t shards) {
  // The quotient and the remainder apart, so that nothing overflows.
  const uint64_t each = shards / options.tasks, rest = shards % options.tasks;
  const auto first = [&](uint64_t task) { return static_cast<size_t>(each * task + std::min(rest, task)); };
  return {first(options.task), first(options.task + 1)};
}

absl::StatusOr<BlockFindings> CheckBlock(const container::NativeShardReader& shard, size_t index,
                                         const ValidateOptions& options, const MaskPairs* pairs, BlockBuffer* buffer) {
  auto findings = BlockCheck(shard, index, options, pairs, buffer).Run();
  // What only arrived damaged is right the next time.
  const bool again = findings.ok() && !findings->problems.empty() && shard.file().hints().worth_reading_again;
  return again ? BlockCheck(shard, index, options, pairs, buffer).Run() : std::move(findings);
}

ShardAccount::ShardAccount(const container::NativeShardReader& shard)
    : shard_(shard), statistics_(shard.schema().size()) {
  // A decoded header has only one encoded form, so encoding it gives the bytes of the file.
  format::FileHeader header = shard.header();
  header_bytes_ = format::EncodeFileHeader(header);
  content_hash_.Update(header_bytes_);
}

void ShardAccount::Add(size_t index, BlockFindings findings, const ProblemSink& report) {
  for (const absl::Status& problem : findings.problems) report(problem);
  if (findings.readable) {
    if (index == 0) {
      first_entries_ = findings.header_bytes.substr(56, findings.header_bytes.size() - 64);
    }
    content_hash_.Update(findings.header_bytes);
    block_headers_ += findings.header_bytes;
    format::AppendBlockRanges(shard_.schema(), findings.statistics, &block_ranges_);
    for (size_t i = 0; i < statistics_.size(); ++i) statistics_[i].Merge(findings.statistics[i]);
    key_hashes_.insert(key_hashes_.end(), findings.key_hashes.begin(), findings.key_hashes.end());
  } else {
    complete_ = false;
    block_headers_.resize(block_headers_.size() + format::BlockHeaderLength(shard_.schema().size()), '\0');
    format::AppendBlockRanges(shard_.schema(), std::vector<ColumnStatistics>(shard_.schema().size()), &block_ranges_);
  }
  readable_.push_back(findings.readable);
}

absl::Status ShardAccount::CheckKeyIndex() {
  SHARDKIT_ASSIGN_OR_RETURN(const auto table, shard_.OpenKeyTable());
  SHARDKIT_RETURN_IF_ERROR(table->CheckAll());
  container::KeyTableComparison comparison(*table);
  const bool known = IsKnownCodec(shard_.schema()[*shard_.schema().key_column()].codec);
  if (complete_ && known) {
    std::vector<format::KeyEntry> entries(key_hashes_.size());
    for (size_t i = 0; i < entries.size(); ++i) entries[i] = {key_hashes_[i], i};
    std::ranges::sort(entries);
    for (const format::KeyEntry& entry : entries) SHARDKIT_RETURN_IF_ERROR(comparison.Add(entry));
  } else {
    // What the keys are that cannot be read is not known: each sample stands there once, in order.
    std::vector<bool> seen(table->count());
    container::KeyCursor cursor(*table);
    for (format::KeyEntry entry;;) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, cursor.Next(&entry));
      if (!more) break;
      if (seen[entry.ordinal]) return table->Damage(StrCat("sample ", entry.ordinal, " occurs twice"));
      seen[entry.ordinal] = true;
      SHARDKIT_RETURN_IF_ERROR(comparison.Add(entry));
    }
  }
  return comparison.Finish();
}

absl::StatusOr<std::optional<std::string>> ShardAccount::ReadOptionalSection(format::SectionKind kind,
                                                                             const ProblemSink& report) {
  absl::StatusOr<std::string> bytes = shard_.ReadSection(kind);
  if (bytes.ok()) return std::move(*bytes);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  if (!IsDamage(bytes.status())) return bytes.status();
  report(bytes.status());
  return std::nullopt;
}

absl::Status ShardAccount::CheckBlockHeaders(const ProblemSink& report) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto stored, ReadOptionalSection(format::SectionKind::kBlockHeaders, report));
  if (!stored) return absl::OkStatus();
  const size_t length = format::BlockHeaderLength(shard_.schema().size());
  for (size_t block = 0; block < readable_.size(); ++block) {
    if (!readable_[block] || stored->compare(length * block, length, block_headers_, length * block, length) == 0)
      continue;
    report(DataLoss(shard_.path(), ": block headers: the copy of block ", block, " is not the header of that block"));
  }
  return absl::OkStatus();
}

absl::Status ShardAccount::CheckBlockRanges(const std::vector<ColumnStatistics>* statistics,
                                            const ProblemSink& report) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto bytes, ReadOptionalSection(format::SectionKind::kBlockRanges, report));
  // Without the types it is not known which columns have a range.
  if (!bytes || !format::TypesAreKnown(shard_.schema())) return absl::OkStatus();
  const auto stored = format::DecodeBlockRanges(shard_.schema(), shard_.blocks(), *bytes);
  if (!stored.ok()) {
    report(DataLoss(shard_.path(), ": ", ToStd(stored.status().message())));
    return absl::OkStatus();
  }
  SHARDKIT_ASSIGN_OR_RETURN(const BlockRanges actual,
                            format::DecodeBlockRanges(shard_.schema(), shard_.blocks(), block_ranges_));
  for (size_t i = 0; i < stored->ranges.size(); ++i) {
    const size_t block = i / stored->columns.size(), column = stored->columns[i % stored->columns.size()];
    if (!readable_[block] || !IsKnownCodec(shard_.schema()[column].codec)) continue;
    if (stored->ranges[i] == actual.ranges[i]) continue;
    report(DataLoss(shard_.path(), ": block ranges: block ", block, ": column ", column, " \"",
                    shard_.schema()[column].name, "\": its range is not that of its values"));
  }
  // Where all blocks can be read, both are compared with the values.
  if ((complete_ && format::RangesCanBeFound(shard_.schema())) || statistics == nullptr) return absl::OkStatus();
  const absl::Status same = format::CompareBlockRanges(shard_.schema(), *stored, *statistics);
  if (!same.ok()) report(DataLoss(shard_.path(), ": ", ToStd(same.message())));
  return absl::OkStatus();
}

absl::Status ShardAccount::Finish(const ProblemSink& report) {
  const format::FileHeader& header = shard_.header();
  std::string front(RoundUp(header.length, header.alignment), '\0');
  bool read = false;
  const absl::Status padding = io::RetryIfDamaged(shard_.file(), [&]() -> absl::Status {
    SHARDKIT_RETURN_IF_ERROR(shard_.file().ReadAt(0, {front.data(), front.size()}));
    read = true;
    if (format::AllZero(std::string_view(front).substr(header.length))) return absl::OkStatus();
    return DataLoss(shard_.path(), ": padding between the header and ",
                    shard_.blocks().empty() ? "the footer" : "block 0", ", from byte ", header.length, ", is not zero");
  });
  if (!read) return padding;
  if (!padding.ok()) report(padding);
  for (const auto& [column, status] : shard_.damaged_dictionaries()) {
    report(DataLoss(shard_.path(), ": header: column ", column, " \"", shard_.schema()[column].name,
                    "\": ", ToStd(status.message())));
  }
  if (readable_.empty() || readable_.front()) {
    if (format::ShardId(header, first_entries_) != header.shard_id) {
      report(DataLoss(shard_.path(), ": header: shard id is not that of the header and the first block"));
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(const auto copy, ReadOptionalSection(format::SectionKind::kHeader, report));
  if (copy && *copy != header_bytes_) {
    report(DataLoss(shard_.path(), ": header copy: it is not the shard's header"));
  }
  SHARDKIT_RETURN_IF_ERROR(CheckBlockHeaders(report));
  for (const format::Section& section : shard_.sections()) {
    const bool keys = section.kind == static_cast<uint32_t>(format::SectionKind::kKeyIndex);
    if (!keys && format::IsKnownSection(section.kind)) continue;
    absl::Status status = shard_.CheckSection(section);
    if (status.ok() && keys) status = io::RetryIfDamaged(shard_.file(), [this] { return CheckKeyIndex(); });
    if (!status.ok() && !IsDamage(status)) return status;
    if (!status.ok()) report(status);
  }
  const auto metadata = shard_.ReadMetadata();
  if (!metadata.ok()) {
    if (!IsDamage(metadata.status())) return metadata.status();
    report(metadata.status());
  }
  const auto statistics = shard_.ReadStatistics();
  if (!statistics.ok()) {
    if (!IsDamage(statistics.status())) return statistics.status();
    report(statistics.status());
  } else if (complete_) {
    for (size_t i = 0; i < statistics_.size(); ++i) {
      TakeUnknown(shard_.schema()[i], (*statistics)[i], &statistics_[i]);
      if ((*statistics)[i] == statistics_[i]) continue;
      report(DataLoss(shard_.path(), ": statistics: column ", i, " \"", shard_.schema()[i].name,
                      "\": ", FirstDifference((*statistics)[i], statistics_[i]), " is not that of its values"));
    }
  }
  SHARDKIT_RETURN_IF_ERROR(CheckBlockRanges(statistics.ok() ? &*statistics : nullptr, report));
  if (complete_ && content_hash_.Digest128() != shard_.content_hash()) {
    report(DataLoss(shard_.path(), ": trailer: content hash is not that of the header and the blocks"));
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
