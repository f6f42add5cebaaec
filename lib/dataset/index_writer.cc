#include "dataset/index_writer.h"

#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "dataset/key_table_builder.h"

namespace shardkit::dataset {
namespace {

std::string TemporaryIndex(const std::string& directory) { return JoinPath(directory, StrCat(kIndexName, ".tmp")); }

}  // namespace

TableReference ReferenceTo(const std::string& name, const format::TableTail& tail) {
  return {name, tail.table_length, tail.root_length() + format::kTableTailBytes, tail.checksum};
}

absl::StatusOr<std::unique_ptr<IndexWriter>> IndexWriter::Create(FileSystem& file_system,
                                                                 const std::string& directory) {
  std::unique_ptr<IndexWriter> writer(new IndexWriter());
  writer->file_system_ = &file_system;
  writer->directory_ = directory;
  SHARDKIT_ASSIGN_OR_RETURN(writer->file_, file_system.Create(TemporaryIndex(directory)));
  writer->table_ = std::make_unique<format::PagedTableWriter>(
      format::TableKind::kOffsetIndex,
      [file = writer->file_.get()](std::string_view bytes) { return file->Append(bytes); });
  return writer;
}

IndexWriter::~IndexWriter() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

absl::Status IndexWriter::AddBlock(const std::vector<std::string>& columns, format::IndexBlock block,
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

absl::Status IndexWriter::Add(const Schema& schema, const container::ShardIndexPart& part) {
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

absl::Status IndexWriter::EndPage() {
  const uint64_t first = page_.first_sample();
  return table_->AddPage(first, page_.Take());
}

absl::StatusOr<Segment> IndexWriter::Finish(const std::string& name, std::span<const ManifestShard> shards) {
  if (!page_.empty()) SHARDKIT_RETURN_IF_ERROR(EndPage());
  root_.dataset_hash = HashShards(shards);
  SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, table_->Finish(format::EncodeIndexRoot(root_)));
  SHARDKIT_RETURN_IF_ERROR(file_->Sync());
  SHARDKIT_RETURN_IF_ERROR(file_->Close());
  SHARDKIT_RETURN_IF_ERROR(file_system_->Rename(TemporaryIndex(directory_), JoinPath(directory_, name)));
  file_.reset();
  Segment segment{.shards = root_.shard_count, .samples = root_.sample_count, .blocks = root_.block_count};
  segment.index = ReferenceTo(name, tail);
  return segment;
}

absl::StatusOr<std::optional<TableReference>> IndexWriter::BuildKeys(const std::string& name,
                                                                     std::span<const ManifestShard> shards,
                                                                     const Cancellation* cancellation,
                                                                     DuplicateKeyFinder* repeated) const {
  std::vector<KeyTableInput> inputs;
  uint64_t sample = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!keys_[i]) return std::optional<TableReference>();
    inputs.push_back({JoinPath(directory_, shards[i].name), *keys_[i], shards[i].samples, sample});
    sample += shards[i].samples;
  }
  std::function<absl::Status(const format::KeyEntry&)> take;
  if (repeated) take = [&](const format::KeyEntry& entry) { return repeated->Add(entry); };
  SHARDKIT_ASSIGN_OR_RETURN(const format::TableTail tail, BuildKeyTable(*file_system_, JoinPath(directory_, name),
                                                                        std::move(inputs), cancellation, take));
  return ReferenceTo(name, tail);
}

absl::Status IndexWriter::Abort() {
  if (!file_) return absl::OkStatus();
  file_.reset();
  return file_system_->RemoveFile(TemporaryIndex(directory_));
}

}  // namespace shardkit::dataset
