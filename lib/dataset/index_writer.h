// Writes the offset index of one segment, shard by shard, in memory proportional to the number of its pages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/shard_index_part.h"
#include "dataset/duplicate_key_finder.h"
#include "format/index_layout.h"
#include "format/paged_table.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"

namespace shardkit::dataset {

// What a manifest says of a table that was written to a file.
TableReference ReferenceTo(const std::string& name, const format::TableTail& tail);

// One thread at a time. Writes to dataset.idx.tmp.
class IndexWriter {
 public:
  static absl::StatusOr<std::unique_ptr<IndexWriter>> Create(FileSystem& file_system, const std::string& directory);
  ~IndexWriter();

  // `schema` is the shard's.
  absl::Status Add(const Schema& schema, const container::ShardIndexPart& part);

  // The same in pieces: EndShard after the shard's blocks. `columns` are the shard's blob columns. Of `block`, offset,
  // length, front_length, sample_count and header_checksum are used. `places` are as in ShardIndexPart.
  absl::Status AddBlock(const std::vector<std::string>& columns, format::IndexBlock block,
                        std::span<const uint64_t> places);
  void EndShard() { ++root_.shard_count; }

  // Completes and flushes the file, and renames it to `name` in the directory. `shards` are those that were added.
  absl::StatusOr<Segment> Finish(const std::string& name, std::span<const ManifestShard> shards);

  // The table of the keys of these shards, which were added whole, made of those that they have, at `name` in the
  // directory. Empty when they have none. `repeated`, which may be null, takes its entries.
  absl::StatusOr<std::optional<TableReference>> BuildKeys(const std::string& name,
                                                          std::span<const ManifestShard> shards,
                                                          const Cancellation* cancellation,
                                                          DuplicateKeyFinder* repeated = nullptr) const;

  absl::Status Abort();

 private:
  IndexWriter() = default;
  absl::Status EndPage();

  FileSystem* file_system_ = nullptr;
  std::string directory_;
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<format::PagedTableWriter> table_;
  format::IndexPageBuilder page_;
  format::IndexRoot root_;
  std::map<std::vector<std::string>, uint32_t> layouts_;
  std::vector<std::optional<container::TablePlace>> keys_;  // of each shard that was added whole
};

}  // namespace shardkit::dataset
