#include "dataset/index_writer.h"

#include <algorithm>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace shardkit {
namespace {

std::string TemporaryIndex(const std::string& directory) { return JoinPath(directory, StrCat(kIndexName, ".tmp")); }
std::string TemporaryEnds(const std::string& directory) { return JoinPath(directory, "dataset.ends.tmp"); }

std::string_view AsBytes(const std::vector<uint64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint64_t)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<IndexWriter>> IndexWriter::Create(FileSystem& file_system,
                                                                 const std::string& directory) {
  std::unique_ptr<IndexWriter> writer(new IndexWriter());
  writer->file_system_ = &file_system;
  writer->directory_ = directory;
  SHARDKIT_ASSIGN_OR_RETURN(writer->ends_file_, file_system.Create(TemporaryEnds(directory)));
  return writer;
}

IndexWriter::~IndexWriter() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

absl::Status IndexWriter::Add(const Schema& schema, ShardIndexPart part) {
  std::vector<std::string> names;
  for (const size_t column : schema.indexed_columns()) names.push_back(schema[column].name);
  const auto known = std::ranges::find(blob_names_, names);
  const uint32_t shard = static_cast<uint32_t>(blob_names_of_shard_.size());
  blob_names_of_shard_.push_back(static_cast<uint32_t>(known - blob_names_.begin()));
  if (known == blob_names_.end()) blob_names_.push_back(std::move(names));
  for (const BlockInfo& block : part.blocks) blocks_.push_back({block, shard});
  return ends_file_->Append(AsBytes(part.ends));
}

absl::Status IndexWriter::AppendBody(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t taken = std::min<size_t>(bytes.size(), format::kIndexPageBytes - page_.size());
    page_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (page_.size() == format::kIndexPageBytes) SHARDKIT_RETURN_IF_ERROR(EndPage());
  }
  return absl::OkStatus();
}

absl::Status IndexWriter::EndPage() {
  if (page_.empty()) return absl::OkStatus();
  AppendLittle(page_hashes_, Hash64(page_));
  SHARDKIT_RETURN_IF_ERROR(file_->Append(page_));
  page_.clear();
  return absl::OkStatus();
}

absl::Status IndexWriter::WriteEnds(const Schema& schema) {
  // For every distinct list of blob columns of a shard: the position of each blob column of the dataset in that list.
  constexpr size_t kMissing = SIZE_MAX;
  std::vector<std::vector<size_t>> positions;
  for (const std::vector<std::string>& names : blob_names_) {
    positions.emplace_back();
    for (const size_t column : schema.indexed_columns()) {
      const auto found = std::ranges::find(names, schema[column].name);
      positions.back().push_back(found == names.end() ? kMissing : static_cast<size_t>(found - names.begin()));
    }
  }
  SHARDKIT_RETURN_IF_ERROR(ends_file_->Close());
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> collected,
                            file_system_->OpenForReading(ends_file_->path()));
  uint64_t offset = 0;
  std::vector<uint64_t> ends, missing;
  for (const Block& block : blocks_) {
    const uint32_t set = blob_names_of_shard_[block.shard];
    const size_t count = block.info.sample_count;
    ends.resize(count * blob_names_[set].size());
    SHARDKIT_RETURN_IF_ERROR(collected->ReadAt(offset, {reinterpret_cast<char*>(ends.data()), ends.size() * 8}));
    offset += ends.size() * 8;
    for (const size_t position : positions[set]) {
      if (position == kMissing) {
        missing.assign(count, block.info.offset + block.info.front_length);
        SHARDKIT_RETURN_IF_ERROR(AppendBody(AsBytes(missing)));
      } else {
        SHARDKIT_RETURN_IF_ERROR(AppendBody(AsBytes(ends).substr(8 * count * position, 8 * count)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status IndexWriter::WriteTables(const Manifest& manifest, std::string* names) {
  std::string entry;
  uint64_t sample = 0;
  const size_t blob_count = manifest.schema.indexed_columns().size();
  for (const Block& block : blocks_) {
    entry.clear();
    format::AppendIndexBlock({block.info.offset, block.info.length, block.info.front_length, sample,
                              block.info.sample_count, block.shard, block.info.header_checksum, sample * blob_count},
                             &entry);
    SHARDKIT_RETURN_IF_ERROR(AppendBody(entry));
    sample += block.info.sample_count;
  }
  uint64_t first_sample = 0, first_block = 0;
  for (const ManifestShard& shard : manifest.shards) {
    entry.clear();
    format::AppendIndexShard({first_sample, shard.samples, first_block, shard.blocks, shard.bytes, names->size(),
                              static_cast<uint32_t>(shard.name.size())},
                             &entry);
    SHARDKIT_RETURN_IF_ERROR(AppendBody(entry));
    *names += shard.name;
    first_sample += shard.samples;
    first_block += shard.blocks;
  }
  return AppendBody(*names);
}

absl::Status IndexWriter::Finish(const Manifest& manifest) {
  SHARDKIT_ASSIGN_OR_RETURN(file_, file_system_->Create(TemporaryIndex(directory_)));
  SHARDKIT_RETURN_IF_ERROR(file_->Append(std::string(format::kIndexHeaderBytes, '\0')));
  SHARDKIT_RETURN_IF_ERROR(WriteEnds(manifest.schema));
  std::string names;
  SHARDKIT_RETURN_IF_ERROR(WriteTables(manifest, &names));

  format::IndexHeader header;
  header.blob_column_count = static_cast<uint32_t>(manifest.schema.indexed_columns().size());
  header.shard_count = manifest.shards.size();
  header.block_count = blocks_.size();
  header.sample_count = manifest.samples();
  header.names_length = names.size();
  header.dataset_hash = manifest.dataset_hash();
  SHARDKIT_RETURN_IF_ERROR(
      AppendBody(std::string(header.pages_offset() - header.names_offset() - header.names_length, '\0')));
  SHARDKIT_RETURN_IF_ERROR(EndPage());
  header.pages_checksum = Hash64(page_hashes_);
  SHARDKIT_RETURN_IF_ERROR(file_->Append(page_hashes_));
  SHARDKIT_RETURN_IF_ERROR(file_->WriteAt(0, format::EncodeIndexHeader(header)));
  SHARDKIT_RETURN_IF_ERROR(file_->Sync());
  SHARDKIT_RETURN_IF_ERROR(file_->Close());
  SHARDKIT_RETURN_IF_ERROR(file_system_->Rename(TemporaryIndex(directory_), JoinPath(directory_, kIndexName)));
  file_.reset();
  ends_file_.reset();
  return file_system_->RemoveFile(TemporaryEnds(directory_));
}

absl::Status IndexWriter::Abort() {
  absl::Status status;
  if (file_) {
    file_.reset();
    status.Update(file_system_->RemoveFile(TemporaryIndex(directory_)));
  }
  if (ends_file_) {
    ends_file_.reset();
    status.Update(file_system_->RemoveFile(TemporaryEnds(directory_)));
  }
  return status;
}

}  // namespace shardkit
