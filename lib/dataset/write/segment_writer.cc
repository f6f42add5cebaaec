#include "dataset/write/segment_writer.h"

#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "format/shard_list.h"

namespace shardkit::dataset {
namespace {

std::string TemporaryPath(const std::string& directory) { return JoinPath(directory, StrCat(kSegmentName, ".tmp")); }

}  // namespace

TableReference ReferenceTo(const std::string& name, const format::TableTail& tail) {
  return {name, tail.table_length, tail.root_length + format::kTableTailBytes, tail.checksum};
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> SegmentWriter::Create(FileSystem& file_system,
                                                                     const std::string& directory) {
  std::unique_ptr<SegmentWriter> writer(new SegmentWriter());
  writer->file_system_ = &file_system;
  writer->directory_ = directory;
  SHARDKIT_ASSIGN_OR_RETURN(writer->file_, file_system.Create(TemporaryPath(directory)));
  writer->table_ = std::make_unique<format::PagedTableWriter>(
      [file = writer->file_.get()](std::string_view bytes) { return file->Append(bytes); });
  return writer;
}

SegmentWriter::~SegmentWriter() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

absl::Status SegmentWriter::AddBlock(const std::vector<std::string>& columns, format::IndexBlock block,
                                     std::span<const uint64_t> places) {
  if (!page_.empty() && page_.SizeWith(places.size()) > format::kTablePageBytes) SHARDKIT_RETURN_IF_ERROR(EndPage());
  block.first_sample = root_.sample_count;
  block.shard = static_cast<uint32_t>(root_.shard_count);
  const auto [layout, is_new] = layouts_.try_emplace(columns, static_cast<uint32_t>(root_.layouts.size()));
  if (is_new) root_.layouts.emplace_back(layout->first.begin(), layout->first.end());
  block.layout = layout->second;
  page_.Add(block, places);
  root_.sample_count += block.sample_count;
  ++root_.block_count;
  return absl::OkStatus();
}

absl::Status SegmentWriter::Add(const Schema& schema, const container::ShardIndexPart& part) {
  std::vector<std::string> columns;
  for (const size_t column : container::IndexedColumns(schema)) columns.push_back(schema[column].name);
  std::span<const uint64_t> places = part.places;
  for (const BlockInfo& block : part.blocks) {
    const size_t count = columns.size() * (size_t{block.sample_count} + 1);
    SHARDKIT_RETURN_IF_ERROR(AddBlock(columns,
                                      {.offset = block.offset,
                                       .length = block.length,
                                       .front_length = block.front_length,
                                       .sample_count = block.sample_count,
                                       .header_checksum = block.header_checksum},
                                      places.first(count)));
    places = places.subspan(count);
  }
  keys_.push_back(part.keys);
  EndShard();
  return absl::OkStatus();
}

absl::Status SegmentWriter::EndPage() {
  const uint64_t first = page_.first_sample();
  return table_->AddPage(first, page_.Take());
}

std::optional<std::vector<KeyTableInput>> SegmentWriter::KeysOf(const ManifestSummary& dataset,
                                                                std::span<const ManifestShard> shards) const {
  std::vector<KeyTableInput> inputs;
  uint64_t sample = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!keys_[i]) return std::nullopt;
    inputs.push_back({dataset.PathOf(directory_, shards[i].name), *keys_[i], shards[i].samples, sample});
    sample += shards[i].samples;
  }
  return inputs;
}

absl::Status SegmentWriter::AddList(std::span<const ManifestShard> shards) {
  format::ShardListTotals totals;
  std::vector<format::ShardEntry> entries;
  for (const ManifestShard& shard : shards) {
    if (shard.name.size() > format::kMaxShardNameBytes) {
      return InvalidArgument(JoinPath(directory_, shard.name), ": the name of a shard has more than ",
                             format::kMaxShardNameBytes, " bytes: rename the file");
    }
    entries.push_back(
        {totals.samples, shard.samples, shard.bytes, shard.blocks, shard.content_hash, shard.sha256, shard.name});
    ++totals.shards;
    totals.samples += shard.samples;
    totals.blocks += shard.blocks;
    totals.bytes += shard.bytes;
    if (entries.size() < format::kShardsOfPage && totals.shards < shards.size()) continue;
    SHARDKIT_RETURN_IF_ERROR(table_->AddPage(entries[0].first_sample, format::EncodeShardPage(entries)));
    entries.clear();
  }
  return table_->EndSection(format::TableKind::kShardList, format::EncodeShardListTotals(totals));
}

absl::StatusOr<Segment> SegmentWriter::Finish(const std::string& name, std::span<const ManifestShard> shards,
                                              const KeySources& keys) {
  if (!page_.empty()) SHARDKIT_RETURN_IF_ERROR(EndPage());
  root_.dataset_hash = HashShards(shards);
  SHARDKIT_RETURN_IF_ERROR(table_->EndSection(format::TableKind::kOffsetIndex, format::EncodeIndexRoot(root_)));
  SHARDKIT_RETURN_IF_ERROR(AddList(shards));
  if (keys.tables) {
    std::function<absl::Status(const format::KeyEntry&)> take;
    if (keys.repeated) take = [&](const format::KeyEntry& entry) { return keys.repeated->Add(entry); };
    SHARDKIT_ASSIGN_OR_RETURN(
        const std::string payload,
        MergeKeys(*file_system_, JoinPath(directory_, kSegmentName), *keys.tables, keys.cancellation, take,
                  [&](uint64_t first, std::string_view page) { return table_->AddPage(first, page); }));
    SHARDKIT_RETURN_IF_ERROR(table_->EndSection(format::TableKind::kKeys, payload));
  }
  if (keys.check) SHARDKIT_RETURN_IF_ERROR(keys.check());
  SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, table_->Finish());
  SHARDKIT_RETURN_IF_ERROR(file_->Sync());
  SHARDKIT_RETURN_IF_ERROR(file_->Close());
  SHARDKIT_RETURN_IF_ERROR(file_system_->Rename(TemporaryPath(directory_), JoinPath(directory_, name)));
  file_.reset();
  return Segment{.shards = root_.shard_count,
                 .samples = root_.sample_count,
                 .blocks = root_.block_count,
                 .table = ReferenceTo(name, tail)};
}

absl::Status SegmentWriter::Abort() {
  if (!file_) return absl::OkStatus();
  file_.reset();
  return file_system_->RemoveFile(TemporaryPath(directory_));
}

}  // namespace shardkit::dataset
